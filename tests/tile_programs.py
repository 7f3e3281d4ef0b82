"""Programs of many convolutions side by side, each with an input of its own size: one compilation tests them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from blrc.net.bits import pack_signs
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, DType, Program, Scores, Value, Window

# Height, width, input channels, output channels, window, pool; groups, where there are several.
Case = tuple[int, int, int, int, Window, Window | None] | tuple[int, int, int, int, Window, Window | None, int]

SAME = Window((3, 3), padding=(1, 1, 1, 1))
HALF = Window((2, 2), (2, 2))
ONE = Window((1, 1))


def _wide(channels: int, outputs: int) -> list[Case]:
    """Dense layers of one pixel."""
    return [(1, 1, channels, outputs, ONE, None)]


EDGES: list[list[Case]] = [
    # Words of a tap, with and without a second one in the unit; rows of a block; pixels of a tile.
    [
        (5, 5, 1, 33, SAME, None),
        (5, 7, 33, 1, SAME, None),
        (4, 6, 64, 32, SAME, HALF),
        (6, 6, 65, 31, Window((3, 3), padding=(0, 1, 2, 0)), None),
        (7, 6, 96, 64, Window((3, 2), (2, 1), (1, 1, 1, 1)), None),
        (8, 9, 40, 65, Window((2, 3), (1, 2), (1, 2, 0, 2), (3, 2)), None),
        (9, 9, 32, 34, Window((5, 5), padding=(2, 2, 2, 2)), Window((3, 3), (2, 2), (1, 1, 1, 1))),
        (3, 2, 128, 33, ONE, None),
        (2, 2, 32, 32, SAME, Window((2, 2), (1, 1), (1, 1, 1, 1), (2, 2))),
    ],
    # Units of a run around those that are looked up or counted together; more blocks than share look-ups.
    [
        *(case for words in (2, 6, 7, 8, 31, 60, 62, 63, 64, 66, 124, 126) for case in _wide(32 * words, 33)),
        (3, 3, 192, 16 * 32 + 1, SAME, None),
        (3, 3, 256, 33, SAME, None),  # pixels together, of more units than are added up at once
        (1, 6, 64, 16 * 32, ONE, None),
        (1, 7, 65, 17 * 32 + 3, Window((1, 3), padding=(0, 1, 0, 1)), None),
        (1, 13, 130, 32, Window((1, 13)), None),
    ],
]


# First layers: quads of codes around those that are added up in 16 bits, rows of a block, pixels of a tile, padding of
# all kinds. All cases of a list read the same input.
CODE_EDGES: list[list[Case]] = [
    [
        (6, 7, 1, outputs, window, pool)
        for outputs, window, pool in (
            (33, SAME, HALF),
            (32, SAME, None),
            (1, ONE, None),
            (31, Window((6, 7)), None),
            (64, Window((3, 2), (2, 1), (1, 0, 2, 1)), Window((3, 3), (2, 2), (1, 1, 1, 1))),
            (5, Window((2, 3), (1, 2), (3, 4, 0, 2), (3, 2)), None),
            (65, Window((5, 5), padding=(2, 2, 2, 2)), Window((2, 2), (1, 1), (1, 1, 1, 1), (2, 2))),
            (8, Window((2, 2)), Window((2, 2), (1, 1))),
            (9, Window((2, 2), (2, 2)), Window((1, 3), (2, 1))),
        )
    ],
    [
        (5, 8, 3, outputs, window, pool)
        for outputs, window, pool in (
            (64, SAME, None),
            (34, SAME, HALF),
            (7, Window((3, 3), (3, 2), (0, 2, 1, 0), (1, 3)), None),
            (96, Window((5, 8)), None),
            (3, Window((1, 1), padding=(2, 2, 2, 2)), Window((4, 4), (4, 4), (2, 2, 2, 2))),
            # One pixel before pooling, and several behind it.
            (33, Window((5, 8)), Window((2, 2), (1, 1), (1, 1, 1, 1))),
        )
    ],
    [
        (9, 9, 5, outputs, window, None)
        for outputs, window in (
            *((33, Window(kernel)) for kernel in ((2, 6), (3, 5), (2, 7), (8, 6), (7, 7), (9, 7), (6, 9))),
            *((40, Window(kernel)) for kernel in ((9, 9), (9, 8))),
        )
    ],
]


# Bit-sliced layers: rows that fill their bytes or not, vectors that end in a row, channels that fill words or not,
# groups of outputs that are full or not, borders of all kinds, pooled with and without odd rows and columns.
LANE_EDGES: list[Case] = [
    (16, 16, 16, 32, SAME, None),
    (14, 14, 8, 33, SAME, HALF),
    (13, 15, 24, 65, SAME, HALF),
    (32, 32, 40, 40, SAME, HALF),
    (40, 24, 32, 32, SAME, HALF),
    (1, 256, 64, 34, SAME, None),
    (2, 125, 8, 64, SAME, HALF),
    (10, 23, 56, 63, SAME, None),
    (16, 16, 112, 32, SAME, None),
    (8, 32, 904, 32, SAME, None),
    (16, 16, 3, 36, SAME, HALF),
    (16, 16, 33, 37, SAME, None),
    (16, 48, 1, 38, SAME, None),
    (16, 16, 256, 39, SAME, HALF),
]


def random_maps(rng: np.random.Generator, count: int) -> list[Case]:
    """Layers that are bit-sliced, of any size."""
    found: list[Case] = []
    while len(found) < count:
        height, width = (int(n) for n in rng.integers(1, 50, 2))
        lanes = -(-height * -(-width // 8) // 32) * 256
        if height * width >= 0.38 * lanes:
            pool = HALF if min(height, width) > 1 and rng.random() < 0.5 else None
            found.append(
                (height, width, int(rng.choice([1, 5, 8, 16, 24, 31, 64])), int(rng.integers(32, 70)), SAME, pool)
            )
    return found


def random_cases(rng: np.random.Generator, count: int, codes: bool) -> list[Case]:
    """Convolutions of any shape; those of codes read one input."""
    found: list[Case] = []
    size = tuple(int(n) for n in rng.integers(1, 12, 2))
    channels = int(rng.integers(1, 8))
    while len(found) < count:
        if not codes:
            size = tuple(int(n) for n in rng.integers(1, 12, 2))
            channels = int(rng.choice([1, 7, 8, 31, 32, 33, 64, 65, 96, 128]))
        kernel, stride, dilation = (tuple(int(n) for n in rng.integers(1, most, 2)) for most in (5, 4, 3))
        padding = tuple(int(n) for n in rng.integers(0, 4, 4))
        window = Window(kernel, stride, padding, dilation)  # type: ignore[arg-type]
        inner = window.output(*size)
        pool = None
        if rng.random() < 0.5:
            size_of_pool, step = (tuple(int(n) for n in rng.integers(1, most, 2)) for most in (4, 3))
            around = tuple(int(rng.integers(0, size_of_pool[i % 2])) for i in range(4))
            pool = Window(size_of_pool, step, around)  # type: ignore[arg-type]
        if min(inner) >= 1 and (pool is None or min(pool.output(*inner)) >= 1):
            found.append((*size, channels, int(rng.choice([1, 31, 32, 33, 64, 65])), window, pool))  # type: ignore[arg-type]
    return found


def many_convs(cases: Sequence[Case], seed: int = 0, dtype: DType = "bits") -> Program:
    """A program whose convolution i is `cases[i]`. The first one reads the input and decides its size; each other one
    reads a map of its own size, which another convolution makes of the input. Codes they all read from the input."""
    rng = np.random.default_rng(seed)
    height, width, channels = cases[0][:3]
    x = Value("input", dtype, (height, width, channels))
    assert dtype == "bits" or all(case[:3] == x.shape for case in cases)
    ops: list[Conv] = []
    constants: dict[str, NDArray[Any]] = {}

    def conv(name: str, at: Value, outputs: int, window: Window, pool: Window | None, groups: int = 1) -> Value:
        size = window.output(*at.shape[:2])
        size = size if pool is None else pool.output(*size)
        op = Conv(
            name, at, Value(f"{name}.y", "bits", (*size, outputs)), f"{name}.w", f"{name}.t", window, groups, pool
        )
        signs = rng.integers(0, 2, (outputs, *window.kernel, at.shape[2] // groups)) * 2 - 1
        signs[::5], signs[1::5] = 1, -1
        constants[op.weights] = pack_signs(signs)
        peak = 1 if at.dtype == "bits" else 128
        around = np.round(rng.normal(0.3, 0.5, outputs) * op.fan_in**0.5 * max(1, peak / 2)).astype(np.int32)
        most = peak * op.fan_in
        around[::7] = rng.choice([-most, most + 1], len(around[::7]))  # always, never
        constants[op.thresholds] = around.clip(-most, most + 1)
        ops.append(op)
        return op.y

    for i, (h, w, c, outputs, window, pool, *groups) in enumerate(cases):
        at = x
        if (h, w, c) != x.shape:
            # Any map of that size: padding makes it as large as is needed.
            feed = Window((1, 1), padding=(0, 0, max(0, h - height), max(0, w - width)))
            if h < height or w < width:
                feed = Window((max(1, height - h + 1), max(1, width - w + 1)), padding=feed.padding)
            at = conv(f"feed{i}", x, c, feed, None)
            assert at.shape == (h, w, c), (at.shape, (h, w, c))
        last = conv(f"case{i}", at, outputs, window, pool, *groups)
    scores = Scores("scores", last, Value("scores", "int32", (1, 1, 2)), "s.w", "s.b")
    constants["s.w"] = rng.integers(-9, 10, (2, *last.shape)).astype(np.int8)
    constants["s.b"] = np.zeros(2, np.int32)
    tables = {name: Constant((table,), (0,)) for name, table in constants.items()}
    return check(Program(x, (*ops, scores), tables, ("map",), 1.0))


def inputs(program: Program, count: int = 3, seed: int = 1) -> NDArray[Any]:
    return values(program.input, count, seed)


def assert_steps_equal(
    program: Program, run_op: Callable[[str, NDArray[Any]], NDArray[Any]], where: str, count: int = 4
) -> None:
    """Every op of the program, alone on `count` random inputs, gives the reference's bits; a failure names the first
    that does not, and `where` it was computed."""
    for op in program.ops:
        x = values(op.x, count, 1)
        different = np.argwhere(run_op(op.name, x) != op.run(program, x))
        if len(different):
            sample, row, column, channel = different[0]
            if not isinstance(op, Conv):
                pytest.fail(f"{where}: op {op}, sample {sample}, class {channel}")
            z = op.preactivation(program, x[sample : sample + 1])[0, :, :, channel]
            threshold = program.constant(op.thresholds)[channel]
            at = f"sample {sample}, position {(row, column)}, channel {channel}"
            pytest.fail(f"{where}: op {op}, {at}: threshold {threshold}, z {z}")


def values(value: Value, count: int, seed: int) -> NDArray[Any]:
    """Samples of a map of bits or codes: the first one of the smallest values alone, the second of the largest."""
    rng = np.random.default_rng(seed)
    shape = (count, *value.shape)
    if value.dtype == "bits":
        x: NDArray[Any] = rng.random(shape) < 0.5
        x[:1], x[1:2] = False, True
    elif value.is_codes:
        x = rng.integers(0, value.element.high + 1, shape).astype(np.uint8)
        x[:1], x[1:2] = 0, value.element.high
    else:
        x = rng.integers(-128, 128, shape).astype(np.int8)
        x[:1], x[1:2] = -128, 127
    return x

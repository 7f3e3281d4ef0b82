"""Programs of many convolutions side by side, each with an input of its own size: one compilation tests them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.legal import check
from blrc.pack import pack_signs
from blrc.program import Constant, Conv, Program, Scores, Value, Window

# Height, width, input channels, output channels, window, pool.
Case = tuple[int, int, int, int, Window, Window | None]

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
        (1, 6, 64, 16 * 32, ONE, None),
        (1, 7, 65, 17 * 32 + 3, Window((1, 3), padding=(0, 1, 0, 1)), None),
        (1, 13, 130, 32, Window((1, 13)), None),
    ],
]


def many_convs(cases: Sequence[Case], seed: int = 0) -> Program:
    """A program whose convolution i is `cases[i]`. The first one reads the input and decides its size; each other one
    reads a map of its own size, which another convolution makes of the input."""
    rng = np.random.default_rng(seed)
    height, width, channels = cases[0][:3]
    x = Value("input", "bits", (height, width, channels))
    ops: list[Conv] = []
    constants: dict[str, NDArray[Any]] = {}

    def conv(name: str, at: Value, outputs: int, window: Window, pool: Window | None) -> Value:
        size = window.output(*at.shape[:2])
        size = size if pool is None else pool.output(*size)
        op = Conv(name, at, Value(f"{name}.y", "bits", (*size, outputs)), f"{name}.w", f"{name}.t", window, 1, pool)
        signs = rng.integers(0, 2, (outputs, *window.kernel, at.shape[2])) * 2 - 1
        signs[::5], signs[1::5] = 1, -1
        constants[op.weights] = pack_signs(signs)
        around = np.round(rng.normal(0.3, 0.5, outputs) * op.fan_in**0.5).astype(np.int32)
        around[::7] = rng.choice([-op.fan_in, op.fan_in + 1], len(around[::7]))  # always, never
        constants[op.thresholds] = around.clip(-op.fan_in, op.fan_in + 1)
        ops.append(op)
        return op.y

    for i, (h, w, c, outputs, window, pool) in enumerate(cases):
        at = x
        if (h, w, c) != x.shape:
            # Any map of that size: padding makes it as large as is needed.
            feed = Window((1, 1), padding=(0, 0, max(0, h - height), max(0, w - width)))
            if h < height or w < width:
                feed = Window((max(1, height - h + 1), max(1, width - w + 1)), padding=feed.padding)
            at = conv(f"feed{i}", x, c, feed, None)
            assert at.shape == (h, w, c), (at.shape, (h, w, c))
        last = conv(f"case{i}", at, outputs, window, pool)
    scores = Scores("scores", last, Value("scores", "int32", (1, 1, 2)), "s.w", "s.b")
    constants["s.w"] = rng.integers(-9, 10, (2, *last.shape)).astype(np.int8)
    constants["s.b"] = np.zeros(2, np.int32)
    tables = {name: Constant((table,), (0,)) for name, table in constants.items()}
    return check(Program(x, (*ops, scores), tables, ("map",), 1.0))


def inputs(program: Program, count: int = 3, seed: int = 1) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((count, *program.input.shape)) < 0.5

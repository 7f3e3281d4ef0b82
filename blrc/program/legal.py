"""Define in code what is legal in a program."""

from __future__ import annotations

from math import prod
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.bits import WORD_BITS, words
from blrc.net.window import LIMIT, Window
from blrc.program import head
from blrc.program.program import INT32_MAX, BinaryScores, Conv, Encode, Op, Pool, Program, Scores, Shape, constant_names

MOST_VALUES = 1 << 24
"""Values of the largest map, its padding included: a grey image of 4,096 x 4,096. A program of a few bytes could
otherwise ask for any memory."""

MOST_TOGETHER = 1 << 25
"""Values of all maps of a program together, which `blrc verify` compares at once: 70 times those of the CIFAR-10
network at full width. Each map alone can be small, and there can be thousands of them in a small file."""

MOST_OPS = 1_000
"""Ops of a program: the deepest networks have some hundreds. Each becomes some kilobytes of C and ONNX."""

MOST_PRODUCTS = 1 << 38
"""Multiply-adds of the longest op: 400 times those of the longest one in the CIFAR-10 network at full width."""


def check(program: Program) -> Program:
    """Return `program` if it is legal; otherwise raise a `BlrcError` that names the op and the rule it breaks."""
    if not program.members:
        raise BlrcError("program: it has no members")
    if len(program.members) > head.MAX_MEMBERS:
        raise BlrcError(f"program: {len(program.members)} members; sums of log-probabilities hold {head.MAX_MEMBERS}")
    if not program.ops or not isinstance(program.ops[-1], Scores | BinaryScores):
        raise BlrcError("program: the last op must be the scores")
    if not (np.isfinite(program.score_scale) and program.score_scale >= head.SMALLEST_SCALE):
        raise BlrcError(f"program: score_scale {program.score_scale} must be finite and at least {head.SMALLEST_SCALE}")
    if len(program.ops) > MOST_OPS:
        raise BlrcError(f"program: {len(program.ops):,} ops; at most {MOST_OPS:,} are compiled")
    _check_gate(program)
    known = {program.input.name: program.input}
    names: set[str] = set()
    for op in program.ops:
        _require(op, op.name not in names, "its name is used twice")
        _require(op, known.get(op.x.name) == op.x, f"its input {op.x.name!r} is not a value defined before it")
        _require(op, op.y.name not in known, f"its output {op.y.name!r} is defined twice")
        _require(op, min(op.y.shape) >= 1 and min(op.x.shape) >= 1, f"empty map {op.x.shape} -> {op.y.shape}")
        for name in constant_names(op):
            _check_constant(program, op, name)
        if isinstance(op, Encode):
            _check_encode(program, op)
        elif isinstance(op, Conv):
            _check_conv(program, op)
        elif isinstance(op, Pool):
            _check_pool(op, op.window, op.x.shape, op.y.shape)
            _require(op, op.x.dtype == "bits" and op.y.dtype == "bits", "max pooling takes and gives bits")
        elif isinstance(op, Scores | BinaryScores):
            _require(op, op is program.ops[-1], "scores must come last")
            _check_scores(program, op)
        else:
            assert_never(op)
        for value in (op.x, op.y):
            _require(op, prod(value.shape) <= MOST_VALUES, f"a map {value.shape} has over {MOST_VALUES:,} values")
        names.add(op.name)
        known[op.y.name] = op.y
    together = prod(program.input.shape) + sum(prod(op.y.shape) for op in program.ops)
    if together > MOST_TOGETHER:
        raise BlrcError(
            f"program: its maps have {together:,} values together; at most {MOST_TOGETHER:,} are compiled: use fewer "
            "layers, or pool or stride earlier"
        )
    used = {name for op in program.ops for name in constant_names(op)}
    if used != set(program.constants):
        raise BlrcError(
            f"program: constants {sorted(used ^ set(program.constants))} are not used by exactly the ops that exist"
        )
    return program


def _check_gate(program: Program) -> None:
    gate = program.gate
    if not isinstance(gate, int) or isinstance(gate, bool) or not 0 <= gate <= head.ONE:
        raise BlrcError(f"program: gate {gate!r} must be a whole number from 0 to {head.ONE}")
    if gate and (program.members[0] != "map" or len(program.members) < 2):
        raise BlrcError("program: a gate needs map as its first member, and others behind it")


def _require(op: Op, holds: bool, what: str) -> None:
    if not holds:
        raise BlrcError(f"program: op {op.name!r}: {what}")


def _check_constant(program: Program, op: Op, name: str) -> None:
    constant = program.constants.get(name)
    _require(op, constant is not None, f"constant {name!r} is missing")
    assert constant is not None
    _require(op, len(constant.of_member) == len(program.members), f"constant {name!r} is not given for every member")
    _require(
        op,
        set(constant.of_member) == set(range(len(constant.tables))),
        f"constant {name!r} has unused or missing tables",
    )
    first = constant.tables[0]
    same = all(t.dtype == first.dtype and t.shape == first.shape for t in constant.tables)
    _require(op, same, f"constant {name!r} differs in type or shape between members")


def _expect(program: Program, op: Op, name: str, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    table = program.constants[name].tables[0]
    good = table.dtype.name in dtypes and table.shape == shape
    _require(op, good, f"constant {name!r} is {table.dtype.name} {table.shape}, expected {' or '.join(dtypes)} {shape}")


def _check_encode(program: Program, op: Encode) -> None:
    _require(op, op.x.dtype == "uint8" and op.y.dtype == "int8", "encode takes uint8 and gives int8")
    _require(op, op.x.shape == op.y.shape, "encode must keep the shape")
    rows = len(np.atleast_1d(program.constants[op.table].tables[0]))
    _require(op, rows in (1, op.x.shape[2]), f"its table has {rows} rows for {op.x.shape[2]} channels")
    _expect(program, op, op.table, ("int8",), (rows, 256))


def _check_conv(program: Program, op: Conv) -> None:
    height, width, channels = op.x.shape
    _require(op, op.x.dtype in ("bits", "int8") and op.y.dtype == "bits", "takes bits or int8 and gives bits")
    _require(
        op,
        op.groups >= 1 and channels % op.groups == 0 and op.y.shape[2] % op.groups == 0,
        "channels not divisible by groups",
    )
    _check_window(op, op.window)
    unpooled = op.unpooled
    _require(op, min(unpooled) >= 1, f"kernel {op.window.kernel} does not fit a map of {height} x {width}")
    _require(op, prod(unpooled) <= MOST_VALUES, f"a map {unpooled} has over {MOST_VALUES:,} values")
    _require(op, prod(unpooled) * op.fan_in <= MOST_PRODUCTS, f"takes more than {MOST_PRODUCTS:,} multiply-adds")
    if op.pool is None:
        _require(op, unpooled == op.y.shape, f"output shape {op.y.shape}, expected {unpooled}")
    else:
        _check_pool(op, op.pool, unpooled, op.y.shape)
    weight_shape = (op.y.shape[2], *op.window.kernel, words(op.group_channels))
    _expect(program, op, op.weights, ("uint32",), weight_shape)
    _expect(program, op, op.thresholds, ("int32",), (op.y.shape[2],))
    low, high = program.bounds(op)
    _require(op, 2 * high < INT32_MAX, f"sums up to {high} do not fit int32")
    _check_tails(program, op, op.weights, op.group_channels)
    for table in program.constants[op.thresholds].tables:
        _require(
            op, bool(np.all((table >= low) & (table <= high + 1))), f"a threshold lies outside [{low}, {high + 1}]"
        )


def _check_window(op: Op, window: Window) -> None:
    positive = min(*window.kernel, *window.stride, *window.dilation) >= 1 and min(window.padding) >= 0
    small = max(*window.kernel, *window.stride, *window.dilation, *window.padding) <= LIMIT
    _require(op, positive and small, f"bad window {window}: numbers go up to {LIMIT}")
    top, left, bottom, right = window.padding
    height, width, channels = op.x.shape
    reach = (height + top + bottom + window.span[0]) * (width + left + right + window.span[1]) * channels
    _require(op, reach + max(window.stride) < INT32_MAX, f"{window} reaches too far around its map for int32")
    padded = (height + top + bottom) * (width + left + right) * channels
    _require(op, padded <= MOST_VALUES, f"its map has over {MOST_VALUES:,} values with the padding of {window}")


def _check_pool(op: Op, window: Window, x: Shape, y: Shape) -> None:
    _check_window(op, window)
    top, left, bottom, right = window.padding
    fits = max(top, bottom) < window.span[0] and max(left, right) < window.span[1]
    _require(op, fits, "a pooling window may not lie wholly in the padding")
    _require(
        op, y == (*window.output(x[0], x[1]), x[2]), f"pooled shape {y}, expected {(*window.output(x[0], x[1]), x[2])}"
    )


def _check_scores(program: Program, op: Scores | BinaryScores) -> None:
    _require(op, op.x.dtype == "bits" and op.y.dtype == "int32", "scores take bits and give int32")
    _require(op, op.y.shape[:2] == (1, 1), "scores must be a vector")
    classes = op.y.shape[2]
    _require(op, classes >= 1, "there is no output")
    _require(
        op, classes <= head.MAX_CLASSES, f"{classes} classes; the integer softmax is for {head.MAX_CLASSES} at most"
    )
    if isinstance(op, BinaryScores):
        _check_binary_scores(program, op)
        return
    _expect(program, op, op.weights, ("int8", "int16"), (classes, *op.x.shape))
    _expect(program, op, op.bias, ("int32",), (classes,))
    sums = [_magnitudes(table) for table in program.constants[op.weights].tables]
    for member in range(len(program.members)):
        bias = program.constant(op.bias, member)
        peak = sums[program.constants[op.weights].of_member[member]] + np.abs(bias.astype(np.int64))
        # Twice, so that the form bias - sum(w) + 2 sum(w at set bits), which kernels use, cannot overflow either.
        _require(op, bool(np.all(2 * peak < INT32_MAX)), "scores may overflow int32")


def _magnitudes(table: NDArray[Any]) -> NDArray[np.int64]:
    """Sum the magnitudes of each class's weights.

    Classes are summed one at a time, because all together would take eight times the memory of the file.
    """
    return np.array([np.abs(weights.astype(np.int64)).sum() for weights in table])


def _check_binary_scores(program: Program, op: BinaryScores) -> None:
    height, width, channels = op.x.shape
    classes = op.y.shape[2]
    _expect(program, op, op.weights, ("uint32",), (classes, height, width, words(channels)))
    _expect(program, op, op.multiplier, ("int32",), (classes,))
    _expect(program, op, op.bias, ("int32",), (classes,))
    _check_tails(program, op, op.weights, channels)
    _require(op, 2 * op.fan_in < INT32_MAX, f"sums up to {op.fan_in} do not fit int32")
    for member in range(len(program.members)):
        multiplier, bias = program.constant(op.multiplier, member), program.constant(op.bias, member)
        for m, b in zip(multiplier.tolist(), bias.tolist(), strict=True):
            # Twice, so that multiplier n + bias - 2 multiplier count, which a kernel may use, cannot overflow either.
            _require(op, 2 * (abs(m) * op.fan_in + abs(b)) < INT32_MAX, "scores may overflow int32")


def _check_tails(program: Program, op: Op, name: str, channels: int) -> None:
    unused = words(channels) * WORD_BITS - channels
    tail = np.uint32(((1 << unused) - 1) << (WORD_BITS - unused))
    for table in program.constants[name].tables:
        _require(op, not (table[..., -1] & tail).any(), "a tail bit of its weights is set")

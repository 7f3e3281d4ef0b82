"""IR 2, the program: integers only. `check` says what is legal; `reference.py` says what it means.

A program is a list of ops in SSA form: every op reads named, typed values and writes one new value. The structure is
shared by all members of an ensemble; constants are per member, and equal constants are stored once. Feature maps are
H, W, C. How weights are laid out for a CPU is not decided here but in each target.

The ops (z is the integer pre-activation, over the taps that lie inside the map):

==========  ==============================  ==============================================================
`Encode`    uint8 -> int8                   y = table[channel][x]
`Conv`      bits or int8 -> bits            z = sum of +-x; y = (z >= threshold[channel]), then OR over the pool
`Pool`      bits -> bits                    y = OR over the window (max pooling of +-1)
`Scores`    bits -> int32                   y = bias + sum of +-weights
==========  ==============================  ==============================================================

A dense layer is a `Conv` or `Scores` whose kernel is the whole map. Thresholds outside the reachable range mean
"always" (the lower bound) and "never" (the upper bound + 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.pack import unpack, words
from blrc.window import Window

DType = Literal["uint8", "int8", "int32", "bits"]
Shape = tuple[int, int, int]

INT32_MAX = 2**31 - 1

__all__ = [
    "Constant",
    "Conv",
    "Encode",
    "Op",
    "Pool",
    "Program",
    "Scores",
    "Value",
    "Window",
    "check",
    "constant_names",
]


@dataclass(frozen=True)
class Value:
    """A named feature map of one sample: ``shape`` is (height, width, channels)."""

    name: str
    dtype: DType
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Bytes in memory; bits are packed, each pixel in whole uint32 words."""
        height, width, channels = self.shape
        return (
            height
            * width
            * {"uint8": channels, "int8": channels, "int32": 4 * channels, "bits": 4 * words(channels)}[self.dtype]
        )


@dataclass(frozen=True)
class Encode:
    """Raw uint8 to int8 codes. Constant `table`: int8 (channels or 1, 256)."""

    name: str
    x: Value
    y: Value
    table: str


@dataclass(frozen=True)
class Conv:
    """Binary convolution, threshold and (optional) max pooling in one op: the unpooled map is never stored.

    Constants: `weights`, uint32 (out, kernel h, kernel w, words(in / groups)), bit 1 = +1, rows already negated where
    gamma < 0; `thresholds`, int32 (out,).
    """

    name: str
    x: Value
    y: Value
    weights: str
    thresholds: str
    window: Window
    groups: int = 1
    pool: Window | None = None

    @property
    def group_channels(self) -> int:
        """Input channels that one output channel sees."""
        return self.x.shape[2] // self.groups

    @property
    def fan_in(self) -> int:
        """n of a pixel with all taps inside the map: taps x channels of a group."""
        return self.window.taps * self.group_channels

    @property
    def unpooled(self) -> Shape:
        """Shape of the map of pre-activations z."""
        return (*self.window.output(self.x.shape[0], self.x.shape[1]), self.y.shape[2])

    @property
    def is_dense(self) -> bool:
        return self.window.kernel == self.x.shape[:2] and self.unpooled[:2] == (1, 1)


@dataclass(frozen=True)
class Pool:
    """Max pooling of +-1, an OR of bits. Padding is absent (never wins)."""

    name: str
    x: Value
    y: Value
    window: Window


@dataclass(frozen=True)
class Scores:
    """Integer weights on +-1 inputs. Constants: `weights` int8 or int16 (classes, H, W, C); `bias` int32 (classes,)."""

    name: str
    x: Value
    y: Value
    weights: str
    bias: str


Op = Encode | Conv | Pool | Scores


@dataclass(frozen=True, eq=False)
class Constant:
    """One constant of an op for every member: `tables[of_member[k]]` is member k's; equal tables are stored once."""

    tables: tuple[NDArray[Any], ...]
    of_member: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled network or ensemble.

    Attributes:
        input: the raw input's value (uint8, int8 or bits).
        ops: in order of execution; the last one is the only `Scores`.
        constants: by the names that ops refer to.
        members: one description each, ``map`` or ``sample SEED:INDEX``.
        score_scale: real score = integer score x score_scale (one for all members).
    """

    input: Value
    ops: tuple[Op, ...]
    constants: Mapping[str, Constant] = field(repr=False)
    members: tuple[str, ...]
    score_scale: float

    @property
    def output(self) -> Value:
        return self.ops[-1].y

    @property
    def classes(self) -> int:
        return self.output.shape[2]

    def constant(self, name: str, member: int = 0) -> NDArray[Any]:
        """The table of constant `name` that `member` uses."""
        constant = self.constants[name]
        return constant.tables[constant.of_member[member]]

    def bounds(self, op: Conv) -> tuple[int, int]:
        """Smallest and largest pre-activation that can occur in `op`, over all members and positions."""
        n = op.fan_in
        if op.x.dtype == "bits":
            return -n, n
        peak = 128
        for other in self.ops:
            if isinstance(other, Encode) and other.y == op.x:
                peak = max(int(np.abs(t.astype(np.int64)).max()) for t in self.constants[other.table].tables)
        return -n * peak, n * peak


def constant_names(op: Op) -> tuple[str, ...]:
    """Names of the constants that `op` refers to."""
    if isinstance(op, Encode):
        return (op.table,)
    if isinstance(op, Conv):
        return op.weights, op.thresholds
    if isinstance(op, Scores):
        return op.weights, op.bias
    return ()


def check(program: Program) -> Program:
    """Say what is legal: return `program`, or raise a `BlrcError` that names the op and the rule it breaks."""
    if not program.members:
        raise BlrcError("program: it has no members")
    if not program.ops or not isinstance(program.ops[-1], Scores):
        raise BlrcError("program: the last op must be the scores")
    if not (np.isfinite(program.score_scale) and program.score_scale > 0):
        raise BlrcError(f"program: score_scale {program.score_scale} must be positive and finite")
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
        else:
            _require(op, op is program.ops[-1], "scores must come last")
            _check_scores(program, op)
        names.add(op.name)
        known[op.y.name] = op.y
    used = {name for op in program.ops for name in constant_names(op)}
    if used != set(program.constants):
        raise BlrcError(
            f"program: constants {sorted(used ^ set(program.constants))} are not used by exactly the ops that exist"
        )
    return program


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
    rows = program.constants[op.table].tables[0].shape[0]
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
    if op.pool is None:
        _require(op, unpooled == op.y.shape, f"output shape {op.y.shape}, expected {unpooled}")
    else:
        _check_pool(op, op.pool, unpooled, op.y.shape)
    weight_shape = (op.y.shape[2], *op.window.kernel, words(op.group_channels))
    _expect(program, op, op.weights, ("uint32",), weight_shape)
    _expect(program, op, op.thresholds, ("int32",), (op.y.shape[2],))
    low, high = program.bounds(op)
    _require(op, 2 * high < INT32_MAX, f"sums up to {high} do not fit int32")
    for table in program.constants[op.weights].tables:
        tail = unpack(table, words(op.group_channels) * 32)[..., op.group_channels :]
        _require(op, not tail.any(), "a tail bit of its weights is set")
    for table in program.constants[op.thresholds].tables:
        _require(
            op, bool(np.all((table >= low) & (table <= high + 1))), f"a threshold lies outside [{low}, {high + 1}]"
        )


def _check_window(op: Op, window: Window) -> None:
    positive = min(*window.kernel, *window.stride, *window.dilation) >= 1 and min(window.padding) >= 0
    _require(op, positive, f"bad window {window}")


def _check_pool(op: Op, window: Window, x: Shape, y: Shape) -> None:
    _check_window(op, window)
    top, left, bottom, right = window.padding
    fits = max(top, bottom) < window.span[0] and max(left, right) < window.span[1]
    _require(op, fits, "a pooling window may not lie wholly in the padding")
    _require(
        op, y == (*window.output(x[0], x[1]), x[2]), f"pooled shape {y}, expected {(*window.output(x[0], x[1]), x[2])}"
    )


def _check_scores(program: Program, op: Scores) -> None:
    _require(op, op.x.dtype == "bits" and op.y.dtype == "int32", "scores take bits and give int32")
    _require(op, op.y.shape[:2] == (1, 1), "scores must be a vector")
    classes = op.y.shape[2]
    _expect(program, op, op.weights, ("int8", "int16"), (classes, *op.x.shape))
    _expect(program, op, op.bias, ("int32",), (classes,))
    for member in range(len(program.members)):
        weights, bias = program.constant(op.weights, member), program.constant(op.bias, member)
        peak = np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)) + np.abs(bias.astype(np.int64))
        # Twice, so that the form bias - sum(w) + 2 sum(w at set bits), which kernels use, cannot overflow either.
        _require(op, bool(np.all(2 * peak < INT32_MAX)), "scores may overflow int32")

"""Define the program: integers only, the compiler's second intermediate form (IR 2).

`blrc.program.legal.check` says which programs are legal, and `blrc.program.reference` says what they mean. A program is
a list of ops in SSA form: every op reads named, typed values and writes one new value. The structure is shared by all
members of an ensemble; constants are per member, and equal constants are stored once. Feature maps are H, W, C. How
weights are laid out for a CPU is not decided here but in each target.

The ops (z is the integer pre-activation, over the taps that lie inside the map):

==============  ==========================  ==============================================================
`Encode`        uint8 -> int8               y = table[channel][x]
`Conv`          bits or int8 -> bits        z = sum of +-x; y = (z >= threshold[channel]), then OR over the pool
`Pool`          bits -> bits                y = OR over the window (max pooling of +-1)
`Scores`        bits -> int32               y = bias + sum of +-weights
`BinaryScores`  bits -> int32               y = multiplier[class] z + bias[class]
==============  ==========================  ==============================================================

A dense layer is a `Conv` (or one of the scores) whose kernel is the whole map. Thresholds at the ends of the reachable
range mean "always" (the lower bound) and "never" (the upper bound + 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief
from blrc.net.bits import words
from blrc.net.elements import ELEMENTS, DType
from blrc.net.window import Window

Shape = tuple[int, int, int]

__all__ = [
    "INT32_MAX",
    "BinaryScores",
    "Constant",
    "Conv",
    "DType",
    "Encode",
    "Op",
    "Pool",
    "Program",
    "Scores",
    "Value",
    "Window",
    "constant_names",
]

INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Value:
    """Describe a named feature map of one sample; ``shape`` is (height, width, channels)."""

    name: str
    dtype: DType
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory; bits are packed, each pixel in whole uint32 words."""
        height, width, channels = self.shape
        each = words(channels) if self.dtype == "bits" else channels
        return height * width * each * ELEMENTS[self.dtype].stored.itemsize


@dataclass(frozen=True)
class Encode:
    """Turn raw uint8 into int8 codes. Constant `table`: int8 (channels or 1, 256)."""

    name: str
    x: Value
    y: Value
    table: str


@dataclass(frozen=True)
class Conv:
    """Convolve with +-1 weights, apply thresholds and (optionally) max pooling in one op.

    The unpooled map is never stored. Constants: `weights`, uint32 (out, kernel h, kernel w, words(in / groups)), where
    bit 1 = +1 and rows are already negated where gamma < 0; `thresholds`, int32 (out,).
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
        """Return the number of input channels that one output channel sees."""
        return self.x.shape[2] // self.groups

    @property
    def fan_in(self) -> int:
        """Return n of a pixel with all taps inside the map: taps x channels of a group."""
        return self.window.taps * self.group_channels

    @property
    def unpooled(self) -> Shape:
        """Return the shape of the map of pre-activations z."""
        return (*self.window.output(self.x.shape[0], self.x.shape[1]), self.y.shape[2])

    @property
    def is_dense(self) -> bool:
        return self.window.kernel == self.x.shape[:2] and self.unpooled[:2] == (1, 1)

    @property
    def macs(self) -> int:
        """Return the multiply-adds of one inference; taps outside the map are not computed, so they do not count."""
        return self.window.taps_inside(*self.x.shape[:2]) * self.group_channels * self.y.shape[2]


@dataclass(frozen=True)
class Pool:
    """Pool +-1 by the maximum, an OR of bits. Padding is absent (never wins)."""

    name: str
    x: Value
    y: Value
    window: Window


@dataclass(frozen=True)
class Scores:
    """Compute scores by integer weights on +-1 inputs.

    Constants: `weights` int8 or int16 (classes, H, W, C); `bias` int32 (classes,).
    """

    name: str
    x: Value
    y: Value
    weights: str
    bias: str

    @property
    def macs(self) -> int:
        """Return the multiply-adds of one inference."""
        height, width, channels = self.x.shape
        return height * width * channels * self.y.shape[2]


@dataclass(frozen=True)
class BinaryScores:
    """Compute scores by a binary last layer: scale and shift its pre-activations z for each class.

    `blrc.lowering.affine` makes the numbers. Constants: `weights` uint32 (classes, H, W, words(C)), bit 1 = +1;
    `multiplier` and `bias` int32 (classes,).
    """

    name: str
    x: Value
    y: Value
    weights: str
    multiplier: str
    bias: str

    @property
    def fan_in(self) -> int:
        """Return n, the number of inputs."""
        height, width, channels = self.x.shape
        return height * width * channels

    @property
    def macs(self) -> int:
        """Return the multiply-adds of one inference."""
        return self.fan_in * self.y.shape[2]


Op = Encode | Conv | Pool | Scores | BinaryScores


@dataclass(frozen=True, eq=False)
class Constant:
    """Hold a constant of an op for every member: `tables[of_member[k]]` is member k's; equal tables are stored once."""

    tables: tuple[NDArray[Any], ...]
    of_member: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)


@dataclass(frozen=True, eq=False, repr=False)
class Program(Brief):
    """Hold a compiled network or ensemble.

    Attributes:
        input: the raw input's value (uint8, int8 or bits).
        ops: the ops in order of execution; the last one is the only `Scores` or `BinaryScores`.
        constants: the constants by the names that ops refer to.
        members: one description each, as `blrc.frontend.sample.Member` writes it: ``map``, ``sample SEED:INDEX``...
        score_scale: real score = integer score x score_scale (one for all members).
        gate: in Q16; where the first member's top probability is at least this, it answers alone (members used: 1),
            else all members together, the first among them. 0 is no gate.
    """

    input: Value
    ops: tuple[Op, ...]
    constants: Mapping[str, Constant] = field(repr=False)
    members: tuple[str, ...]
    score_scale: float
    gate: int = 0

    @property
    def output(self) -> Value:
        return self.ops[-1].y

    @property
    def classes(self) -> int:
        return self.output.shape[2]

    def constant(self, name: str, member: int = 0) -> NDArray[Any]:
        """Return the table of constant `name` that `member` uses."""
        constant = self.constants[name]
        return constant.tables[constant.of_member[member]]

    def bounds(self, op: Conv) -> tuple[int, int]:
        """Return the smallest and the largest pre-activation that can occur in `op`, over all members and positions."""
        n = op.fan_in
        if op.x.dtype == "bits":
            return -n, n
        peak = 128
        for other in self.ops:
            if isinstance(other, Encode) and other.y == op.x:
                peak = max(int(np.abs(t.astype(np.int64)).max()) for t in self.constants[other.table].tables)
        return -n * peak, n * peak


def constant_names(op: Op) -> tuple[str, ...]:
    """Return the names of the constants that `op` refers to."""
    if isinstance(op, Encode):
        return (op.table,)
    if isinstance(op, Conv):
        return op.weights, op.thresholds
    if isinstance(op, Scores):
        return op.weights, op.bias
    if isinstance(op, BinaryScores):
        return op.weights, op.multiplier, op.bias
    if isinstance(op, Pool):
        return ()
    assert_never(op)

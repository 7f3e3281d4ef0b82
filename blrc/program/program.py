"""Define the program: integers only, the compiler's second intermediate form (IR 2).

`blrc.program.legal.check` says which programs are legal, and `blrc.program.reference` says what they mean; both ask the
records of the ops (`blrc.program.ops`). A program is a list of ops in SSA form: every op reads named, typed values and
writes one new value. The structure is shared by all members of an ensemble; constants are per member, and equal
constants are stored once. Feature maps are H, W, C. How weights are laid out for a CPU is not decided here but in each
target.

The ops (z is the integer pre-activation, over the taps that lie inside the map):

==============  ==========================  ==============================================================
`Encode`        uint8 -> int8               y = table[channel][x]
`Conv`          bits or int8 -> bits        z = sum of +-x; y = (z >= threshold[channel]), then OR over the pool
`Pool`          bits -> bits                y = OR over the window (max pooling of +-1)
`SumPool`       bits -> codes               y = how many bits of the window are 1 (average pooling)
`Scores`        bits -> int32               y = bias + sum of +-weights
`BinaryScores`  bits -> int32               y = multiplier[class] z + bias[class]
==============  ==========================  ==============================================================

A `Conv` may write codes of 1 to 8 bits instead of bits: how many of several thresholds z reaches, from 0 up. `Conv`,
the pools and the scores read codes as they read bits. A code is summed as the number that it is, and `Pool` takes the
largest. The weights of a `Conv` or of `BinaryScores` may be ternary, -1, 0 or +1.

A dense layer is a `Conv` (or one of the scores) whose kernel is the whole map. Thresholds at the ends of the reachable
range mean "always" (the lower bound) and "never" (the upper bound + 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief
from blrc.net.elements import DType
from blrc.net.heads import Unit, Units
from blrc.net.window import Window
from blrc.program import heads, values
from blrc.program.head import Answer, scale_of
from blrc.program.heads import Head, Part
from blrc.program.ops.binary_scores import BinaryScores
from blrc.program.ops.conv import Conv
from blrc.program.ops.encode import Encode
from blrc.program.ops.op import INT32_MAX, Constant, Shape, Value, WeightedOp, largest_magnitude
from blrc.program.ops.pool import Pool, SumPool
from blrc.program.ops.registry import Op
from blrc.program.ops.scores import Scores

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
    "Shape",
    "SumPool",
    "Value",
    "WeightedOp",
    "Window",
]


@dataclass(frozen=True, eq=False, repr=False)
class Program(Brief):
    """Hold a compiled network or ensemble.

    Attributes:
        input: the raw input's value (uint8, int8 or bits).
        ops: the ops in order of execution; the last one is the only one that makes scores.
        constants: the constants by the names that ops refer to.
        members: one description each, as `blrc.frontend.sample.Member` writes it: ``map``, ``sample SEED:INDEX``...
        score_scale: real score = integer score x score_scale (one for all members); of several heads, that of the
            first.
        gate: in Q16; where the first member's top probability is at least this, it answers alone (members used: 1),
            else all members together, the first among them. 0 is no gate. Of several heads, each must reach it.
        heads: the heads of a network with several, in the order of their scores; a network with one has no name for it.
        values: of a network that gives values and no labels (`blrc.program.values`), what was said of the unit of each
            head; empty for one that gives labels. Its scores are then the values.
    """

    input: Value
    ops: tuple[Op, ...]
    constants: Mapping[str, Constant] = field(repr=False)
    members: tuple[str, ...]
    score_scale: float
    gate: int = 0
    heads: tuple[Head, ...] = ()
    values: Units = ()

    @property
    def output(self) -> Value:
        return self.ops[-1].y

    @property
    def classes(self) -> int:
        return self.output.shape[2]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return where the scores of each head lie, and their scale; of a network without heads, one for all."""
        found, start = [], 0
        for head in self.heads or (Head("", self.classes, self.score_scale),):
            found.append(Part(slice(start, start + head.classes), scale_of(head.score_scale)))
            start += head.classes
        return tuple(found)

    @property
    def units(self) -> Units:
        """Return what the integers of each head stand for: real value = scale x integer + offset; empty for labels."""
        scales = [each.score_scale for each in self.heads] or [self.score_scale]
        return tuple(
            Unit(float(Fraction(unit.scale) * Fraction(scale)), unit.offset)
            for unit, scale in zip(self.values, scales, strict=False)
        )

    def together(self, scores: Sequence[NDArray[Any]]) -> Answer:
        """Return what members say together, from the scores ``(N, classes)`` of each, whether labels or values."""
        return values.together(scores) if self.values else heads.ensemble(scores, self.parts, self.gate)

    def real(self, integers: NDArray[Any]) -> NDArray[np.float64]:
        """Return what values ``(N, values)``, or means of them, stand for (`units`), in float64."""
        scale = np.repeat([unit.scale for unit in self.units], [p.place.stop - p.place.start for p in self.parts])
        offset = np.repeat([unit.offset for unit in self.units], [p.place.stop - p.place.start for p in self.parts])
        return np.asarray(integers * scale + offset)

    def labels(self, scores: NDArray[Any]) -> NDArray[np.int64]:
        """Return the labels of one member, ``(N,)`` or ``(N, heads)``; of values there are none, ``(N, 0)``."""
        return np.empty((len(scores), 0), np.int64) if self.values else heads.labels(scores, self.parts)

    @property
    def macs(self) -> int:
        """Return the multiply-adds of one inference, without taps outside a map, which are not computed."""
        return sum(op.macs for op in self.ops)

    def constant(self, name: str, member: int = 0) -> NDArray[Any]:
        """Return the table of constant `name` that `member` uses."""
        constant = self.constants[name]
        return constant.tables[constant.of_member[member]]

    def peak(self, value: Value) -> int:
        """Return the largest magnitude that can occur in a value, over all members; bits are +-1."""
        maker = next((op for op in self.ops if op.y.name == value.name), None)
        return largest_magnitude(value) if maker is None else maker.peak(self)

    def bounds(self, op: Conv) -> tuple[int, int]:
        """Return the smallest and the largest pre-activation that can occur in `op`, over all members and positions."""
        return op.bounds(self)

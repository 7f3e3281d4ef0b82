"""Run the original on inputs, and compare each layer on the original's own bits of the layer before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.lowering.calibrate import fan_in
from blrc.lowering.single import values
from blrc.net.encoding import device_layout, torch_layout
from blrc.program import head, heads, reference
from blrc.program.heads import Head
from blrc.program.program import BinaryScores, Conv, Op, Program, Scores
from blrc.verification.original.original import Original
from blrc.verification.original.places import Place, prefix
from blrc.verification.original.report import Layer
from blrc.verification.original.rounding import may_differ
from blrc.verification.original.thresholds import Decided, with_thresholds

AT_ONCE = 2**23
"""Values of all tensors of one run of the original."""
BESIDE = 8
"""Operations on a sum besides those on its terms, such as those of a bias and a scale."""
STEP = 0.99
"""Share of one step of z by which a sum may be off at most for rounding to be the reason."""

Progress = Callable[[str, int, int], None]


class Tally:
    """Count what was compared, and what differs."""

    def __init__(
        self, program: Program, original: Original, found: Sequence[Place], decided: Mapping[str, Decided]
    ) -> None:
        self.program, self.original, self.places = program, original, found
        self.ends = original.ends
        outputs = list(dict.fromkeys([*(place.bits for place in found), *self.ends]))
        self.part = original.part(original.source, outputs)
        self.layers = {place.layer: Layer() for place in found}
        self.variants = {
            place.layer: tuple(
                with_thresholds(program, place.layer, table)
                for table in (place.decision.rule.threshold, decided[place.layer].float32)
            )
            for place in found
            if place.decision is not None
        }
        self.tail = program.ops[sum(len(place.ops) for place in found) :]
        inputs = _inputs(program.ops[-1])
        ends = program.heads or (Head("", program.classes, program.score_scale),)
        self.scale = np.repeat([end.score_scale for end in ends], [end.classes for end in ends])
        self.bounds = np.array([float(Fraction(inputs + 1) * Fraction(scale) / 2) for scale in self.scale.tolist()])
        self.slack = (inputs + 2 * BESIDE) * original.unit * _largest_score(program) * self.scale
        self.scores = self.labels = self.same = self.labelled = self.correct = self.far = 0
        self.farthest = 0.0
        self.first: dict[str, str] = {}

    def run(self, raw: NDArray[Any], labels: NDArray[Any] | None, progress: Progress) -> None:
        """Compare inputs in device layout, some at a time."""
        values = prod(self.program.input.shape) + sum(op.largest_map for op in self.program.ops)
        step = max(1, AT_ONCE // values)
        for i in range(0, len(raw), step):
            progress("original", i, len(raw))
            self._chunk(raw[i : i + step], None if labels is None else labels[i : i + step])
        progress("original", len(raw), len(raw))

    def _chunk(self, raw: NDArray[Any], labels: NDArray[Any] | None) -> None:
        encoding = self.original.net.encoding
        is_bits = self.program.input.dtype == "bits"
        samples = torch_layout(raw.astype(np.uint8) if is_bits else raw, encoding.shape)
        given = self.original.fed(samples)
        theirs = self.part.run(given)
        x = raw.astype(bool) if is_bits else raw
        for place in self.places:
            plus = self.original.is_plus(place.bits, theirs[place.bits.name])
            wanted = device_layout(plus) != place.inverted
            ours = through(self.program, place.ops, x)
            wanted = wanted.reshape(ours.shape)
            self._compare_bits(place, x, ours, wanted, given)
            x = wanted
        real = self._scores(theirs)
        self._compare_scores(real, through(self.program, self.tail, x).reshape(len(raw), -1))
        if (seen := self.original.seen(samples)) is not None:  # pixels that were rounded to codes
            real = self._scores(self.part.run(seen))
        label, ours = (
            heads.labels(scores, self.program.parts) for scores in (real, reference.scores(self.program, raw))
        )
        self.labels += len(raw)
        self.same += int(head.every(label == ours).sum())
        if labels is not None:
            self.labelled += len(raw)
            self.correct += int((heads.of_first(label) == labels).sum())

    def _scores(self, theirs: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        found = [theirs[end.name] for end in self.ends]
        return np.concatenate([each.reshape(len(each), -1).astype(np.float64) for each in found], axis=1)

    def _compare_bits(
        self, place: Place, x: NDArray[Any], ours: NDArray[Any], wanted: NDArray[np.bool_], given: NDArray[Any]
    ) -> None:
        """Count bits that differ, and those of them that rounding explains."""
        layer, other = self.layers[place.layer], ours != wanted
        layer.bits += ours.size
        rows = np.flatnonzero(other.reshape(len(other), -1).any(axis=1))
        if not len(rows):
            return
        ours, other, wanted = ours[rows], other[rows], wanted[rows]
        layer.differ += int(other.sum())
        unexplained = other
        if (variants := self.variants.get(place.layer)) is not None:
            exact, float32 = (through(variant, place.ops, x[rows]) for variant in variants)
            by_chain = other & (exact != wanted) & (float32 == wanted)
            by_sums = other & (exact == ours) & (float32 == ours)
            if by_sums.any():
                by_sums &= self._by_sums(place, x[rows], given[rows])[:, None, None, :]
            layer.by_chain += int(by_chain.sum())
            layer.by_sums += int(by_sums.sum())
            unexplained = other & ~by_chain & ~by_sums
        if unexplained.any() and place.layer not in self.first:
            at = [int(i[0]) for i in np.nonzero(unexplained)]
            self.first[place.layer] = f"first in channel {at[3]} at row {at[1]}, column {at[2]}"

    def _by_sums(self, place: Place, x: NDArray[Any], given: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each sample and channel whether rounding of the original's sums may have decided a bit.

        It may where all of these sums are right but for that rounding, and one of them is so close to the threshold
        that as much can move it to the other side.
        """
        assert place.decision is not None
        stage, sums, rule = place.decision.stage, place.decision.sums, place.decision.rule
        at = next(i for i, op in enumerate(place.ops) if op.name == stage.linear.name)
        op = place.ops[at]
        assert isinstance(op, Conv)
        z = op.preactivation(self.program, through(self.program, place.ops[:at], x)).astype(np.int64)
        z = np.where(rule.flip, -z, z)
        run = self.original.part(self.original.source, [sums]).run
        theirs = device_layout(run(given)[sums.name]).astype(np.float64)
        peak, scale = place.decision.inputs.peak, float(place.decision.inputs.scale)
        inputs = fan_in(stage.linear)

        def right(of: NDArray[Any]) -> NDArray[np.float64]:
            return values(stage.linear, prefix(stage, sums), scale, of).astype(np.float64)

        ideal = right(z.reshape(-1, z.shape[-1])).reshape(z.shape)
        ends = right(np.array([[-inputs * peak], [0], [1], [inputs * peak]]))
        most, step = np.abs(ends).max(axis=0), np.abs(ends[2] - ends[1])
        unit = (inputs + BESIDE) * self.original.unit
        close = np.minimum(unit * most, STEP * step)
        found: NDArray[np.bool_] = (np.abs(theirs.reshape(z.shape) - ideal) <= close).all(axis=(1, 2))
        off = unit * inputs * peak / scale
        near = may_differ(stage, scale, z.reshape(-1, z.shape[-1]), self.original.unit, off).reshape(z.shape)
        found &= near.any(axis=(1, 2))
        return found

    def _compare_scores(self, real: NDArray[np.float64], ours: NDArray[Any]) -> None:
        far = np.abs(ours.astype(np.float64) * self.scale - real)
        self.scores += real.size
        self.farthest = max(self.farthest, float(far.max(initial=0.0)))
        self.far += int((~(far <= self.bounds + self.slack)).sum())

    @property
    def bound(self) -> float:
        """Return the largest distance of a score that rounding of the export's weights explains."""
        return float(self.bounds.max())

    def problems(self) -> list[str]:
        """Return what is not explained."""
        found = [
            f"layer {name!r}: {layer.differ - layer.explained:,} of {layer.bits:,} bits are not the original's, "
            f"{self.first[name]}"
            for name, layer in self.layers.items()
            if layer.differ > layer.explained
        ]
        if self.far:
            found.append(
                f"{self.far:,} of {self.scores:,} scores are not the original's: off by {self.farthest:.3g}, but "
                f"rounding explains {self.bound:.3g}"
            )
        return found


def _largest_score(program: Program) -> float:
    """Return a bound on the magnitude of integer scores, and of the sums on the way to them."""
    last = program.ops[-1]
    if isinstance(last, BinaryScores):
        each = np.abs(program.constant(last.multiplier).astype(np.float64)) * _inputs(last)
    else:
        assert isinstance(last, Scores)
        table = program.constant(last.weights)
        each = np.abs(table.astype(np.float64)).reshape(len(table), -1).sum(axis=1) * last.x.element.high
    return float((each + np.abs(program.constant(last.bias).astype(np.float64))).max())


def _inputs(last: Op) -> int:
    """Return how many inputs a last layer has; one of codes counts as often as the largest says."""
    return prod(last.x.shape) * last.x.element.high


def through(program: Program, ops: Sequence[Op], x: NDArray[Any]) -> NDArray[Any]:
    """Return what some ops of a program's only member make of a value."""
    for op in ops:
        x = op.run(program, x, 0)
    return x

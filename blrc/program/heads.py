"""Define the heads of a program: parts of its scores, each with a name, a scale and a label of its own.

`blrc.program.head` says what one head answers. A member of an ensemble is run for all heads at once, so members are
asked until every head is content: the label is settled when that of each head is, and a gate or a confidence is reached
when each head reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.head import Answer, Int64s, Scale, Sums, gated


@dataclass(frozen=True)
class Head:
    """Describe a head of a network that has several.

    Attributes:
        name: becomes a part of names in C (`blrc.net.heads.check_heads`).
        classes: how many of the scores are its own; the heads' scores lie side by side in their order.
        score_scale: real score = integer score x score_scale.
    """

    name: str
    classes: int
    score_scale: float


@dataclass(frozen=True)
class Part:
    """Say where a head's scores lie among those of all heads, and how its probabilities come from them."""

    place: slice
    scale: Scale


Parts = Sequence[Part]


@dataclass(frozen=True, eq=False)
class Tallies:
    """Hold the running sums of an ensemble for each of its heads."""

    parts: tuple[Part, ...]
    sums: tuple[Sums, ...]

    @staticmethod
    def start(count: int, parts: Parts) -> Tallies:
        return Tallies(tuple(parts), tuple(Sums.start(count, part.place.stop - part.place.start) for part in parts))

    def add(self, scores: NDArray[Any]) -> Tallies:
        """Return the sums with one more member, which has these scores of all heads."""
        pairs = zip(self.parts, self.sums, strict=True)
        return Tallies(self.parts, tuple(sums.add(scores[:, part.place], part.scale) for part, sums in pairs))

    def answer(self) -> Answer:
        """Return what the members so far say; of several heads, labels, means and variances are ``(N, heads)``."""
        found = [sums.answer() for sums in self.sums]
        if len(found) == 1:
            return found[0]
        label, mean, variance = (
            np.stack([getattr(a, n) for a in found], axis=1) for n in ("label", "mean", "variance")
        )
        return Answer(label, self.side_by_side("log_p"), mean, variance, found[0].members)

    def settled(self, remaining: int) -> NDArray[np.bool_]:
        """Return where `remaining` further members cannot change the label of any head, bool ``(N,)``."""
        return reduce(np.logical_and, (sums.settled(remaining) for sums in self.sums))

    def side_by_side(self, name: str) -> Int64s:
        """Return the sums called `name` of all heads, ``(N, classes)``."""
        return np.concatenate([getattr(sums, name) for sums in self.sums], axis=1)


def ensemble(scores: Sequence[NDArray[Any]], parts: Parts, gate: int = 0) -> Answer:
    """Return the answer of all members, from the scores ``(N, classes)`` of each, as `blrc.program.head.ensemble` does.

    Args:
        gate: in Q16; where the first member's probability of every head's label is at least this, it answers alone.
    """
    tallies = Tallies.start(len(scores[0]), parts).add(scores[0])
    first = tallies.answer()
    for member in scores[1:]:
        tallies = tallies.add(member)
    return gated(first, tallies.answer(), gate)


def labels(scores: NDArray[Any], parts: Parts) -> Int64s:
    """Return the label of one member, the first largest of the scores of its head; ``(N, heads)`` of several heads."""
    found = [scores[:, part.place].argmax(axis=1).astype(np.int64) for part in parts]
    return found[0] if len(found) == 1 else np.stack(found, axis=1)


def of_first(label: NDArray[Any]) -> NDArray[Any]:
    """Return the labels, means or variances of the first head, ``(N,)``."""
    return label if label.ndim == 1 else label[:, 0]

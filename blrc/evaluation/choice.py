"""What to evaluate: which networks and ensembles, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from blrc.errors import BlrcError
from blrc.frontend.sample import NONE, Member
from blrc.program import head


@dataclass(frozen=True)
class Choice:
    """Which networks to evaluate.

    Attributes:
        entries: ``map``, ``stochastic`` and numbers of members, in the order of the report.
        repeats, seed: see `blrc.evaluation.evaluation`.
        layers, freeze: of every sampled member (see `blrc.frontend.sample.Member`).
    """

    entries: tuple[str, ...]
    repeats: int
    seed: int = 0
    layers: tuple[str, ...] | None = None
    freeze: Fraction = NONE

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted(int(entry) for entry in self.entries if entry.isdecimal()))

    def member(self, repeat: int, index: int) -> Member:
        return Member(self.seed + repeat, index, self.layers, self.freeze)


def parse_entries(text: str) -> tuple[str, ...]:
    """``stochastic,map,2,5,16`` to its entries, numbers in plain form.

    Raises:
        BlrcError: another word, a number that is none or too large, an entry twice.
    """
    entries = [entry.strip() for entry in text.split(",")]
    for i, entry in enumerate(entries):
        if entry in ("map", "stochastic"):
            continue
        digits = entry.lstrip("0") if entry.isdecimal() and entry.isascii() else ""
        if not digits or len(digits) > 4 or int(digits) > head.MAX_MEMBERS:
            raise BlrcError(
                f"--members: {entry[:20]!r} is not map, stochastic, or a number from 1 to {head.MAX_MEMBERS}; "
                "write for example --members stochastic,map,2,5,16"
            )
        entries[i] = digits
    twice = sorted({entry for entry in entries if entries.count(entry) > 1})
    if twice:
        raise BlrcError(f"--members: {', '.join(twice)} stands there twice")
    return tuple(entries)

"""Describe what to evaluate: which networks and ensembles, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import NONE, Member, sampled_layers
from blrc.program import head


@dataclass(frozen=True)
class Choice:
    """Describe which networks to evaluate.

    Attributes:
        entries: ``map``, ``stochastic`` and numbers of members, in the order of the report.
        repeats, seed: see `blrc.evaluation.evaluation`.
        layers, freeze: what of every member is sampled (see `blrc.frontend.sample.Member`).
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


@dataclass(frozen=True)
class EvalRequest:
    """Hold what `blrc.evaluate` is asked for; its fields are described there.

    Raises:
        BlrcError: ``cheap`` is given without an ensemble; the message names the option.
    """

    data: Path
    entries: tuple[str, ...]
    repeats: int = 1
    seed: int = 0
    sample: str | tuple[str, ...] = "all"
    freeze: Fraction = NONE
    validation: bool = False
    cheap: bool = False
    baselines: tuple[Path, ...] = ()
    plots: Path | None = None

    def __post_init__(self) -> None:
        choice = Choice(self.entries, self.repeats, self.seed, None, self.freeze)
        if self.cheap and max(choice.sizes, default=0) < 2:
            more = ",".join((*self.entries, "16"))
            raise BlrcError(f"--cheap is about ensembles; name one of 2 or more in --members, for example {more}")

    def of(self, checkpoint: Checkpoint) -> Choice:
        """Return the choice of a checkpoint's networks.

        Raises:
            BlrcError: the checkpoint has no such layers.
        """
        return Choice(self.entries, self.repeats, self.seed, sampled_layers(checkpoint, self.sample), self.freeze)


def parse_entries(text: str) -> tuple[str, ...]:
    """Split a text such as ``stochastic,map,2,5,16`` into its entries, with numbers in plain form.

    Raises:
        BlrcError: an entry is another word or no valid number, or occurs twice.
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

"""Whether a model fits a machine: what it needs of it in all, and what that consists of."""

from __future__ import annotations

from dataclasses import dataclass

from blrc.errors import BlrcError
from blrc.targets.c.layout.layout import Layout
from blrc.targets.c.size import footprint


@dataclass(frozen=True)
class Need:
    """Bytes that a firmware has to have for the model, in all.

    Attributes:
        flash: code and constants.
        arena, input: what the caller gives.
        scores: of one network; of an ensemble the sums of its members, and the answer.
        stack: of the deepest call.
        least: whether nothing has been compiled yet: flash is that of the tables alone, stack is 0, not known.
    """

    flash: int
    arena: int
    input: int
    scores: int
    stack: int
    least: bool = False

    @property
    def ram(self) -> int:
        return self.arena + self.input + self.scores + self.stack

    def __str__(self) -> str:
        of = [f"arena {self.arena:,}", f"input {self.input:,}", f"scores {self.scores:,}"]
        of = ["of its tables alone", *of] if self.least else [*of, f"stack {self.stack:,}"]
        least = "at least " if self.least else ""
        return f"{least}{self.flash:,} bytes of flash and {self.ram:,} of RAM ({', '.join(of)})"


class DoesNotFitError(BlrcError):
    """The model is larger than the machine's memory; the message has the numbers, and so has `need`."""

    def __init__(self, message: str, need: Need) -> None:
        super().__init__(message)
        self.need = need


class NoRoomToTestError(BlrcError):
    """The model fits the machine, but not together with what tests it there."""

    def __init__(self, message: str, region: str = "", excess: int = 0) -> None:
        super().__init__(message)
        self.region = region
        self.excess = excess


def needed(layout: Layout, flash: int | None = None, stack: int = 0) -> Need:
    """What a model needs; without the `flash` and `stack` that a compiler gave, the least that it can be."""
    parts = {part.what: part.nbytes for part in footprint.given(layout)}
    arena, given = parts.pop("arena"), parts.pop("input")
    tables = sum(step.flash for step in layout.steps)
    return Need(tables if flash is None else flash, arena, given, sum(parts.values()), stack, flash is None)


def check_fit(need: Need, fits: tuple[int, int] | None, title: str) -> None:
    """Refuse what needs more than there is.

    Args:
        fits: bytes of flash and RAM, or None: no limit.
        title: of the machine.

    Raises:
        DoesNotFitError: it does; the message says how much of what.
    """
    if fits is not None and (need.flash > fits[0] or need.ram > fits[1]):
        raise DoesNotFitError(f"{title}: needs {need}; there are {fits[0]:,} and {fits[1]:,}", need)

"""Compute what a model needs of a machine's memory, and check that it fits."""

from __future__ import annotations

from dataclasses import dataclass

from blrc.errors import BlrcError
from blrc.targets.c.layout.layout import Layout
from blrc.targets.c.size import footprint


@dataclass(frozen=True)
class Need:
    """Hold the bytes that a firmware needs for the model.

    Attributes:
        flash: code and constants.
        arena, input: the buffers that the caller gives.
        scores: the scores of one network; for an ensemble the sums of its members, and the answer.
        stack: the stack of the deepest call.
        least: whether nothing has been compiled yet. Then `flash` counts the tables alone, and `stack` is not known and
            0.
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
    """Report that the model is larger than the machine's memory; the message and `need` have the numbers."""

    def __init__(self, message: str, need: Need) -> None:
        super().__init__(message)
        self.need = need


class NoRoomToTestError(BlrcError):
    """Report that the model fits the machine, but not together with what tests it there."""

    def __init__(self, message: str, region: str = "", excess: int = 0) -> None:
        super().__init__(message)
        self.region = region
        self.excess = excess


def needed(layout: Layout, flash: int | None = None, stack: int = 0) -> Need:
    """Return what a model needs.

    Args:
        flash: bytes of code and constants, as compiled. Without them the result is the least possible need, with the
            tables alone.
        stack: bytes of stack of the deepest call, as compiled.
    """
    parts = {part.what: part.nbytes for part in footprint.given(layout)}
    arena, given = parts.pop("arena"), parts.pop("input")
    tables = sum(step.flash for step in layout.steps)
    return Need(tables if flash is None else flash, arena, given, sum(parts.values()), stack, flash is None)


def check_fit(need: Need, fits: tuple[int, int] | None, title: str) -> None:
    """Refuse a model that needs more memory than there is.

    Args:
        fits: bytes of flash and RAM that there are, or None for no limit.
        title: the machine's name.

    Raises:
        DoesNotFitError: the model needs more; the message says how much of what.
    """
    if fits is not None and (need.flash > fits[0] or need.ram > fits[1]):
        raise DoesNotFitError(f"{title}: needs {need}; there are {fits[0]:,} and {fits[1]:,}", need)

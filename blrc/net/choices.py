"""Name and check what a user may choose of a network and its bits. Imports nothing heavy, so that help may ask."""

from __future__ import annotations

import operator
from typing import Any, Literal, get_args

from blrc.errors import BlrcError

Norms = Literal["given", "estimated"]
"""Statistics of norms: those that training left, or those of the calibration samples."""
NORMS: tuple[Norms, ...] = get_args(Norms)

Rounding = Literal["exact", "float32"]
"""What decides a bit: rational numbers, or float32, which rounds after every step."""
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)

INPUTS = ("pixels", "int8", "bits")
"""Raw inputs that `--input` may declare (`blrc.importing.declared`)."""

MOST_BITS = 8
"""Bits of a code, which has a byte at most."""
FINEST, COARSEST = 2.0**-64, 2.0**64
"""Bounds of a step, between which no threshold overflows float32 or vanishes in it."""


def level_bits(who: str, bits: Any) -> int:
    """Return the number of bits, or raise a `BlrcError` that begins with `who` if it is not from 1 to 8."""
    try:
        number = 0 if isinstance(bits, bool) else operator.index(bits)
    except TypeError:
        number = 0
    if not 1 <= number <= MOST_BITS:
        raise BlrcError(f"{who}: bits {bits!r}: give a whole number from 1 to {MOST_BITS}")
    return number


def level_ends(who: str, low: Any, high: Any) -> tuple[int, int]:
    """Return the least and the largest number of steps.

    Raises:
        BlrcError: they are no whole numbers, or 0 is not among them, or they are the same or more than 255 apart; the
            message begins with `who`.
    """
    try:
        first, last = operator.index(low), operator.index(high)
    except TypeError:
        first = last = 0
    if isinstance(low, bool) or isinstance(high, bool) or not first <= 0 <= last or not 0 < last - first < 2**MOST_BITS:
        raise BlrcError(
            f"{who}: from {low!r} to {high!r}: give whole numbers with 0 among them, at most {2**MOST_BITS - 1} apart"
        )
    return first, last


def level_step(who: str, step: Any) -> float:
    """Return the step, or raise a `BlrcError` that begins with `who` if it is no positive number within bounds."""
    try:
        number = 0.0 if isinstance(step, bool | str) else float(step)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if not FINEST <= number <= COARSEST:
        raise BlrcError(f"{who}: step {step!r}: give a positive number, from 2^-64 to 2^64")
    return number

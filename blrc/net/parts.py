"""Write rational numbers as sums of floats, so that layers can hold them exactly."""

from __future__ import annotations

from fractions import Fraction

MOST_PARTS = 4
"""Floats whose sum is one shift: a float64 plus what is left of a product of two of them fits two."""


def parts(number: Fraction) -> list[float] | None:
    """Return floats whose sum is exactly `number`, largest first, or None if no few floats have it."""
    found: list[float] = []
    while number and len(found) < MOST_PARTS:
        found.append(float(number))
        number -= Fraction(found[-1])
    return None if number else found

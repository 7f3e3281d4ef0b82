"""Write rational numbers as sums of floats, so that layers can hold them exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from blrc.errors import BlrcError
from blrc.net.net import Shift

MOST_PARTS = 4
"""Floats whose sum is one shift: a float64 plus what is left of a product of two of them fits two."""


def parts(number: Fraction) -> list[float] | None:
    """Return floats whose sum is exactly `number`, largest first, or None if no few floats have it."""
    found: list[float] = []
    while number and len(found) < MOST_PARTS:
        found.append(float(number))
        number -= Fraction(found[-1])
    return None if number else found


def shifts(name: str, x: str, by: Sequence[Fraction]) -> tuple[Shift, ...]:
    """Return the layers that add to each channel of x exactly; several where a number is no float.

    Raises:
        BlrcError: a number is no sum of a few floats (layer x named).
    """
    rows = []
    for number in by:
        found = parts(number)
        if found is None:
            raise BlrcError(f"layer {x!r}: what is added to its sums is no sum of a few floats; use rounder numbers")
        rows.append(found)
    many = max(map(len, rows), default=0)
    return tuple(
        Shift(name, x, np.array([row[i] if i < len(row) else 0.0 for row in rows])) for i in range(max(1, many))
    )

"""Decide signs of exact real numbers that are built from rationals and square roots of rationals.

Each norm of a chain multiplies by 1 / sqrt(V), so a value behind n norms lies in Q(sqrt(V1), ..., sqrt(Vn)). Such a
number is a + b sqrt(d) with a and b from the field without the last root. Its sign follows from those of a, b and
a^2 - b^2 d, all in that smaller field. So nothing is ever rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Surd:
    """Hold a + b sqrt(d), d > 0. ``level`` counts roots: all numbers of one level have the same root."""

    level: int
    a: Real
    b: Real
    d: Fraction


Real = Fraction | Surd
ZERO = Fraction(0)


def level(x: Real) -> int:
    """Return how many square roots a number may contain."""
    return x.level if isinstance(x, Surd) else 0


def add(x: Real, y: Real) -> Real:
    """Return x + y."""
    if level(x) < level(y):
        x, y = y, x
    if not isinstance(x, Surd):
        assert isinstance(y, Fraction)
        return x + y
    if isinstance(y, Surd) and y.level == x.level:
        return Surd(x.level, add(x.a, y.a), add(x.b, y.b), x.d)
    return Surd(x.level, add(x.a, y), x.b, x.d)


def multiply(x: Real, y: Real) -> Real:
    """Return x y."""
    if level(x) < level(y):
        x, y = y, x
    if not isinstance(x, Surd):
        assert isinstance(y, Fraction)
        return x * y
    if isinstance(y, Surd) and y.level == x.level:
        whole = add(multiply(x.a, y.a), multiply(multiply(x.b, y.b), x.d))
        return Surd(x.level, whole, add(multiply(x.a, y.b), multiply(x.b, y.a)), x.d)
    return Surd(x.level, multiply(x.a, y), multiply(x.b, y), x.d)


def over_root(x: Real, d: Fraction) -> Real:
    """Return x / sqrt(d), whose level is one higher."""
    return Surd(level(x) + 1, ZERO, multiply(x, 1 / d), d)


def sign(x: Real) -> int:
    """Return -1, 0 or 1."""
    if not isinstance(x, Surd):
        return (x.numerator > 0) - (x.numerator < 0)
    a, b = sign(x.a), sign(x.b)
    if a == 0 or b == 0 or a == b:
        return a or b
    return a * sign(add(multiply(x.a, x.a), multiply(multiply(x.b, x.b), -x.d)))

"""Signs of numbers with nested square roots, against decimals of 120 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from blrc.lowering.surds import Real, Surd, add, multiply, over_root, sign

numbers = st.fractions(min_value=-50, max_value=50, max_denominator=40)
roots = st.fractions(min_value=Fraction(1, 40), max_value=50, max_denominator=40)
DIGITS = 120
SMALL = Decimal(10) ** -60


def decimal(x: Real) -> Decimal:
    if isinstance(x, Surd):
        return decimal(x.a) + decimal(x.b) * decimal(x.d).sqrt()
    return Decimal(x.numerator) / Decimal(x.denominator)


@given(st.lists(st.tuples(numbers, numbers, roots), min_size=1, max_size=3), numbers)
def test_a_chain_of_norms_has_the_sign_that_decimals_have(norms: list[tuple[Fraction, ...]], z: Fraction) -> None:
    with localcontext() as context:
        context.prec = DIGITS
        x: Real = z
        plain = decimal(z)
        for gamma, beta, variance in norms:
            x = add(over_root(multiply(x, gamma), variance), beta)
            plain = decimal(gamma) * plain / decimal(variance).sqrt() + decimal(beta)
        assert abs(decimal(x) - plain) < SMALL
        assert sign(x) == (0 if abs(plain) < SMALL else 1 if plain > 0 else -1)


@given(numbers, roots, roots)
def test_zero_is_seen_behind_two_roots(z: Fraction, first: Fraction, second: Fraction) -> None:
    x = over_root(over_root(z, first), second)
    assert sign(add(x, multiply(x, Fraction(-1)))) == 0
    # sqrt(a) sqrt(b) / sqrt(a b) = 1, whatever the roots are
    one = over_root(over_root(over_root(first * second, first), second), first * second)
    assert sign(add(one, Fraction(-1))) == 0
    assert sign(add(one, Fraction(-1) + Fraction(1, 10**40))) == 1

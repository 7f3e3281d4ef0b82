"""Codes of ternary weights: the likeliest values by exact arithmetic, and what is drawn by Philox itself."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from blrc.frontend.weights.logits import from_codes
from blrc.frontend.weights.record import Coded
from blrc.frontend.weights.ternary import TERNARY, likeliest, thresholds

SPREAD = (-128, -127, -90, -40, -20, -13, -9, -8, -7, -5, -3, -2, -1, 0, 1, 2, 6, 8, 13, 30, 64, 100, 126, 127)
GOLDEN = "++0+++++++++0-0+-000000000-00000"


def coded(zero: object, sign: object) -> Coded:
    return Coded(TERNARY, (np.array(zero, dtype=np.int8), np.array(sign, dtype=np.int8)))


@cache
def exact(zero: int, sign: int) -> tuple[Fraction, Fraction, Fraction]:
    """P(-1), P(0) and P(+1) to 60 digits, as each logit's middle gives them."""
    with localcontext() as context:
        context.prec = 60
        c, a = (Fraction(1 / (1 + (-Decimal(2 * code + 1) / 24).exp())) for code in (zero, sign))
    return (1 - c) * (1 - a), c, (1 - c) * a


@pytest.mark.parametrize("zero", SPREAD)
def test_tables_are_rounded_probabilities_and_the_argmax_of_three(zero: int) -> None:
    for sign in SPREAD:
        p = exact(zero, sign)
        low, high = (int(t) for t in thresholds()[zero + 128, sign + 128])
        assert (low, high) == (round(2**32 * p[0]), round(2**32 * (p[0] + p[1])))
        assert likeliest()[zero + 128, sign + 128] == p.index(max(p)) - 1
        assert coded([zero], [sign]).counts().tolist() == [[low, high - low, 2**32 - high]]


def test_every_pair_of_codes_can_give_every_value() -> None:
    ends = thresholds().astype(np.int64)
    assert ends.shape == (256, 256, 2)
    assert (np.diff(ends, axis=-1, prepend=0, append=2**32) > 0).all()
    for axis in (0, 1):  # -1 is rarer where 0, or +1, is likelier
        assert (np.diff(ends[..., 0], axis=axis) <= 0).all()


logit = st.one_of(st.floats(-30, 30, width=32), st.sampled_from([0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30]))


@given(arrays(np.float32, 40, elements=logit), arrays(np.float32, 40, elements=logit))
def test_the_likeliest_value_never_changes(zero: np.ndarray, sign: np.ndarray) -> None:
    found = Coded(TERNARY, TERNARY.encode(zero, sign)).likeliest()
    for value, c, a in zip(found.tolist(), zero.tolist(), sign.tolist(), strict=True):
        with localcontext() as context:
            context.prec = 50
            rest = (-abs(Decimal(a))).exp()  # P(0) / P(not 0) = exp(C), and the likelier sign has 1 / (1 + exp(-|A|))
            is_zero = Decimal(min(max(c, -100.0), 100.0)).exp() * (1 + rest) >= 1
        assert value == (0 if is_zero else 1 if a >= 0 else -1)


@given(arrays(np.float32, 40, elements=st.floats(-10.5, 10.5, width=32)), st.data())
def test_codes_are_near_and_a_fixed_point(zero: np.ndarray, data: st.DataObject) -> None:
    sign = data.draw(arrays(np.float32, 40, elements=st.floats(-10.5, 10.5, width=32)))
    codes = TERNARY.encode(zero, sign)
    back = [from_codes(code).astype(np.float64) for code in codes]
    assert (np.abs(back[0] - zero) <= 1.5 / 12 + 1e-6).all() and (np.abs(back[1] - sign) <= 0.5 / 12 + 1e-6).all()
    assert all(map(np.array_equal, TERNARY.encode(*back), codes))


def test_all_pairs_of_codes_are_a_fixed_point() -> None:
    pairs = np.meshgrid(*[np.arange(-128, 128).astype(np.int8)] * 2)
    assert all(map(np.array_equal, TERNARY.encode(*map(from_codes, pairs)), pairs))


def test_ties_are_zero_and_then_plus_one() -> None:
    tie = np.array([0.0, -50.0, -50.0]), np.array([60.0, 0.0, -0.0])  # the first is one in float64
    assert Coded(TERNARY, TERNARY.encode(*tie)).likeliest().tolist() == [0, 1, 1]


def test_one_word_of_philox_and_two_thresholds_decide_a_weight() -> None:
    rng = np.random.default_rng(0)
    zero, sign = rng.integers(-30, 20, (2, 7)), rng.integers(-40, 40, (2, 7))
    raw = np.random.Philox(key=np.array([7, (5 << 32) | 2], dtype=np.uint64)).random_raw(7)
    words = [half for word in raw.tolist() for half in (word & 0xFFFFFFFF, word >> 32)]
    expected = []
    for word, c, a in zip(words, zero.ravel().tolist(), sign.ravel().tolist(), strict=True):
        p = exact(c, a)
        expected.append(-1 if word < round(2**32 * p[0]) else 0 if word < round(2**32 * (p[0] + p[1])) else 1)
    assert coded(zero, sign).sampled(7, 5, 2).ravel().tolist() == expected
    assert len(set(expected)) == 3


def test_samples_follow_the_probabilities() -> None:
    count = 200_000
    for zero, sign in ((-128, 3), (-9, -1), (0, 0), (5, 40), (20, -60), (127, 127)):
        values = coded(np.full(count, zero), np.full(count, sign)).sampled(3, 0, zero + 128)
        for value, p in zip((-1, 0, 1), map(float, exact(zero, sign)), strict=True):
            assert abs(int((values == value).sum()) - count * p) < 5 * (count * p * (1 - p)) ** 0.5 + 1


def test_samples_are_the_same_everywhere() -> None:
    values = coded(np.arange(32) - 16, np.arange(32)[::-1] * 3 - 48).sampled(1, 2, 3)
    assert "".join("-0+"[value + 1] for value in values.tolist()) == GOLDEN


def test_frozen_is_what_takes_another_value_with_less_than_that_probability() -> None:
    for zero in SPREAD[::3]:
        for sign in SPREAD[::2]:
            drawn = [round(2**32 * p) for p in exact(zero, sign)]
            others = Fraction(2**32 - max(drawn[0], 2**32 - drawn[0] - drawn[2], drawn[2]), 2**32)
            assert not coded([zero], [sign]).frozen(others)[0]
            assert coded([zero], [sign]).frozen(others + Fraction(1, 2**80))[0]
    assert not coded([-9], [0]).frozen(Fraction(1, 2))[0]  # a third each: 1/2 does not freeze all

"""The integer head against float64 and long decimals: its error bound, ties, the floor, early stopping."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.program import head
from blrc.program.head import FLOOR, ONE, Sums

BOUND = 16  # 2^-12 in Q16


def exact(scores: np.ndarray, scale: float) -> np.ndarray:  # type: ignore[type-arg]
    """log2 softmax in units of 2^-16, by extended precision."""
    x = scores.astype(np.longdouble) * np.longdouble(scale)
    x -= x.max(axis=1, keepdims=True)
    return (x - np.log(np.exp(x).sum(axis=1, keepdims=True))) / np.log(np.longdouble(2)) * ONE


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 3e-4, 0.01, 0.0123, 0.5, 1.0, 21.7, 3e4, 1e12])
@pytest.mark.parametrize("classes", [2, 10, 1000, 4096])
def test_error_is_within_the_bound(scale: float, classes: int) -> None:
    rng = np.random.default_rng(classes)
    for bits in (1.0, 8.0, 24.0, 60.0):
        spread = min(int(bits / scale / math.log2(math.e)) + 1, 2**30)
        scores = rng.integers(-spread, spread + 1, (50, classes)).astype(np.int32)
        ours = head.log_probabilities(scores, head.scale_of(scale))
        theirs = np.maximum(exact(scores, scale), -FLOOR)
        assert float(np.abs(ours - theirs).max()) < BOUND


def test_two_classes_over_the_whole_reachable_range() -> None:
    behind = np.arange(0, 40_000)
    scores = np.stack([np.zeros_like(behind), -behind], axis=1)
    ours = head.log_probabilities(scores, head.scale_of(0.001))
    theirs = np.maximum(exact(scores, 0.001), -FLOOR)
    assert float(np.abs(ours - theirs).max()) < 3
    assert int(ours.min()) == -FLOOR
    assert np.all(np.diff(ours[:, 1]) <= 0)  # falling further behind never helps


def test_largest_scores_do_not_overflow() -> None:
    scores = np.array([[2**30 - 1, -(2**30)], [2**30 - 1, 2**30 - 1]])
    for scale in (1e-30, 1e-9, 1.0, 1e30):
        ours = head.log_probabilities(scores, head.scale_of(scale))
        theirs = np.maximum(exact(scores, scale), -FLOOR)
        assert float(np.abs(ours - theirs).max()) < BOUND


@given(st.floats(1e-12, 1e12))
def test_scale_is_the_rounded_multiplier(scale: float) -> None:
    found = head.scale_of(scale)
    assert 0 <= found.multiplier < 2**31
    assert 0 <= found.shift <= head.MAX_SHIFT
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(scale) / Decimal(2).ln() * 2 ** (16 + found.shift)
        assert found.multiplier == min(int(exact.to_integral_value()), 2**31 - 1)


def test_tables_are_rounded_values() -> None:
    for j in range(257):
        assert abs(int(head.exp2_table()[j]) - 2**30 * 2 ** (-j / 256)) <= 0.5 + 1e-6
        assert abs(int(head.log2_table()[j]) - 2**24 * math.log2(1 + j / 256)) <= 0.5 + 1e-6


def test_probabilities_of_every_log_probability() -> None:
    log_p = -np.arange(FLOOR + 1)
    assert float(np.abs(head.probabilities(log_p) - ONE * 2.0 ** (log_p / ONE)).max()) <= 0.6
    assert head.probabilities(np.array([0])).tolist() == [ONE]


def test_statistics_are_population_moments() -> None:
    rng = np.random.default_rng(0)
    scale = head.scale_of(0.01)
    members = [rng.integers(-900, 900, (40, 5)).astype(np.int32) for _ in range(7)]
    answer = head.ensemble(members, scale)
    log_p = sum(head.log_probabilities(m, scale) for m in members)
    p = np.stack([head.probabilities(head.log_probabilities(m, scale)) for m in members]) / ONE
    for i in range(40):
        label = min(c for c in range(5) if log_p[i, c] == max(log_p[i]))
        assert answer.label[i] == label
        assert abs(answer.mean[i] / ONE - p[:, i, label].mean()) < 2**-16
        assert abs(answer.variance[i] / 2**32 - p[:, i, label].var()) < 2**-31
    assert answer.members.tolist() == [7] * 40


@given(
    st.lists(st.lists(st.integers(-4000, 4000), min_size=3, max_size=3), min_size=2, max_size=4), st.integers(1, ONE)
)
def test_a_gate_lets_the_first_answer_alone(members: list[list[int]], gate: int) -> None:
    """Input by input; the gate lies at the first member's largest probability, just above it, or anywhere."""
    scale = head.scale_of(0.004)
    rows = [np.array([m, m[::-1]], dtype=np.int32) for m in members]
    top = head.probabilities(head.log_probabilities(rows[0], scale)).max(axis=1)
    for level in (gate, int(top[0]), int(top[0]) + 1):
        found = head.ensemble(rows, scale, level)
        for i in range(2):
            asked = rows[:1] if top[i] >= level else rows
            expected = head.ensemble([m[i : i + 1] for m in asked], scale)
            assert found.members[i] == len(asked)
            for name in ("label", "log_p", "mean", "variance", "members"):
                assert np.array_equal(getattr(found, name)[i], getattr(expected, name)[0]), name


@given(st.fractions(0, 1).filter(bool))
def test_a_gate_holds_from_its_probability_on(probability: Fraction) -> None:
    gate = head.gate_of(probability)
    assert 1 <= gate <= ONE
    assert Fraction(gate, ONE) >= probability > Fraction(gate - 1, ONE)


def test_ties_go_to_the_first_class() -> None:
    answer = head.ensemble([np.array([[5, 9, 9], [7, 7, 7], [1, 2, 3]], dtype=np.int32)], head.scale_of(0.1))
    assert answer.label.tolist() == [1, 0, 2]


@given(
    st.lists(st.lists(st.integers(-4000, 4000), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_settled_is_sound_and_sharp(members: list[list[int]], remaining: int) -> None:
    """Against the worst that `remaining` members can do: each says 0 for a rival and the floor for the label."""
    sums = Sums.start(1, 3)
    for scores in members:
        sums = sums.add(np.array([scores]), head.scale_of(0.004))
    label = int(sums.answer().label[0])
    can_change = False
    for rival in {0, 1, 2} - {label}:
        worst = sums.log_p[0].copy()
        worst[label] -= remaining * FLOOR
        can_change |= int(worst.argmax()) != label if worst[rival] >= worst[label] else False
        if worst[rival] > worst[label] or (worst[rival] == worst[label] and rival < label):
            can_change = True
    assert bool(sums.settled(remaining)[0]) == (not can_change)


def test_settled_labels_never_change() -> None:
    rng = np.random.default_rng(3)
    scale = head.scale_of(0.02)
    for _ in range(20):
        scores = [
            rng.normal(0, 300, (50, 10)).astype(np.int32) + rng.integers(0, 2000) * np.eye(10, dtype=np.int32)[0]
            for _ in range(6)
        ]
        sums, early = Sums.start(50, 10), np.full(50, -1)
        for k, member in enumerate(scores):
            sums = sums.add(member, scale)
            fresh = sums.settled(6 - k - 1) & (early < 0)
            early[fresh] = sums.answer().label[fresh]
        assert np.array_equal(early, sums.answer().label)


def test_sums_of_the_largest_ensemble_fit_int32() -> None:
    assert head.MAX_MEMBERS * FLOOR < 2**31 <= (head.MAX_MEMBERS + 1) * FLOOR

"""Metrics against loops over samples, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.evaluation import metrics
from blrc.evaluation.metrics import Bin, Predictions, Spread
from blrc.program import head


def random_predictions(seed: int, n: int, classes: int, ties: bool = False) -> tuple[Predictions, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n)
    label = p.argmax(axis=1)
    confidence = p[np.arange(n), label]
    variance = rng.integers(0, 3, n) if ties else rng.random(n)
    return Predictions(p, label, confidence, variance), rng.integers(0, classes, n)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 5), st.booleans())
def test_against_loops(seed: int, n: int, classes: int, ties: bool) -> None:
    predictions, labels = random_predictions(seed, n, classes, ties)
    quality = metrics.measure(predictions, labels)
    right = [int(a) == int(b) for a, b in zip(predictions.label, labels, strict=True)]
    assert quality.accuracy == pytest.approx(100 * sum(right) / n)
    nll = brier = 0.0
    for i in range(n):
        nll -= math.log(predictions.probabilities[i, labels[i]]) / n
        brier += sum((predictions.probabilities[i, c] - (c == labels[i])) ** 2 for c in range(classes)) / n
    assert quality.nll == pytest.approx(nll) and quality.brier == pytest.approx(brier)
    order = sorted(range(n), key=lambda i: (predictions.variance[i], -predictions.confidence[i], i))
    errors = [sum(not right[i] for i in order[: k + 1]) / (k + 1) for k in range(n)]
    assert metrics.error_coverage(predictions, labels) == pytest.approx(errors)
    assert quality.coverage_area == pytest.approx(sum(errors) / n)
    ece = 0.0
    for b in range(15):
        inside = [i for i in range(n) if b / 15 < predictions.confidence[i] <= (b + 1) / 15]
        if inside:
            gap = sum(right[i] for i in inside) - sum(float(predictions.confidence[i]) for i in inside)
            ece += abs(gap) / n
    assert quality.ece == pytest.approx(ece, abs=1e-9)


def test_a_certain_and_right_network_has_no_error_at_all() -> None:
    p = np.eye(3)[[0, 2, 1]]
    labels = np.array([0, 2, 1])
    predictions = Predictions(np.maximum(p, 1e-300), labels, np.ones(3), np.zeros(3))
    quality = metrics.measure(predictions, labels)
    assert (quality.accuracy, quality.nll, quality.brier, quality.ece, quality.coverage_area) == (100, 0, 0, 0, 0)


def test_certain_members_come_first() -> None:
    """The third sample is wrong and the members disagree on it: errors appear at the end of the curve."""
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.99, 0.01]])
    predictions = Predictions(p, np.zeros(3, np.int64), p[:, 0], np.array([1, 2, 3]))
    assert metrics.error_coverage(predictions, np.array([0, 0, 1])).tolist() == [0, 0, pytest.approx(1 / 3)]


def test_an_ensemble_is_described_as_on_the_device() -> None:
    scores = np.random.default_rng(0).integers(-50, 50, (4, 30, 5)).astype(np.int32)
    scale = head.scale_of(0.05)
    sums, p = head.Sums.start(30, 5), np.zeros((30, 5))
    for member in scores:
        sums = sums.add(member, scale)
        p += metrics.member_probabilities(head.log_probabilities(member, scale))
    predictions, answer = metrics.of_members(sums, p), sums.answer()
    assert np.array_equal(predictions.label, answer.label) and np.array_equal(predictions.confidence, answer.mean)
    assert np.array_equal(predictions.variance, answer.variance)
    softmax = np.exp(0.05 * scores) / np.exp(0.05 * scores).sum(axis=2, keepdims=True)
    assert np.abs(predictions.probabilities - softmax.mean(axis=0)).max() < 2**-11


def test_pooled_bins_are_those_of_all_samples() -> None:
    parts = [random_predictions(seed, 50, 3) for seed in range(4)]
    pooled = metrics.pooled([metrics.reliability(*part) for part in parts])
    together = Predictions(
        np.concatenate([p.probabilities for p, _ in parts]),
        np.concatenate([p.label for p, _ in parts]),
        np.concatenate([p.confidence for p, _ in parts]),
        np.concatenate([p.variance for p, _ in parts]),
    )
    whole = metrics.reliability(together, np.concatenate([labels for _, labels in parts]))
    for mine, theirs in zip(pooled, whole, strict=True):
        assert mine.count == theirs.count
        assert (mine.confidence, mine.accuracy) == pytest.approx((theirs.confidence, theirs.accuracy))
    assert sum(bin.count for bin in whole) == 200 and whole[0] == Bin(0, 0.0, 0.0)


def test_long_curves_are_thinned_and_end_at_full_coverage() -> None:
    coverage, error = metrics.downsample(np.arange(1000) / 1000)
    assert len(coverage) == len(error) == 200 and coverage[-1] == 1 and error[-1] == 0.999
    assert [round(1000 * c) - 1 for c in coverage] == [round(1000 * e) for e in error]
    assert metrics.downsample(np.array([0.0, 0.5])) == ([0.5, 1.0], [0.0, 0.5])


def test_spread_is_of_a_sample() -> None:
    assert metrics.spread([1.0, 3.0]) == Spread(2.0, math.sqrt(2.0)) and metrics.spread([5.0]) == Spread(5.0, 0.0)


def test_no_samples_are_an_error() -> None:
    with pytest.raises(BlrcError, match="no samples"):
        metrics.measure(Predictions(np.ones((0, 2)), *3 * [np.zeros(0, np.int64)]), np.zeros(0, np.int64))

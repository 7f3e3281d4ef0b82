"""Measure how good predictions are: accuracy, likelihood, Brier score, calibration error, error against coverage.

The predictive distribution of an ensemble is the arithmetic mean of its members' probabilities. Its label is the first
maximum of the summed log-probabilities, which is what a device answers. Throughout, there are N samples and C classes;
q_i is the predictive distribution of sample i, t_i its class, y_i the label, and c_i = q_i(y_i) the confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program.head import ONE, Sums

Floats = NDArray[np.float64]
BINS = 15
POINTS = 200


@dataclass(frozen=True, eq=False)
class Predictions:
    """Hold what one network or ensemble says of N samples.

    Attributes:
        probabilities: float64 ``(N, C)``, the predictive distribution; every entry is positive.
        label: int64 ``(N,)``.
        confidence: probability of the label, ``(N,)``; an ensemble's is in Q16, rounded down, as on the device.
        variance: population variance over members of the label's probability, ``(N,)``, 0 for a single network; an
            ensemble's is in Q32, rounded down, as on the device.
    """

    probabilities: Floats
    label: NDArray[np.int64]
    confidence: NDArray[Any]
    variance: NDArray[Any]


def of_members(sums: Sums, probabilities: Floats) -> Predictions:
    """Return the predictions of an ensemble from its sums and the sum of its members' probabilities, ``(N, C)``."""
    answer = sums.answer()
    return Predictions(probabilities / sums.members, answer.label, answer.mean, answer.variance)


def member_probabilities(log_p: NDArray[np.int64]) -> Floats:
    """Return p from the integer head's log-probabilities (base 2, Q16); it is at least 2^-24 by the head's floor."""
    return np.asarray(np.exp2(log_p / ONE))


def of_logits(logits: NDArray[Any]) -> Predictions:
    """Return the predictions of a single network from real scores ``(N, C)``, by softmax in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    p = np.exp(shifted)
    p = np.maximum(p / p.sum(axis=1, keepdims=True), 2.0**-1000)
    label = np.asarray(logits.argmax(axis=1), dtype=np.int64)
    return Predictions(p, label, p[np.arange(len(p)), label], np.zeros(len(p)))


@dataclass(frozen=True)
class Quality:
    """Hold the metrics of one set of predictions.

    Attributes:
        accuracy: per cent of samples whose label is right.
        nll: negative log-likelihood, -1/N sum_i ln q_i(t_i), in nats.
        brier: 1/N sum_i sum_c (q_i(c) - [c = t_i])^2, from 0 to 2 (Brier, 1950).
        ece: expected calibration error, sum_b n_b/N |accuracy_b - confidence_b| over 15 equal bins of the confidence
            (Naeini et al., 2015; Guo et al., 2017), as a fraction.
        coverage_area: area under the error-coverage curve, 1/N sum_k error(k), as a fraction (`error_coverage`).
    """

    accuracy: float
    nll: float
    brier: float
    ece: float
    coverage_area: float


def measure(predictions: Predictions, labels: NDArray[np.int64]) -> Quality:
    """Return all metrics of predictions for samples of classes `labels`, int64 ``(N,)``, N >= 1."""
    if not len(labels):
        raise BlrcError("no samples to evaluate on")
    p, rows = predictions.probabilities, np.arange(len(labels))
    brier = (p * p).sum(axis=1) - 2.0 * p[rows, labels] + 1.0
    bins = reliability(predictions, labels)
    gaps = [bin.count * abs(bin.accuracy - bin.confidence) for bin in bins]
    return Quality(
        accuracy=accuracy(predictions.label, labels),
        nll=float(-np.log(p[rows, labels]).mean()),
        brier=float(brier.mean()),
        ece=float(sum(gaps) / len(labels)),
        coverage_area=float(error_coverage(predictions, labels).mean()),
    )


def accuracy(label: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return the per cent of samples whose label is right."""
    return 100.0 * int((label == labels).sum()) / len(labels)


def error_coverage(predictions: Predictions, labels: NDArray[np.int64]) -> Floats:
    """Return error(k), the share of wrong labels among the k most certain samples (paper, section 5.2, figure 3).

    There is a value for each k = 1..N. Samples are sorted by the variance of the label's probability, smallest first,
    then by its mean, largest first, then by index. A single network has no variance, so its samples are sorted by the
    highest softmax output.
    """
    order = np.lexsort((-predictions.confidence, predictions.variance))  # stable: equals stay in order of index
    wrong = (predictions.label != labels)[order]
    return np.asarray(np.cumsum(wrong) / np.arange(1, len(labels) + 1))


@dataclass(frozen=True)
class Bin:
    """Describe the samples whose confidence lies in one bin: how many, their mean confidence and accuracy.

    Confidence and accuracy are fractions, and 0 if there are no samples.
    """

    count: int
    confidence: float
    accuracy: float


def reliability(predictions: Predictions, labels: NDArray[np.int64], bins: int = BINS) -> tuple[Bin, ...]:
    """Return the reliability diagram: `bins` equal bins of the confidence, where bin b holds b/bins < c <= (b+1)/bins.

    The confidence here is that of the predictive distribution, q_i(y_i), not rounded.
    """
    rows = np.arange(len(labels))
    confidence = np.minimum(predictions.probabilities[rows, predictions.label], 1.0)
    right = predictions.label == labels
    index = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    found = []
    for b in range(bins):
        inside = index == b
        count = int(inside.sum())
        found.append(
            Bin(count, float(confidence[inside].mean()), float(right[inside].mean())) if count else Bin(0, 0.0, 0.0)
        )
    return tuple(found)


def pooled(several: Sequence[Sequence[Bin]]) -> tuple[Bin, ...]:
    """Merge the bins of several evaluations."""
    result = []
    for same in zip(*several, strict=True):
        count = sum(bin.count for bin in same)
        weight = max(count, 1)
        result.append(
            Bin(
                count,
                sum(bin.count * bin.confidence for bin in same) / weight,
                sum(bin.count * bin.accuracy for bin in same) / weight,
            )
        )
    return tuple(result)


def downsample(curve: Floats, points: int = POINTS) -> tuple[list[float], list[float]]:
    """Return coverage k/N and error(k) at no more than `points` evenly spaced k, the last of which is N."""
    n = len(curve)
    at = np.unique(np.ceil(np.arange(1, min(points, n) + 1) * n / min(points, n)).astype(np.int64))
    return (at / n).tolist(), curve[at - 1].tolist()


@dataclass(frozen=True)
class Spread:
    """Hold the mean and the standard deviation (of a sample, with N-1; 0 for a single value)."""

    mean: float
    std: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)

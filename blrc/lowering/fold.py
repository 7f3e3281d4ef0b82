"""Fold a norm and a sign into a flip and an integer threshold.

No other module knows how. For an integer pre-activation z the network decides

    gamma (z - m) / sqrt(v + eps) + beta >= 0.                                                               (1)

With V = v + eps > 0, and z' = -z, m' = -m where gamma < 0 (the row is *flipped*), (1) is

    |gamma| (z' - m') + beta sqrt(V) >= 0.

This is monotone in z', so it means z' >= t for one integer t. It is decided exactly, because all numbers are rationals
(floats are): a + beta sqrt(V) >= 0 follows from the signs of a and beta and, where they differ, from comparing a^2 with
beta^2 V. A bisection with (1) itself as the predicate finds t, so the law is written only once. gamma = 0 gives a
constant: always or never.

Thresholds are confined to [low, high + 1], where [low, high] is the reachable range: low means always, high + 1 means
never.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.net import Conv, Dense, Norm, Reals, Sums, check_finite


@dataclass(frozen=True, eq=False)
class Folded:
    """Hold ``flip`` (bool) and ``threshold`` (int32), each (channels,).

    The output is +1 if and only if (-z if flip else z) >= threshold.
    """

    flip: NDArray[np.bool_]
    threshold: NDArray[np.int32]


def decides_plus(gamma: Fraction, z_minus_m: Fraction, beta: Fraction, v_plus_eps: Fraction) -> bool:
    """Decide (1) of this module exactly: whether gamma (z - m) / sqrt(V) + beta >= 0, for V > 0."""
    a = gamma * z_minus_m
    if a >= 0 and beta >= 0:
        return True
    if a < 0 and beta <= 0:
        return False
    if a < 0:
        return beta * beta * v_plus_eps >= a * a
    return a * a >= beta * beta * v_plus_eps


def fold(linear: Conv | Dense, norm: Norm | None, scale: float, low: int, high: int) -> Folded:
    """Fold the norm (or only the bias) behind a binary layer.

    Args:
        linear: gives the bias.
        norm: calibrated, or None for a layer without norm.
        scale: codes per real unit of the layer's input (1 for +-1); eps, bias and running moments are real, z is in
            codes.
        low, high: range of z that can occur.

    Raises:
        BlrcError: parameters that are not finite (layer and channel named), an eps that is negative or not finite, no
            statistics, v + eps = 0.
    """
    if linear.bias is not None:
        check_finite(linear.name, "bias", linear.bias)
    if norm is None:
        return _fold_bias(linear, scale, low, high)
    check_norm(norm)
    channels = len(norm.gamma)
    flip = norm.gamma < 0
    threshold = np.empty(channels, dtype=np.int32)
    for c in range(channels):
        mean, variance = moments(linear, norm, Fraction(scale), c)
        gamma, beta = abs(Fraction(norm.gamma[c])), Fraction(norm.beta[c])
        if flip[c]:
            mean = -mean
        # The range of -z is the mirrored range.
        lowest, highest = (-high, -low) if flip[c] else (low, high)
        threshold[c] = least(lowest, highest, partial(_decides, gamma, mean, beta, variance))
    return Folded(flip, threshold)


def check_norm(norm: Norm) -> None:
    """Raise a `BlrcError` that names the norm if its eps, gamma or beta is not finite, or its eps is negative."""
    if not (math.isfinite(norm.eps) and norm.eps >= 0):
        raise BlrcError(f"layer {norm.name!r}: eps {norm.eps}: must be finite and not negative; train with 1e-5, say")
    check_finite(norm.name, "gamma", norm.gamma)
    check_finite(norm.name, "beta", norm.beta)


def _decides(gamma: Fraction, mean: Fraction, beta: Fraction, v_plus_eps: Fraction, z: int) -> bool:
    return decides_plus(gamma, z - mean, beta, v_plus_eps)


def _fold_bias(linear: Conv | Dense, scale: float, low: int, high: int) -> Folded:
    channels = len(linear.weights)
    if linear.bias is None:
        threshold = np.full(channels, 0)
    else:
        # z / scale + bias >= 0
        exact = [-(Fraction(b) * Fraction(scale)) for b in linear.bias]
        threshold = np.array([-((-t.numerator) // t.denominator) for t in exact], dtype=object)
    confined = np.clip(threshold, low, high + 1).astype(np.int32)
    return Folded(np.zeros(channels, dtype=bool), confined)


def moments(linear: Conv | Dense, norm: Norm, scale: Fraction, c: int) -> tuple[Fraction, Fraction]:
    """Return (m, v + eps) of channel c, in units of the integer z."""
    statistics = norm.statistics
    if statistics is None:
        raise BlrcError(f"layer {norm.name!r}: its norm has no statistics; calibrate the network first")
    if isinstance(statistics, Sums):
        # Sums of z itself: a bias moves z and m alike, so it cancels.
        mean, variance = statistics.mean(c), statistics.variance(c)
    else:
        bias = Fraction(linear.bias[c]) if linear.bias is not None else Fraction(0)
        mean = (_real(norm, "running mean", statistics.means, c) - bias) * scale
        variance = _real(norm, "running variance", statistics.variances, c) * scale**2
    total = variance + Fraction(norm.eps) * scale**2
    if total <= 0:
        raise BlrcError(
            f"layer {norm.name!r}: variance + eps of channel {c} is not positive, so its norm divides by zero; "
            "train with eps > 0"
        )
    return mean, total


def _real(norm: Norm, what: str, values: Reals, c: int) -> Fraction:
    if not np.isfinite(values[c]):
        check_finite(norm.name, what, values)
    return Fraction(values[c])


def least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the least z in [low, high] for which the monotone predicate holds, or high + 1 if there is none."""
    first, last = low, high + 1
    while first < last:
        middle = (first + last) // 2
        if holds(middle):
            last = middle
        else:
            first = middle + 1
    return first


def float64_decision(
    linear: Conv | Dense, norm: Norm, scale: float, z: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Decide (1) of this module directly in float64, to compare with the exact decision; z is (..., channels) integers.

    Returns:
        the decisions, and where they are ties to within float64's rounding (the only place where they may differ).
    """
    pairs = [moments(linear, norm, Fraction(scale), c) for c in range(len(norm.gamma))]
    mean = np.array([float(m) for m, _ in pairs])
    spread = np.sqrt(np.array([float(v) for _, v in pairs]))
    scaled = norm.gamma * (z - mean) / spread
    a = scaled + norm.beta
    tie = np.abs(a) <= 1e-12 * (np.abs(scaled) + np.abs(norm.beta) + np.abs(norm.gamma * mean / spread))
    return a >= 0, tie

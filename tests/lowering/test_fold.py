"""The folded threshold against (1) in two independent forms: 60-digit decimals, and float64 written out."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from by_night import first
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import checkpoint_of, deep_network

from blrc.errors import BlrcError
from blrc.frontend.sample import Member, sample
from blrc.lowering.calibrate import calibrate, fan_in
from blrc.lowering.chain import Affine, signs
from blrc.lowering.fold import Folded, float64_decision, fold_stage
from blrc.net.net import Conv, Dense, Moments, Net, Norm, Sign, Sums
from blrc.net.pieces import Stage, pieces

FLOATS = st.floats(-100, 100, width=32)


def one_channel(gamma: float, beta: float, statistics: Sums | Moments | None, eps: float = 1e-5) -> Norm:
    return Norm("norm", "dense", np.array([gamma]), np.array([beta]), eps, statistics)


def dense(bias: float | None = None) -> Dense:
    return Dense("dense", "input", np.ones((1, 9), np.int8), None if bias is None else np.array([bias]))


def decides_plus(gamma: Fraction, z_minus_m: Fraction, beta: Fraction, v: Fraction) -> bool:
    """Whether gamma (z - m) / sqrt(v) + beta >= 0, as a chain of one norm decides it for z - m."""
    return signs([Affine(gamma * z_minus_m, d=v, c=beta)], Fraction(0))(1) >= 0


def fold(linear: Dense | Conv, norm: Norm | None, scale: float, low: int, high: int) -> Folded:
    """The rule of a layer with at most one norm."""
    stage = Stage(linear, () if norm is None else (norm,), Sign("sign", "norm"))
    return fold_stage(stage, scale, low, high, False)


def in_decimal(gamma: Fraction, z_minus_m: Fraction, beta: Fraction, v: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = 60

        def d(x: Fraction) -> Decimal:
            return Decimal(x.numerator) / Decimal(x.denominator)

        return d(gamma) * d(z_minus_m) / d(v).sqrt() + d(beta)


@given(FLOATS, st.integers(-500, 500), FLOATS, st.integers(1, 10**6), st.integers(1, 1000))
def test_decision_equals_sixty_digits(gamma: float, z: int, beta: float, numerator: int, denominator: int) -> None:
    arguments = Fraction(gamma), Fraction(z, 7), Fraction(beta), Fraction(numerator, denominator)
    value = in_decimal(*arguments)
    if abs(value) > Decimal("1e-40"):
        assert decides_plus(*arguments) == (value > 0)


@given(st.integers(1, 30), st.integers(-30, 30), st.sampled_from([1, -1]))
def test_exact_ties_are_plus(root: int, z: int, sign: int) -> None:
    # V = root^2, gamma z / root + beta with beta = -gamma z / root: exactly 0.
    gamma = Fraction(sign * 3, 8)
    assert decides_plus(gamma, Fraction(z), -gamma * z / root, Fraction(root * root))
    assert not decides_plus(gamma, Fraction(z), -gamma * z / root - Fraction(1, 10**30), Fraction(root * root))


@settings(max_examples=200)
@given(FLOATS, FLOATS, st.lists(st.integers(-40, 40), min_size=2, max_size=30), st.sampled_from([0.0, 1e-5, 0.1]))
def test_every_reachable_integer(gamma: float, beta: float, data: list[int], eps: float) -> None:
    sums = Sums(len(data), (sum(data),), (sum(z * z for z in data),))
    norm = one_channel(gamma, beta, sums, eps)
    if sums.variance(0) + Fraction(eps) == 0:
        with pytest.raises(BlrcError, match="divides by zero"):
            fold(dense(), norm, 1.0, -40, 40)
        return
    folded = fold(dense(), norm, 1.0, -40, 40)
    for z in range(-40, 41):
        exact = decides_plus(
            Fraction(gamma), Fraction(z) - sums.mean(0), Fraction(beta), sums.variance(0) + Fraction(eps)
        )
        assert ((-z if folded.flip[0] else z) >= folded.threshold[0]) == exact, (z, folded)
    assert -40 <= folded.threshold[0] <= 41


def test_sums_are_torchs_unbiased_statistics() -> None:
    data = [3, -1, 4, 1, -5, 9]
    sums = Sums(6, (sum(data),), (sum(z * z for z in data),))
    assert sums.mean(0) == Fraction(sum(data), 6)
    assert sums.variance(0) == sum((Fraction(z) - sums.mean(0)) ** 2 for z in data) / 5


@pytest.mark.parametrize(
    ("gamma", "beta", "threshold"), [(0.0, 0.0, -9), (0.0, 2.0, -9), (0.0, -1e-30, 10), (-0.0, 0.5, -9)]
)
def test_zero_gamma_is_a_constant(gamma: float, beta: float, threshold: int) -> None:
    folded = fold(dense(), one_channel(gamma, beta, Sums(4, (2,), (30,))), 1.0, -9, 9)
    assert (folded.flip[0], folded.threshold[0]) == (False, threshold)


def test_tiny_negative_gamma_flips() -> None:
    folded = fold(dense(), one_channel(-2.9e-7, 0.0, Sums(4, (2,), (30,))), 1.0, -9, 9)
    assert folded.flip[0]
    # -gamma (z - 1/2) >= 0  <=>  z <= 1/2  <=>  -z >= -1/2  <=>  -z >= 0
    assert folded.threshold[0] == 0


def test_running_moments_carry_scale_and_bias() -> None:
    scale, bias, mean, variance, gamma, beta, eps = 45.0, 0.25, 1.5, 2.25, -0.7, 0.3, 1e-3
    norm = one_channel(gamma, beta, Moments(np.array([mean]), np.array([variance])), eps)
    folded = fold(dense(bias), norm, scale, -400, 400)
    for z in range(-400, 401):
        real = z / scale + bias
        plus = gamma * (real - mean) / np.sqrt(variance + eps) + beta >= 0
        assert ((-z if folded.flip[0] else z) >= folded.threshold[0]) == plus


@given(st.floats(-20, 20, width=32), st.floats(0.5, 50, width=32))
def test_norm_less_layer_folds_its_bias(bias: float, scale: float) -> None:
    folded = fold(dense(bias), None, scale, -300, 300)
    for z in range(-300, 301):
        assert (z >= folded.threshold[0]) == (Fraction(z) + Fraction(bias) * Fraction(scale) >= 0)


def test_norm_less_layer_without_bias_is_plus_on_zero() -> None:
    assert fold(dense(), None, 1.0, -9, 9).threshold[0] == 0


@pytest.mark.parametrize("what", ["gamma", "beta"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_finite_names_layer_and_channel(what: str, value: float) -> None:
    gamma, beta = np.ones(3), np.zeros(3)
    (gamma if what == "gamma" else beta)[2] = value
    layer = Dense("fc", "input", np.ones((3, 9), np.int8), None)
    norm = Norm("bn7", "fc", gamma, beta, 1e-5, Sums(4, (2,) * 3, (30,) * 3))
    with pytest.raises(BlrcError, match=rf"'bn7': {what} of channel 2"):
        fold(layer, norm, 1.0, -9, 9)


@pytest.mark.parametrize("eps", [math.nan, math.inf, -math.inf, -1e-5])
def test_an_eps_that_is_not_finite_or_negative_is_named(eps: float) -> None:
    norm = one_channel(1.0, 0.0, Sums(2, (0,), (2,)), eps)
    with pytest.raises(BlrcError, match=rf"layer 'norm': eps {eps}: must be finite and not negative"):
        fold(dense(), norm, 1.0, -3, 3)


def test_missing_statistics_are_named() -> None:
    with pytest.raises(BlrcError, match=r"'norm'.*calibrate"):
        fold(dense(), one_channel(1.0, 0.0, None), 1.0, -9, 9)


def every_decision(net: Net) -> tuple[int, int]:
    """Check each channel of each layer on every reachable integer; returns how many decisions and ties there were."""
    checked = ties = 0
    scale, peak = net.encoding.scale, net.encoding.peak
    for stage in pieces(net):
        if not isinstance(stage, Stage):
            continue
        bound = fan_in(stage.linear) * peak
        if stage.norm is not None:
            folded = fold(stage.linear, stage.norm, scale, -bound, bound)
            z = np.arange(-bound, bound + 1)[:, None]
            ours = np.where(folded.flip, -z, z) >= folded.threshold
            theirs, tie = float64_decision(stage, scale, z)
            wrong = (ours != theirs) & ~tie
            if wrong.any():
                i, channel = np.argwhere(wrong)[0]
                pytest.fail(f"{stage.norm.name} channel {channel} z {z[i, 0]} threshold {folded.threshold[channel]}")
            # A tie goes to +1, exactly.
            for i, channel in np.argwhere(tie & (ours != theirs)):
                assert ours[i, channel], (stage.norm.name, channel, z[i, 0])
            checked, ties = checked + ours.size, ties + int(tie.sum())
        scale, peak = 1.0, 1
    return checked, ties


@pytest.mark.parametrize("seed", first(4, range(8)))
def test_random_networks_on_every_reachable_integer(seed: int) -> None:
    model, shape = deep_network(seed)
    checkpoint = checkpoint_of(model, ["uint8", "int8", "bits"][seed % 3], shape, seed)
    for member in (Member(), Member(seed, 1)):
        assert checkpoint.calibration is not None
        checked, _ = every_decision(calibrate(sample(checkpoint, member), checkpoint.calibration))
        assert checked > 1000
        every_decision(sample(checkpoint, member, running=True))

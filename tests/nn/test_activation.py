"""Binarisation: q, the concrete sample and its gradient, and the numerical pitfalls of logit(Phi(z))."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.nn import Gaussian, StochasticSign, probability_minus, reuse_noise
from blrc.nn.layers.activation import UNIFORM_MARGIN, VAR_FLOOR, logistic_, logit_phi, logit_phi_exact

DRAWS = 100_000


def phi(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def logit_of_phi(z: float) -> float:
    """log Phi(z) - log Phi(-z) in float64, finite to |z| = 37."""
    return math.log(phi(z)) - math.log(phi(-z))


def test_q_is_the_share_of_negative_gaussians() -> None:
    mean = torch.tensor([-1.0, 0.0, 0.3, 2.0])
    var = torch.tensor([0.5, 1.0, 4.0, 1.0])
    q = probability_minus(Gaussian(mean, var))
    share = ((mean + var.sqrt() * torch.randn(DRAWS, 4)) < 0).double().mean(0)
    assert ((share - q).abs() <= 4 * (q * (1 - q) / DRAWS).sqrt()).all()


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("tau", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("hard", [True, False])
def test_samples_are_minus_one_with_probability_q(hard: bool, tau: float, exact: bool, reuse: bool) -> None:
    x = Gaussian(torch.tensor([-1.5, -0.1, 0.0, 0.7, 2.2]).expand(DRAWS, 5), torch.tensor([[1.0, 0.2, 3.0, 1.0, 1.0]]))
    sign = StochasticSign(tau, hard, exact)
    reuse_noise(sign, reuse)
    y = sign(x)
    assert set(y.unique().tolist()) == {-1.0, 1.0} if hard else bool(((y > -1) & (y < 1)).any())
    q = probability_minus(Gaussian(x.mean[0], x.var[0])).double()
    share = (y < 0).double().mean(0)
    bound = 4 * (q * (1 - q) / DRAWS).sqrt() + (0 if exact else 1.4e-4)
    assert ((share - q).abs() <= bound).all()


def test_soft_samples_have_the_concrete_distribution() -> None:
    """p(y <= t) = sigmoid(2 tau atanh(t) - logit(1 - q)): the binary concrete on (-1, 1)."""
    tau, z = 0.7, 0.4
    y = StochasticSign(tau, hard=False, exact=True)(Gaussian(torch.full((DRAWS,), z), torch.ones(1))).double().numpy()
    for t in np.linspace(-0.95, 0.95, 9):
        p = 1 / (1 + math.exp(-(2 * tau * math.atanh(t) - logit_of_phi(z))))
        assert abs(float(np.mean(y <= t)) - p) <= 4 * math.sqrt(p * (1 - p) / DRAWS)


@given(st.floats(-30, 30))
def test_exact_logit_phi_and_its_slope(z: float) -> None:
    value, slope = logit_phi_exact(torch.tensor([z], dtype=torch.float64))
    assert value.item() == pytest.approx(logit_of_phi(z), rel=1e-10, abs=1e-12)
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    assert slope.item() == pytest.approx(density / (phi(z) * phi(-z)), rel=1e-9)


def test_the_cubic_is_within_its_stated_error() -> None:
    z = torch.linspace(-8, 8, 100_001, dtype=torch.float64)
    value, slope = logit_phi(z)
    assert (torch.sigmoid(value) - torch.special.ndtr(z)).abs().max() < 1.5e-4
    numeric = (logit_phi(z + 1e-6)[0] - logit_phi(z - 1e-6)[0]) / 2e-6
    assert torch.allclose(slope, numeric, rtol=1e-6)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("var_shape", [(6, 4), (1, 4)])
def test_gradcheck_of_soft_samples(exact: bool, tau: float, var_shape: tuple[int, int]) -> None:
    mean = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    var = (torch.rand(var_shape, dtype=torch.float64) + 0.2).requires_grad_()

    def sample(mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(7)  # the same noise in every evaluation
        return StochasticSign(tau, hard=False, exact=exact)(Gaussian(mean, var))

    assert torch.autograd.gradcheck(sample, (mean, var))


@pytest.mark.parametrize("exact", [False, True])
def test_hard_samples_have_the_gradient_of_the_soft_ones(exact: bool) -> None:
    results = []
    for hard in (True, False):
        torch.manual_seed(2)
        mean, var = torch.randn(50, requires_grad=True), torch.rand(50, requires_grad=True)
        torch.manual_seed(3)
        y = StochasticSign(0.8, hard, exact)(Gaussian(mean, var))
        (y * torch.linspace(-1, 1, 50)).sum().backward()
        results.append((y.detach(), mean.grad, var.grad))
    hard_result, soft_result = results
    assert torch.equal(hard_result[0], soft_result[0].sign())
    assert torch.equal(hard_result[1], soft_result[1]) and torch.equal(hard_result[2], soft_result[2])


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("z", [0.0, 5.5, 15.0, 1e3, 1e6, 1e15, 1e30, -5.5, -15.0, -1e3, -1e30])
def test_pitfall_logit_phi_is_finite_far_out(z: float, hard: bool, exact: bool) -> None:
    """Taken literally, logit(Phi(z)) is inf from z = 5.5 in float32 and its gradient NaN from 15."""
    mean, var = torch.tensor([z], requires_grad=True), torch.ones(1, requires_grad=True)
    y = StochasticSign(hard=hard, exact=exact)(Gaussian(mean, var))
    y.sum().backward()
    assert all(torch.isfinite(t).all() for t in (y, mean.grad, var.grad))
    if abs(z) > 5:
        assert y.item() == pytest.approx(math.copysign(1, z), abs=1e-2)


@pytest.mark.parametrize("exact", [False, True])
def test_pitfall_the_gradient_is_not_clamped_away(exact: bool) -> None:
    """At 6 standard deviations a clamped logit has gradient 0; the true one is small, not 0."""
    mean = torch.full((1000,), 6.0, requires_grad=True)
    StochasticSign(tau=2.0, exact=exact)(Gaussian(mean, torch.ones(1))).sum().backward()
    assert (mean.grad > 0).all()


@pytest.mark.parametrize("z", [1e3, 1e4, -1e3, -1e4])
def test_pitfall_the_exact_slope_is_right_far_out_in_float32(z: float) -> None:
    """exp(-z^2/2 - log_ndtr(-z)) cancels there; the slope tends to |z| (phi(z) / Phi(-z) ~ z + 1/z)."""
    assert logit_phi_exact(torch.tensor([z]))[1].item() == pytest.approx(abs(z) + 1 / abs(z), rel=1e-5)


@pytest.mark.parametrize("mean", [0.0, 1e-8, -1.0, 1.0])
def test_pitfall_zero_variance_is_finite(mean: float) -> None:
    """0 / 0 at mean = 0, and sqrt's infinite slope at 0."""
    leaf, var = torch.full((8,), mean, requires_grad=True), torch.zeros(8, requires_grad=True)
    y = StochasticSign()(Gaussian(leaf, var))
    y.sum().backward()
    assert torch.isfinite(leaf.grad).all() and torch.isfinite(var.grad).all()
    if abs(mean) == 1:  # 1,000 standard deviations of the floor
        assert (y == mean).all()


def test_pitfall_gamma_near_zero() -> None:
    """Behind a norm with gamma -> 0, mean / std depends on beta / |gamma| only; the floor bounds it."""
    mean, var = torch.full((4,), 0.3), torch.zeros(4)
    assert (probability_minus(Gaussian(mean, var)) == 0).all()
    assert (probability_minus(Gaussian(mean * 0, var)) == 0.5).all()
    assert VAR_FLOOR == 1e-6


def test_pitfall_uniform_noise_of_zero_and_one() -> None:
    """float32 uniform noise is exactly 0 once in 2^24 draws: its logit must be finite."""

    class Extremes(torch.Tensor):
        def uniform_(self) -> torch.Tensor:  # type: ignore[override]
            return torch.tensor([0.0, 1.0, 0.5])

    noise = logistic_(torch.zeros(3).as_subclass(Extremes))
    edge = math.log(UNIFORM_MARGIN / (1 - UNIFORM_MARGIN))
    assert noise[0].item() == pytest.approx(edge, rel=1e-5)
    assert noise[1].item() == pytest.approx(-edge, rel=1e-2)  # 1 - 1e-6 in float32
    assert noise[2].item() == 0


def test_pitfall_no_outputs_are_kept_alive() -> None:
    """A custom function that keeps its undetached output on ctx makes a cycle that is never freed in time."""
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        mean = torch.randn(8, requires_grad=True)
        y = StochasticSign()(Gaussian(mean, torch.ones(8)))
        alive = weakref.ref(y)
        y.sum().backward()
        del y
        assert alive() is None
    finally:
        gc.enable()


def test_evaluation_still_samples() -> None:
    sign = StochasticSign().eval()
    x = Gaussian(torch.zeros(1000), torch.ones(1))
    assert not torch.equal(sign(x), sign(x))


@pytest.mark.parametrize("tau", [0.0, -1.0, float("nan"), float("inf")])
def test_tau_must_be_positive(tau: float) -> None:
    with pytest.raises(BlrcError, match="tau"):
        StochasticSign(tau)

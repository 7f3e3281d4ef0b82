"""Activations of a few bits: what codes are, how they are sampled, and their gradients."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from blrc.errors import BlrcError
from blrc.nn import (
    BinaryLinear,
    Gaussian,
    GaussianSample,
    SoftmaxLinear,
    SteLevels,
    StochasticLevels,
    StochasticSign,
    deterministic,
    reuse_noise,
)
from blrc.nn.layers.activation import VAR_FLOOR, Z_MAX, Decided, logistic_, logit_phi, logit_phi_exact
from blrc.nn.noise import Noise

DRAWS = 100_000
DEVIATIONS = 4.5  # of a share or a mean of draws from its expectation; some hundred are looked at


def probability(z: float) -> float:
    """Phi(z)."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("step", [0.25, 3.0, 0.337890625])
def test_rounding_is_that_of_exact_rationals_and_ties_go_up(bits: int, step: float) -> None:
    """Every half step from below 0 to beyond the largest code, and the doubles next to each."""
    ends = [(n / 2) * step for n in range(-5, 2 * 2**bits + 6)]
    values = [x for end in ends for x in (end, math.nextafter(end, -math.inf), math.nextafter(end, math.inf))]
    values = [
        x for x in values if Fraction(x) / Fraction(step) % 1 == Fraction(1, 2) or abs(x / step % 1 - 0.5) > 1e-12
    ]
    assert len(values) > len(ends)
    expected = [
        float(Fraction(step) * min(max(math.floor(Fraction(x) / Fraction(step) + Fraction(1, 2)), 0), 2**bits - 1))
        for x in values
    ]
    assert SteLevels(bits, step)(torch.tensor(values, dtype=torch.float64)).tolist() == expected


def test_a_relu_before_it_changes_nothing_and_torchs_rounding_is_another() -> None:
    x = torch.randn(1000) * 3
    assert torch.equal(SteLevels(3, 0.5)(x), SteLevels(3, 0.5)(x.relu()))
    half = torch.tensor([0.5, 1.5, 2.5])
    assert SteLevels(2, 1.0)(half).tolist() == [1.0, 2.0, 3.0] != torch.round(half).tolist()


def test_the_gradient_passes_inside_of_the_range_alone() -> None:
    x = torch.tensor([-0.1, 0.0, 0.1, 0.74, 1.49, 1.5, 2.0], requires_grad=True)
    SteLevels(2, 0.5)(x).backward(torch.arange(1.0, 8.0))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 3.0, 4.0, 5.0, 0.0, 0.0]


@pytest.mark.parametrize("layer", [SteLevels, StochasticLevels])
@pytest.mark.parametrize(
    ("bits", "step", "word"),
    [(bits, 1.0, "bits") for bits in (0, 9, -1, True, 1.5, "2", None)]
    + [(2, step, "step") for step in (0.0, -1.0, math.nan, math.inf, 1e-30, 1e30, "1", None, True)],
)
def test_options_out_of_range_are_refused_by_name(layer: Any, bits: Any, step: Any, word: str) -> None:
    with pytest.raises(BlrcError, match=rf"^{layer.__name__}: {word} ") as error:
        layer(bits, step)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("layer", [StochasticLevels(2), GaussianSample()])
def test_layers_that_sample_want_a_gaussian_and_rounding_a_tensor(layer: nn.Module) -> None:
    with pytest.raises(BlrcError, match=f"{type(layer).__name__} takes a Gaussian"):
        layer(torch.zeros(2, 3))
    with pytest.raises(BlrcError, match="SteLevels takes a tensor, got a Gaussian"):
        SteLevels(2)(Gaussian(torch.zeros(2), torch.zeros(2)))


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize(("bits", "step"), [(1, 2.0), (2, 0.7), (4, 0.25)])
def test_a_code_reaches_each_threshold_with_its_probability(bits: int, step: float, reuse: bool) -> None:
    mean, var = torch.tensor([-0.8, 0.0, 0.4, 1.9]), torch.tensor([[0.5, 1.0, 0.04, 2.0]])
    layer = StochasticLevels(bits, step)
    reuse_noise(layer, reuse)
    codes = layer(Gaussian(mean.expand(DRAWS, 4), var)) / step
    assert torch.equal(codes, codes.round()) and codes.min() >= 0 and codes.max() < 2**bits
    for column in range(4):
        for t in range(1, 2**bits):
            z = (float(mean[column]) - step * (t - 0.5)) / math.sqrt(float(var[0, column]))
            p = probability(z)
            share = float((codes[:, column] >= t).double().mean())
            assert abs(share - p) <= DEVIATIONS * math.sqrt(p * (1 - p) / DRAWS) + 1e-5


def expectation(mean: Tensor, var: Tensor, bits: int, step: float) -> Tensor:
    """E[h] as torch's own normal distribution has it, in float64."""
    normal = torch.distributions.Normal(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64))
    std = (var + VAR_FLOOR).sqrt()
    total = torch.zeros_like(mean)
    for t in range(1, 2**bits):
        total = total + step * normal.cdf((mean - step * (t - 0.5)) / std)
    return total


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
@pytest.mark.parametrize("shared", [False, True])
def test_the_gradient_is_that_of_the_expectation(bits: int, shared: bool) -> None:
    """Whatever the noise: plain autograd in float64 through Phi is the oracle."""
    rng = torch.Generator().manual_seed(bits)
    mean = (torch.randn(6, 5, generator=rng, dtype=torch.float64) * 2 + 1).requires_grad_()
    var = (torch.rand(1 if shared else 6, 5, generator=rng, dtype=torch.float64) + 0.05).requires_grad_()
    grad = torch.randn(6, 5, generator=rng, dtype=torch.float64)
    layer = StochasticLevels(bits, 0.375)
    found = torch.autograd.grad(layer(Gaussian(mean, var)), (mean, var), grad)
    expected = torch.autograd.grad(expectation(mean, var, bits, 0.375), (mean, var), grad)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_gradients_are_finite_where_the_variance_is_0_or_the_mean_is_far_away() -> None:
    mean = torch.tensor([0.5, 1.5, 1e20, -1e20, 0.0], requires_grad=True)
    var = torch.tensor([0.0, 1e-12, 1.0, 1e30, 0.0], requires_grad=True)
    h = StochasticLevels(2, 1.0)(Gaussian(mean, var))
    grads = torch.autograd.grad(h.sum(), (mean, var))
    assert torch.isfinite(h).all() and all(torch.isfinite(g).all() for g in grads)


def formerly(mean: Tensor, var: Tensor, noise: Tensor, tau: float, hard: bool, exact: bool, grad: Tensor) -> Any:
    """The sign's sample and gradients in the operations with which recipes were measured, in their order."""
    rstd = (var + VAR_FLOOR).rsqrt()
    z = (mean * rstd).clamp_(-Z_MAX, Z_MAX)
    logit, slope = (logit_phi_exact if exact else logit_phi)(z)
    argument = logit.add_(noise)
    one = torch.ones(())
    s = torch.copysign(argument, -one).mul_(1.0 / tau).sigmoid_()
    dmean = torch.ops.aten.sigmoid_backward(slope, s).mul_(rstd * (2.0 / tau))
    y = torch.copysign(one if hard else s.mul_(-2.0).add_(1.0), argument)
    grad_mean = grad * dmean
    return y, grad_mean, (grad_mean * z).mul_(rstd).mul_(-0.5).sum_to_size(var.shape)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("tau", [0.7, 1.0, 2.0])
def test_the_sign_is_the_case_of_one_threshold_bit_for_bit(tau: float, hard: bool, exact: bool) -> None:
    torch.manual_seed(3)
    mean = (torch.randn(64, 50) * 3).requires_grad_()
    var = torch.rand(1, 50).requires_grad_()
    grad = torch.randn(64, 50)
    sign = StochasticSign(tau, hard, exact)
    noise = logistic_(torch.empty(64, 50))
    sign.noise = Noise(lambda flat: flat.copy_(noise.flatten()))
    y = sign(Gaussian(mean, var))
    found = (y.detach(), *torch.autograd.grad(y, (mean, var), grad))
    expected = formerly(mean.detach(), var.detach(), noise, tau, hard, exact, grad)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.view(torch.int32), other.view(torch.int32))


def test_one_threshold_of_levels_has_the_distribution_of_a_sign() -> None:
    """A sign of a - s/2 and a code of one bit of a are +1 and 1 with one probability, and E of both has one slope."""
    mean, var = torch.tensor([[0.1, 0.5, 1.4]]), torch.tensor([[0.3, 1.0, 2.0]])
    codes = StochasticLevels(1, 1.0)(Gaussian(mean.expand(DRAWS, 3), var))
    signs = StochasticSign(exact=True)(Gaussian((mean - 0.5).expand(DRAWS, 3), var))
    pair = codes.double().mean(0), (signs.double().mean(0) + 1) / 2
    assert ((pair[0] - pair[1]).abs() <= DEVIATIONS * math.sqrt(0.5 / DRAWS)).all()
    for tau in (None, 0.1):  # the concrete gradient's mean comes near that of the expectation for small tau
        x = mean.double().expand(DRAWS, 3).clone().requires_grad_()
        noise = logistic_(torch.empty_like(x))
        total = Decided.apply(x, var.double(), noise, (0.5,), tau, True, True)  # type: ignore[no-untyped-call]
        slope = torch.autograd.grad(total.sum(), x)[0].mean(0)
        exact = [2 * math.exp(-((m - 0.5) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v)
                 for m, v in zip(mean[0].tolist(), var[0].tolist(), strict=True)]  # fmt: skip
        assert slope.tolist() == pytest.approx(exact, rel=1e-5 if tau is None else 0.03)


def test_a_sample_has_the_mean_and_the_variance_of_its_gaussian() -> None:
    mean, var = torch.tensor([-1.0, 0.0, 30.0]), torch.tensor([[0.25, 4.0, 9.0]])
    a = GaussianSample()(Gaussian(mean.expand(DRAWS, 3), var)).double()
    assert ((a.mean(0) - mean).abs() <= DEVIATIONS * (var[0] / DRAWS).sqrt()).all()
    assert ((a.var(0) / var[0] - 1).abs() <= DEVIATIONS * math.sqrt(2 / DRAWS)).all()
    kurtosis = ((a - a.mean(0)) ** 4).mean(0) / a.var(0) ** 2
    assert ((kurtosis - 3).abs() <= DEVIATIONS * math.sqrt(24 / DRAWS)).all()
    assert torch.equal(GaussianSample()(Gaussian(mean, torch.zeros(3))), mean)


@pytest.mark.parametrize("shared", [False, True])
def test_the_gradient_of_a_sample_is_autograds(shared: bool) -> None:
    mean = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    var = (torch.rand(1 if shared else 7, 4, dtype=torch.float64) + 0.01).requires_grad_()
    grad = torch.randn(7, 4, dtype=torch.float64)
    layer = GaussianSample()
    torch.manual_seed(0)
    found = torch.autograd.grad(layer(Gaussian(mean, var)), (mean, var), grad)
    torch.manual_seed(0)
    noise = layer.noise.like(mean.detach())
    expected = torch.autograd.grad(mean + var.sqrt() * noise, (mean, var), grad)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_a_sample_is_finite_where_the_variance_is_0() -> None:
    var = torch.zeros(5, requires_grad=True)
    GaussianSample()(Gaussian(torch.zeros(5), var)).sum().backward()
    assert var.grad is not None and torch.isfinite(var.grad).all()


def test_the_layers_sample_in_evaluation_too_and_a_state_dict_has_the_step() -> None:
    torch.manual_seed(0)
    x = Gaussian(torch.full((1, 1000), 0.5), torch.ones(1, 1000))
    for layer in (StochasticLevels(2, 0.5).eval(), GaussianSample().eval()):
        assert len(layer(x).unique()) > 1 and not torch.equal(layer(x), layer(x))
    for cls in (SteLevels, StochasticLevels):
        other = cls(2)
        other.load_state_dict(cls(2, 0.375).state_dict())
        assert float(other.step) == 0.375 and not list(other.parameters())


def test_a_deterministic_copy_rounds_and_passes_samples_by() -> None:
    net = nn.Sequential(
        BinaryLinear(4, 6), GaussianSample(), nn.BatchNorm1d(6), SteLevels(2, 0.5), BinaryLinear(6, 3),
        StochasticLevels(3, 0.25), SoftmaxLinear(3, 2),
    )  # fmt: skip
    fixed = deterministic(net).eval()
    x = torch.randn(9, 4)
    signs = [torch.where(net[i].weight.logits <= 0, 1.0, -1.0) for i in (0, 4)]  # type: ignore[union-attr]
    h = 0.5 * ((x @ signs[0].T) / math.sqrt(1 + 1e-5) / 0.5 + 0.5).floor().clamp(0, 3)
    h = 0.25 * ((h @ signs[1].T) / 0.25 + 0.5).floor().clamp(0, 7)
    torch.testing.assert_close(fixed(x), net[6](h))
    assert torch.equal(fixed(x), fixed(x))

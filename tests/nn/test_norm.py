"""Batch norm over random variables against plain formulas, torch's own norm and draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import Gaussian, StochasticBatchNorm1d, StochasticBatchNorm2d

SHAPES = [((5, 3), (5, 3)), ((5, 3), (1, 3)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (1, 3, 4, 5)),
          ((2, 3, 4, 5), (1, 3, 1, 1)), ((2, 3, 4, 5), (2, 1, 4, 5))]  # fmt: skip


def norm_for(shape: tuple[int, ...], **options: Any) -> StochasticBatchNorm1d | StochasticBatchNorm2d:
    kind = StochasticBatchNorm1d if len(shape) == 2 else StochasticBatchNorm2d
    norm = kind(shape[1], dtype=torch.float64, **options)
    if norm.affine:
        norm.weight.data = torch.tensor([0.7, -1.3, 0.02], dtype=torch.float64)
        norm.bias.data.normal_()
    return norm


def plain(mean: torch.Tensor, var: torch.Tensor, gamma: Any, beta: Any, eps: float) -> tuple[torch.Tensor, ...]:
    """The paper's formulas, channel by channel, by autograd."""
    var = var.expand_as(mean)
    out_mean, out_var = [], []
    for c in range(mean.shape[1]):
        m = mean[:, c].sum() / mean[:, c].numel()
        v = (var[:, c].sum() + ((mean[:, c] - m) ** 2).sum()) / (mean[:, c].numel() - 1)
        out_mean.append(gamma[c] * (mean[:, c] - m) / (v + eps).sqrt() + beta[c])
        out_var.append(gamma[c] ** 2 * var[:, c] / (v + eps))
    return torch.stack(out_mean, 1), torch.stack(out_var, 1)


@pytest.mark.parametrize(("shape", "var_shape"), SHAPES)
@pytest.mark.parametrize("channels_last", [False, True])
def test_values_and_gradients_are_the_formulas(shape: Any, var_shape: Any, channels_last: bool) -> None:
    norm = norm_for(shape, eps=1e-3)
    mean = torch.randn(shape, dtype=torch.float64)
    if channels_last and len(shape) == 4:
        mean = mean.to(memory_format=torch.channels_last)
    var = torch.rand(var_shape, dtype=torch.float64)
    weights = torch.randn(2, *shape, dtype=torch.float64)
    leaves = [t.detach().clone().requires_grad_() for t in (mean, var)]
    out = norm(Gaussian(*leaves))
    (weights[0] * out.mean + weights[1] * out.var).sum().backward()

    parts = [t.detach().clone().requires_grad_() for t in (mean, var, norm.weight, norm.bias)]
    expected = plain(*parts, 1e-3)
    (weights[0] * expected[0] + weights[1] * expected[1]).sum().backward()
    assert torch.allclose(out.mean, expected[0]) and torch.allclose(out.var.expand(shape), expected[1])
    for got, want in zip((*leaves, norm.weight, norm.bias), parts, strict=True):
        assert torch.allclose(got.grad, want.grad), got.shape


@pytest.mark.parametrize(("shape", "var_shape"), SHAPES)
def test_gradcheck(shape: Any, var_shape: Any) -> None:
    norm = norm_for(shape)
    mean = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    var = (torch.rand(var_shape, dtype=torch.float64) + 0.1).requires_grad_()

    def outputs(mean: torch.Tensor, var: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> Any:
        return tuple(torch.func.functional_call(norm, {"weight": gamma, "bias": beta}, (Gaussian(mean, var),)))

    leaves = [p.detach().clone().requires_grad_() for p in (norm.weight, norm.bias)]
    assert torch.autograd.gradcheck(outputs, (mean, var, *leaves))


def test_statistics_are_expected_ones_of_samples() -> None:
    """m and v are what the mean and variance of a batch of samples are on average."""
    mean, var = torch.randn(6, 2, 3, 3, dtype=torch.float64), torch.rand(6, 2, 3, 3, dtype=torch.float64) * 2
    norm = StochasticBatchNorm2d(2, momentum=1.0, dtype=torch.float64)
    norm(Gaussian(mean, var))
    draws = 20_000
    samples = mean + var.sqrt() * torch.randn(draws, *mean.shape, dtype=torch.float64)
    v, m = torch.var_mean(samples, dim=(1, 3, 4))  # each draw's batch statistics
    count = mean.numel() / 2
    assert ((m.mean(0) - norm.running_mean).abs() <= 5 * (m.var(0) / draws).sqrt()).all()
    # With fixed means the expected sample variance is sum var / M + sum (mean - m)^2 / (M - 1): the paper's v has
    # M - 1 under both, a known factor on its first term.
    correction = var.sum((0, 2, 3)) * (1 / (count - 1) - 1 / count)
    assert ((v.mean(0) + correction - norm.running_var).abs() <= 5 * (v.var(0) / draws).sqrt()).all()


@pytest.mark.parametrize("momentum", [0.1, 1.0, None])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 4, 5)])
def test_without_variance_it_is_torchs_norm(shape: Any, affine: bool, momentum: float | None) -> None:
    norm = norm_for(shape, affine=affine, momentum=momentum)
    kind = nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d
    twin = kind(3, affine=affine, momentum=momentum, dtype=torch.float64)
    twin.load_state_dict(norm.state_dict())  # the same keys
    count = 2 * 4 * 5 if len(shape) == 4 else 5
    for step in range(3):
        x = torch.randn(shape, dtype=torch.float64) * (step + 1)
        got = norm(Gaussian(x, torch.zeros(1, 3, *(1,) * (len(shape) - 2), dtype=torch.float64)))
        want = twin(x)
        # torch divides by M where it normalises, and by M - 1 in the running estimate
        if not affine:
            scale = ((x.transpose(0, 1).flatten(1).var(1) + norm.eps)
                     / (x.transpose(0, 1).flatten(1).var(1) * (count - 1) / count + norm.eps)).sqrt()  # fmt: skip
            want = want / scale.view(1, 3, *(1,) * (len(shape) - 2))
            assert torch.allclose(got.mean, want)
        assert not got.var.any()
    for key, value in twin.state_dict().items():
        assert torch.allclose(norm.state_dict()[key], value), key
    norm.eval(), twin.eval()
    x = torch.randn(shape, dtype=torch.float64)
    assert torch.allclose(norm(Gaussian(x, torch.zeros_like(x))).mean, twin(x))


@given(st.floats(-3, 3), st.floats(0.01, 5))
def test_evaluation_uses_the_running_estimates(m: float, v: float) -> None:
    norm = StochasticBatchNorm1d(1, eps=0.5).double().eval()
    norm.running_mean.fill_(m), norm.running_var.fill_(v), norm.weight.data.fill_(-2.0), norm.bias.data.fill_(0.25)
    mean, var = norm(Gaussian(torch.tensor([[1.5]]).double(), torch.tensor([[3.0]]).double()))
    assert mean.item() == pytest.approx(-2 * (1.5 - m) / (v + 0.5) ** 0.5 + 0.25)
    assert var.item() == pytest.approx(4 * 3 / (v + 0.5))
    assert norm.num_batches_tracked.item() == 0


def test_reset_running_stats() -> None:
    norm = StochasticBatchNorm1d(2)
    norm(Gaussian(torch.randn(4, 2), torch.ones(4, 2)))
    norm.reset_running_stats()
    fresh = StochasticBatchNorm1d(2)
    assert all(torch.equal(norm.state_dict()[key], value) for key, value in fresh.state_dict().items())


@pytest.mark.parametrize("gamma", [0.0, 1e-30, -1e-30])
def test_pitfall_tiny_gamma_is_finite(gamma: float) -> None:
    norm = StochasticBatchNorm1d(2)
    norm.weight.data.fill_(gamma)
    mean = torch.randn(4, 2, requires_grad=True)
    out = norm(Gaussian(mean, torch.zeros(1, 2)))
    (out.mean.sum() + out.var.sum()).backward()
    assert torch.isfinite(mean.grad).all() and torch.isfinite(norm.weight.grad).all()


def test_pitfall_constant_map_without_variance_is_finite() -> None:
    """v = 0: only eps keeps this from 0 / 0."""
    mean = torch.full((4, 2), 7.0, requires_grad=True)
    var = torch.zeros(1, 2, requires_grad=True)
    out = StochasticBatchNorm1d(2)(Gaussian(mean, var))
    (out.mean.sum() + out.var.sum()).backward()
    assert not out.mean.any() and torch.isfinite(mean.grad).all() and torch.isfinite(var.grad).all()


@pytest.mark.parametrize(
    ("norm", "x", "message"),
    [
        (
            StochasticBatchNorm1d(3),
            torch.ones(2, 3, 4, 4),
            r"of \(N, 3\) or \(N, 3, L\), got \(2, 3, 4, 4\)",
        ),
        (StochasticBatchNorm2d(3), torch.ones(2, 4, 4, 4), r"\(N, 3, H, W\), got \(2, 4, 4, 4\)"),
        (StochasticBatchNorm1d(3), torch.ones(1, 3), "more than one value per channel"),
    ],
)
def test_refusals(norm: nn.Module, x: torch.Tensor, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        norm(Gaussian(x, x))


@pytest.mark.parametrize("eps", [float("nan"), float("inf"), -1e-5, "1e-5", None])
@pytest.mark.parametrize("norm", [StochasticBatchNorm1d, StochasticBatchNorm2d])
def test_an_eps_that_is_no_small_number_is_refused(norm: Any, eps: Any) -> None:
    with pytest.raises(BlrcError, match=rf"^{norm.__name__}: eps {eps!r}: give a small positive number"):
        norm(3, eps=eps)


def test_a_number_of_features_must_be_whole() -> None:
    with pytest.raises(BlrcError, match=r"^StochasticBatchNorm1d: num_features 0: give"):
        StochasticBatchNorm1d(0)

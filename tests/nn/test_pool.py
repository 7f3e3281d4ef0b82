"""Stochastic max pooling: who is chosen, and how often."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from blrc.errors import BlrcError
from blrc.nn import (
    Gaussian,
    MaxPool1d,
    MaxPool2d,
    StochasticMaxPool1d,
    StochasticMaxPool2d,
    deterministic,
    reuse_noise,
)

CONFIGURATIONS = [(2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (1, 0)), (3, 1, 0)]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_without_variance_it_is_max_pooling(configuration: tuple[int, int, int], channels_last: bool) -> None:
    mean = torch.randn(2, 3, 7, 9)
    if channels_last:
        mean = mean.to(memory_format=torch.channels_last)
    pooled = StochasticMaxPool2d(*configuration)(Gaussian(mean, torch.zeros(1, 3, 1, 1)))
    assert torch.equal(pooled.mean, F.max_pool2d(mean, *configuration))
    assert not pooled.var.any()


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shared_var", [False, True])
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_mean_and_variance_are_of_one_position_in_the_window(
    configuration: tuple[int, int, int], channels_last: bool, shared_var: bool
) -> None:
    mean = torch.randn(2, 3, 7, 9, dtype=torch.float64)
    var = torch.rand(1 if shared_var else 2, 3, 7, 9, dtype=torch.float64)
    if channels_last:
        mean, var = (t.to(memory_format=torch.channels_last) for t in (mean, var))
    pool = StochasticMaxPool2d(*configuration)
    pooled = pool(Gaussian(mean, var))
    assert pooled.mean.shape == pooled.var.shape == F.max_pool2d(mean, *configuration).shape
    origin = {value.item(): index for index, value in enumerate(mean.flatten())}  # where each mean came from
    ranks = torch.arange(7 * 9.0, dtype=torch.float64).reshape(1, 1, 7, 9)
    (ph, pw), taps = pool.padding, pool.kernel_size
    framed = F.pad(ranks, (pw, pw, ph, ph), value=-1.0)
    padded = F.unfold(framed, taps, stride=pool.stride)[0]  # positions (taps, windows); -1 is padding
    windows = padded.shape[1]
    for at, (value, variance) in enumerate(zip(pooled.mean.flatten(), pooled.var.flatten(), strict=True)):
        position = origin[value.item()]
        assert position % 63 in padded[:, at % windows]
        assert position // 63 == at // windows  # the same sample and channel
        assert variance == var.expand_as(mean).flatten()[position]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("sides", [(0, 0, 1, 1), (2, 0, 0, 1), (0, 1, 2, 0)], ids=str)
def test_sides_of_their_own(sides: tuple[int, int, int, int], channels_last: bool) -> None:
    """Against torch's pooling of a map with -inf around it; the variance is that of the position that was chosen."""
    mean = torch.randn(2, 3, 7, 9)
    if channels_last:
        mean = mean.to(memory_format=torch.channels_last)
    top, left, bottom, right = sides
    framed = F.pad(mean, (left, right, top, bottom), value=-math.inf)
    expected = F.max_pool2d(framed, 3, 2)
    pool = StochasticMaxPool2d(3, 2, sides)
    pooled = pool(Gaussian(mean, torch.zeros(2, 3, 7, 9)))
    assert torch.equal(pooled.mean, expected) and pool.padding == sides
    squares = pool(Gaussian(mean, 1e-12 * mean.square()))  # so little that it decides nothing
    assert torch.allclose(squares.var, 1e-12 * expected.square(), rtol=1e-4, atol=0)
    assert torch.equal(MaxPool2d(3, 2, sides)(mean), expected)
    fixed = deterministic(pool)
    assert type(fixed) is MaxPool2d and torch.equal(fixed(mean), expected)
    line = F.max_pool1d(F.pad(mean[:, :, 0], (left, right), value=-math.inf), 3, 2)
    assert torch.equal(MaxPool1d(3, 2, (left, right))(mean[:, :, 0]), line)
    one = StochasticMaxPool1d(3, 2, (left, right))(Gaussian(mean[:, :, 0], torch.zeros(1, 3, 1)))
    assert torch.equal(one.mean, line)


def test_choice_probability_of_two() -> None:
    """p(first is larger) = Phi((m1 - m2) / sqrt(v1 + v2))."""
    draws = 40_000
    m, v = (0.3, -0.4), (0.5, 2.0)
    x = Gaussian(torch.tensor(m).view(1, 1, 1, 2).expand(draws, 1, 1, 2), torch.tensor(v).view(1, 1, 1, 2))
    share = (StochasticMaxPool2d((1, 2))(x).mean == m[0]).double().mean().item()
    p = 0.5 * (1 + math.erf((m[0] - m[1]) / math.sqrt(v[0] + v[1]) / math.sqrt(2)))
    assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / draws)


@pytest.mark.parametrize("reuse", [False, True])
def test_choice_probabilities_of_four_by_quadrature(reuse: bool) -> None:
    """p(i) = integral of the density of i times the distribution functions of the others, on a grid."""
    draws = 40_000
    m = torch.tensor([0.2, -0.5, 1.0, 0.0], dtype=torch.float64)
    s = torch.tensor([1.0, 2.0, 0.3, 0.01], dtype=torch.float64)
    grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)[:, None]
    z = (grid - m) / s
    density, below = torch.exp(-0.5 * z * z) / (s * math.sqrt(2 * math.pi)), torch.special.ndtr(z)
    others = torch.stack([below[:, [j for j in range(4) if j != i]].prod(1) for i in range(4)], 1)
    p = torch.trapezoid(density * others, grid, dim=0)
    assert p.sum().item() == pytest.approx(1, abs=1e-6)

    pool = StochasticMaxPool2d(2)
    reuse_noise(pool, reuse)
    x = Gaussian(m.view(1, 1, 2, 2).expand(draws, 1, 2, 2), (s * s).view(1, 1, 2, 2))
    chosen = pool(x).mean.flatten()
    share = torch.stack([(chosen == value).double().mean() for value in m])
    assert ((share - p).abs() <= 4 * (p * (1 - p) / draws).sqrt()).all()


@pytest.mark.parametrize("channels_last", [False, True])
def test_the_gradient_goes_to_the_chosen(channels_last: bool) -> None:
    mean = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    if channels_last:
        mean = mean.to(memory_format=torch.channels_last)
    mean.requires_grad_()
    var = torch.rand(1, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    pooled = StochasticMaxPool2d(3, 1)(Gaussian(mean, var))
    weights = torch.randn(2, *pooled.mean.shape, dtype=torch.float64)
    (weights[0] * pooled.mean + weights[1] * pooled.var).sum().backward()
    expected_mean, expected_var = torch.zeros_like(mean), torch.zeros_like(var)
    for n, c, i, j in torch.cartesian_prod(*map(torch.arange, pooled.mean.shape)).tolist():
        at = (mean[n, c] == pooled.mean[n, c, i, j]).nonzero()[0].tolist()  # overlapping windows add up
        expected_mean[n, c, at[0], at[1]] += weights[0][n, c, i, j]
        expected_var[0, c, at[0], at[1]] += weights[1][n, c, i, j]
    assert torch.allclose(mean.grad, expected_mean) and torch.allclose(var.grad, expected_var)


def test_pitfall_zero_variance_has_a_finite_gradient() -> None:
    """sqrt has an infinite slope at 0: the choice must stay out of the graph."""
    var = torch.zeros(1, 1, 4, 4, requires_grad=True)
    StochasticMaxPool2d(2)(Gaussian(torch.randn(2, 1, 4, 4), var)).var.sum().backward()
    assert var.grad.sum().item() == 8


def test_evaluation_still_samples() -> None:
    pool = StochasticMaxPool2d(2).eval()
    x = Gaussian(torch.randn(1, 8, 16, 16), torch.ones(1, 8, 1, 1))
    assert not torch.equal(pool(x).mean, pool(x).mean)


def test_refusals() -> None:
    with pytest.raises(BlrcError, match=r"takes maps \(N, C, H, W\), got \(2, 3\)"):
        StochasticMaxPool2d(2)(Gaussian(torch.ones(2, 3), torch.ones(2, 3)))
    with pytest.raises(BlrcError, match="StochasticMaxPool2d takes a Gaussian"):
        StochasticMaxPool2d(2)(torch.ones(1, 1, 4, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 0}, "kernel_size 0: give"),
        ({"kernel_size": 2.5}, "kernel_size 2.5: give"),
        ({"kernel_size": 2, "stride": 0}, "stride 0: give"),
        ({"kernel_size": 2, "stride": 1.5}, "stride 1.5: give"),
        ({"kernel_size": 2, "padding": -1}, "padding -1: give"),
        ({"kernel_size": 2, "padding": 2}, r"padding \(2, 2\) is more than half of the kernel \(2, 2\): .* \(1, 1\)"),
    ],
)
def test_options_that_make_no_window_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BlrcError, match=f"^StochasticMaxPool2d: {message}"):
        StochasticMaxPool2d(**options)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_variance_shared_by_all_samples_is_pooled_like_one_for_each(layout: torch.memory_format) -> None:
    mean = torch.randn(5, 3, 6, 8).to(memory_format=layout)
    shared = torch.rand(1, 3, 6, 8).to(memory_format=layout).requires_grad_()
    each = shared.detach().expand(5, -1, -1, -1).clone(memory_format=layout).requires_grad_()
    pool, outs = StochasticMaxPool2d(2), []
    for var in (shared, each):
        torch.manual_seed(7)
        outs.append(pool(Gaussian(mean, var)))
    for one, other in zip(*outs, strict=True):
        assert torch.equal(one, other) and one.shape == (5, 3, 3, 4)
    grad = torch.randint(-9, 9, (5, 3, 3, 4)).float()  # sums of whole numbers are exact in any order
    for out in outs:
        out.var.backward(grad)
    assert torch.equal(shared.grad, each.grad.sum(0, keepdim=True))

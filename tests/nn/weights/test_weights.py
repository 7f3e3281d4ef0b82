"""Bernoulli weights against exact values and draws."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import (
    Bernoulli,
    BinaryConv2d,
    BinaryLinear,
    distributions,
    entropy,
    shared_moments,
    variance_regulariser,
)
from blrc.nn.weights import bernoulli as of_bernoulli
from blrc.nn.weights.distribution import CHUNK


def bernoulli(logits: object, dtype: torch.dtype = torch.float32) -> Bernoulli:
    values = torch.as_tensor(logits, dtype=dtype)
    weight = Bernoulli(values.shape, dtype=dtype)
    with torch.no_grad():
        weight.logits.copy_(values)
    return weight


@given(st.floats(-80, 80))
def test_moments_are_those_of_the_two_values(logit: float) -> None:
    weight = bernoulli([logit], torch.float64)
    minus = 1.0 / (1.0 + math.exp(-logit))
    plus = 1.0 / (1.0 + math.exp(logit))
    assert weight.mean().item() == pytest.approx(plus - minus, rel=1e-12, abs=1e-15)
    # p (1 - p) (1 - -1)^2, where 1 - p is written so that it does not cancel
    assert weight.variance().item() == pytest.approx(4 * plus * minus, rel=1e-12)
    surprises = plus * math.log1p(math.exp(logit)) + minus * math.log1p(math.exp(-logit))
    assert weight.entropy().item() == pytest.approx(surprises, rel=1e-9)


def test_joint_moments_equal_the_separate_ones() -> None:
    weight = bernoulli(torch.linspace(-30, 30, 101))
    mean, variance = weight.moments()
    assert torch.allclose(mean, weight.mean(), rtol=0, atol=1e-7)
    assert torch.allclose(variance, weight.variance(), rtol=1e-6, atol=0)
    assert torch.allclose(weight.total_variance(), weight.variance().sum())


def test_moments_of_a_layer_larger_than_a_chunk() -> None:
    values = torch.randn(7, CHUNK // 3, dtype=torch.float64) * 3
    fast, plain = bernoulli(values, torch.float64), bernoulli(values, torch.float64)
    weights = torch.randn(2, *values.shape, dtype=torch.float64)
    mean, variance = fast.moments()
    (weights[0] * mean + weights[1] * variance).sum().backward()
    (weights[0] * plain.mean() + weights[1] * plain.variance()).sum().backward()
    assert torch.allclose(mean, plain.mean(), rtol=0, atol=1e-14)
    assert torch.allclose(fast.logits.grad, plain.logits.grad, rtol=1e-10, atol=1e-14)
    fast.logits.grad = plain.logits.grad = None
    fast.total_variance().backward()
    plain.variance().sum().backward()
    assert torch.allclose(fast.logits.grad, plain.logits.grad, rtol=1e-10, atol=1e-14)


def test_gradients() -> None:
    weight = bernoulli(torch.linspace(-4, 4, 12).reshape(3, 4), torch.float64)

    def outputs(logits: torch.Tensor) -> tuple[torch.Tensor, ...]:
        held = weight.logits
        del weight.logits
        weight.logits = logits  # a plain tensor, so that gradcheck sees the dependence
        result = (*weight.moments(), weight.mean(), weight.variance(), weight.total_variance(), weight.entropy())
        del weight.logits
        weight.logits = held
        return result

    assert torch.autograd.gradcheck(outputs, weight.logits.detach().clone().requires_grad_())


@pytest.mark.parametrize("logit", [20.0, 30.0, -20.0, -30.0])
def test_pitfall_variance_of_a_certain_weight_is_not_zero(logit: float) -> None:
    """1 - E^2 is 0 in float32 from |W| = 20."""
    weight = bernoulli([logit])
    exact = 4 * math.exp(-abs(logit)) / (1 + math.exp(-abs(logit))) ** 2
    assert 1 - weight.mean().item() ** 2 == 0
    for variance in (weight.variance(), weight.moments()[1]):
        assert variance.item() == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("logit", [0.0, 5.5, 100.0, 1e4, -1e4, 3e38])
def test_everything_is_finite_at_extreme_logits(logit: float) -> None:
    weight = bernoulli([logit])
    total = sum(x.sum() for x in (*weight.moments(), weight.entropy(), weight.total_variance()))
    total.backward()
    assert torch.isfinite(total) and torch.isfinite(weight.logits.grad).all()


def test_map_is_plus_one_on_a_tie() -> None:
    assert bernoulli([-1.0, -0.0, 0.0, 1e-45, 2.0]).map().tolist() == [1, 1, 1, -1, -1]


def test_samples_follow_the_probabilities() -> None:
    p = torch.tensor([0.0, 0.01, 0.3, 0.5, 0.95, 1.0])
    weight = bernoulli(torch.logit(p).expand(40_000, 6))
    draws = weight.sample(torch.Generator().manual_seed(1))
    assert set(draws.unique().tolist()) == {-1.0, 1.0}
    share = (draws < 0).double().mean(0)
    sigma = (p * (1 - p) / 40_000).sqrt()
    assert ((share - p).abs() <= 4 * sigma).all()  # exactly at p = 0 and 1


def test_the_generator_decides_the_sample() -> None:
    weight = bernoulli(torch.zeros(1000))
    one, same, other = (weight.sample(torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_transfer_gives_w_over_std_clipped() -> None:
    w = torch.randn(50, 20) * 0.03 + 0.01
    weight = Bernoulli((50, 20))
    scale = weight.transfer_(w)
    expected = np.clip(w.numpy() / w.numpy().std(ddof=1), -0.9, 0.9)  # p in [0.05, 0.95] is E in [-0.9, 0.9]
    assert scale == pytest.approx(1 / w.std().item(), rel=1e-5)
    assert np.abs(weight.mean().detach().numpy() - expected).max() < 1e-5
    assert (np.abs(expected) == 0.9).any() and (np.abs(expected) < 0.9).any()


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (torch.ones(2, 3), "standard deviation"),
        (torch.tensor([[1.0, float("nan"), 0.0]] * 2), "standard deviation"),
        (torch.tensor([[1.0, float("inf"), 0.0]] * 2), "standard deviation"),
        (torch.randn(3, 2), r"shape \(3, 2\) to shape \(2, 3\)"),
    ],
)
def test_transfer_refuses(w: torch.Tensor, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        Bernoulli((2, 3)).transfer_(w)


def test_regulariser_and_entropy_sum_over_the_network() -> None:
    model = nn.Sequential(BinaryConv2d(1, 2, 3), nn.Sequential(BinaryLinear(3, 4)))
    logits = np.concatenate([d.logits.detach().double().numpy().ravel() for d in distributions(model)])
    p = 1 / (1 + np.exp(-logits))
    assert len(p) == 18 + 12
    assert variance_regulariser(model).item() == pytest.approx((p * (1 - p)).sum(), rel=1e-5)
    assert entropy(model).item() == pytest.approx(-(p * np.log(p) + (1 - p) * np.log(1 - p)).sum(), rel=1e-5)


def test_a_network_without_distributions_is_refused() -> None:
    with pytest.raises(BlrcError, match="no weight distribution"):
        entropy(nn.Linear(2, 2))


def step(weight: Bernoulli) -> tuple[torch.Tensor, torch.Tensor]:
    """The regulariser and its gradient."""
    weight.logits.grad = None
    value = variance_regulariser(weight)
    value.backward()
    assert weight.logits.grad is not None
    return value.detach(), weight.logits.grad.clone()


@pytest.mark.parametrize("shared", [False, True])
def test_the_regulariser_of_a_step_is_that_of_its_weights(shared: bool) -> None:
    """It may take what `moments` has computed, but nothing of before the weights changed. A fused optimiser does not
    raise a tensor's version."""
    weight = Bernoulli((40, 30))
    adam = torch.optim.Adam([weight.logits], lr=0.5, fused=True)
    for _ in range(3):
        for _ in range(2):
            weight.moments()  # a forward pass without a regulariser after it
        with shared_moments(weight) if shared else nullcontext():
            mean, variance = weight.moments()
            (mean.sum() + variance.sum()).backward()
            mine = step(weight)
        fresh = Bernoulli((40, 30))
        fresh.load_state_dict(weight.state_dict())
        theirs = step(fresh)
        assert torch.equal(mine[0], theirs[0]) and torch.equal(mine[1], theirs[1])
        adam.step()
        fresh.load_state_dict(weight.state_dict())
        assert torch.equal(step(weight)[0], step(fresh)[0])
        weight.moments(), adam.step()  # and once more without
        fresh.load_state_dict(weight.state_dict())
        assert torch.equal(step(weight)[0], step(fresh)[0])


def test_moments_are_shared_within_the_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed twice inside; nothing stays in memory afterwards, an error or not."""
    model = nn.Sequential(BinaryLinear(3, 4), BinaryLinear(4, 5))
    calls, real = [], of_bernoulli._moments_into
    monkeypatch.setattr(of_bernoulli, "_moments_into", lambda *args: (calls.append(1), real(*args)))

    def held() -> list[bool]:
        return [any(isinstance(value, tuple) for value in vars(weight).values()) for weight in distributions(model)]

    def forward() -> None:
        for weight in distributions(model):
            weight.moments()

    forward()
    assert len(calls) == 2 and held() == [False, False]
    with pytest.raises(KeyError), shared_moments(model):
        forward()
        variance_regulariser(model)
        assert len(calls) == 4 and held() == [True, True]
        raise KeyError
    assert held() == [False, False]
    variance_regulariser(model)
    assert len(calls) == 6

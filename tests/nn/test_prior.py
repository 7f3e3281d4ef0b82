"""The divergence from a prior against both outcomes in exact arithmetic, draws, and numerical gradients."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.weights.binary import BINARY
from blrc.frontend.weights.ternary import TERNARY
from blrc.inspection.divergence import divergence as in_numpy
from blrc.nn import Bernoulli, BinaryConv2d, BinaryLinear, WeightDistribution, divergence, entropy


def layer(logits: object, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    values = torch.as_tensor(logits, dtype=dtype).reshape(1, -1)
    model = nn.Sequential(BinaryLinear(values.shape[1], 1, bias=False, dtype=dtype))
    model[0].weight.logits.data = values
    return model


def by_both_outcomes(logit: float, plus: float) -> float:
    """Sum q ln(q / prior) over -1 and +1 with 60 digits, and all digits that a logit beyond 700 needs."""
    with localcontext() as context:
        context.prec = 800
        minus = 1 / (1 + (-Decimal(logit)).exp())
        prior = Decimal(plus)
        return float(minus * (minus / (1 - prior)).ln() + (1 - minus) * ((1 - minus) / prior).ln())


def numpys(logit: float, plus: float) -> float:
    return float(in_numpy(BINARY.logarithms(np.array([logit])), (1 - plus, plus))[0])


@given(st.floats(-700, 700), st.floats(1e-6, 1 - 1e-6))
def test_the_divergence_is_the_sum_over_both_outcomes(logit: float, plus: float) -> None:
    exact = by_both_outcomes(logit, plus)
    assert divergence(layer([logit]), plus).item() == pytest.approx(exact, rel=1e-10, abs=1e-12)
    assert numpys(logit, plus) == pytest.approx(exact, rel=1e-10, abs=1e-12)


@given(st.floats(-300, 300), st.floats(-300, 300))
def test_the_divergence_of_ternary_weights_is_the_sum_over_three_outcomes(zero: float, sign: float) -> None:
    with localcontext() as context:
        context.prec = 800
        c, a = (1 / (1 + (-Decimal(logit)).exp()) for logit in (zero, sign))
        outcomes = ((1 - c) * (1 - a), c, (1 - c) * a)
        exact = float(sum(p * (3 * p).ln() for p in outcomes))
    found = in_numpy(TERNARY.logarithms(np.array([zero]), np.array([sign])), (1 / 3,) * 3)
    assert found[0] == pytest.approx(exact, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("logit", [-1e30, -1e4, -88.8, -17.0, 0.0, 17.0, 88.8, 1e4, 1e30])
@pytest.mark.parametrize("plus", [0.5, 0.01, 0.9])
def test_large_logits_give_the_surprise_of_their_sign(logit: float, plus: float) -> None:
    model = layer([logit], torch.float32)
    found = divergence(model, plus)
    found.backward()
    if abs(logit) >= 17:
        wanted = -math.log(plus if logit < 0 else 1 - plus)
        assert found.item() == pytest.approx(wanted, rel=1e-5, abs=1e-6)
        assert numpys(logit, plus) == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    assert torch.isfinite(model[0].weight.logits.grad).all()


def test_the_divergence_is_the_mean_of_what_samples_say() -> None:
    torch.manual_seed(0)
    logits, plus, draws = torch.linspace(-4, 4, 9, dtype=torch.float64), 0.3, 20_000
    weight = Bernoulli((draws, 9), dtype=torch.float64)
    weight.logits.data = logits.expand(draws, 9).clone()
    positive = weight.sample() > 0
    log_q = torch.where(positive, -torch.log1p(logits.exp()), -torch.log1p((-logits).exp()))
    said = log_q - torch.where(positive, math.log(plus), math.log(1 - plus))
    for place in range(9):
        spread = said[:, place].std().item() / math.sqrt(draws)
        exact = divergence(layer([logits[place].item()]), plus).item()
        assert abs(said[:, place].mean().item() - exact) < 5 * spread


def test_gradients_are_the_numerical_ones() -> None:
    def total(logits: torch.Tensor) -> torch.Tensor:
        model = layer([0.0] * 5)
        del model[0].weight._parameters["logits"]
        model[0].weight.logits = logits
        return divergence(model, 0.2)

    assert torch.autograd.gradcheck(total, torch.tensor([-6.0, -1.0, 0.3, 2.0, 9.0]).double()[None].requires_grad_())


def test_an_even_prior_has_the_gradient_of_the_entropy_to_the_bit() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(1)) * 5
    ours, known = layer(values, torch.float32), layer(values, torch.float32)
    divergence(ours).backward()
    (-entropy(known)).backward()
    assert torch.equal(ours[0].weight.logits.grad, known[0].weight.logits.grad)


def test_priors_by_name_are_those_of_their_layers() -> None:
    model = nn.Sequential(BinaryConv2d(1, 2, 3), nn.Sequential(BinaryLinear(4, 3)))
    alone = divergence(nn.Sequential(model[0])) + divergence(model[1], 0.1)
    assert divergence(model, {"1.0": 0.1}).item() == pytest.approx(alone.item(), rel=1e-6)


class Three(WeightDistribution):
    """Weights of three values, all as likely."""

    support = (-1, 0, 1)
    shape = torch.Size([4])

    def entropy(self) -> torch.Tensor:
        return torch.full((4,), math.log(3))

    mean = variance = map = sample = transfer_ = scatter_ = settle_ = entropy  # type: ignore[assignment]


def test_weights_of_more_values_have_an_even_prior_alone() -> None:
    model = nn.ModuleDict({"layer": nn.ModuleDict({"weight": Three()})})
    assert divergence(model).item() == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(BlrcError, match=r"prior of layer 'layer' 0.4: its weights have 3 values; give 0.5"):
        divergence(model, 0.4)


def test_refusals() -> None:
    model = layer([0.0])
    for bad in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(BlrcError, match=r"prior of layer '0' .* above 0 and below 1"):
            divergence(model, bad)
    with pytest.raises(BlrcError, match="prior: no layer 'conv9' has random weights; those that have are 0"):
        divergence(model, {"conv9": 0.3})
    with pytest.raises(BlrcError, match="no weight distribution"):
        divergence(nn.Linear(2, 2))

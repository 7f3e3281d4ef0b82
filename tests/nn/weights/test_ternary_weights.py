"""Ternary weights against the three outcomes, enumerated in exact or float64 arithmetic, and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.weights.record import Coded
from blrc.frontend.weights.ternary import TERNARY
from blrc.nn import (
    BinaryConv1d,
    BinaryConv2d,
    BinaryLinear,
    SteConv1d,
    SteConv2d,
    SteLinear,
    Ternary,
    deterministic,
    entropy,
    restrain,
    shared_moments,
    transfer_,
    variance_regulariser,
    xavier_,
)
from blrc.nn.weights.distribution import CHUNK


def ternary(zero: object, sign: object, dtype: torch.dtype = torch.float64) -> Ternary:
    c, a = torch.as_tensor(zero, dtype=dtype), torch.as_tensor(sign, dtype=dtype)
    weight = Ternary(c.shape, dtype=dtype)
    with torch.no_grad():
        weight.zero_logits.copy_(c)
        weight.sign_logits.copy_(a)
    return weight


def outcomes(zero: float, sign: float) -> list[tuple[int, float]]:
    """The three values and their probabilities, of which none cancels."""

    def sigmoid(x: float) -> float:
        return 1.0 / (1.0 + math.exp(-x))

    return [(-1, sigmoid(-zero) * sigmoid(-sign)), (0, sigmoid(zero)), (1, sigmoid(-zero) * sigmoid(sign))]


@given(st.floats(-40, 40), st.floats(-40, 40))
def test_moments_and_entropy_are_those_of_the_three_values(zero: float, sign: float) -> None:
    weight, values = ternary([zero], [sign]), outcomes(zero, sign)
    mean = sum(value * p for value, p in values)
    # Half of the squared differences of all pairs: a variance without cancellation.
    variance = sum(p * q * (v - w) ** 2 for v, p in values for w, q in values) / 2
    for found in (weight.mean(), weight.moments()[0]):
        assert found.item() == pytest.approx(mean, rel=1e-9, abs=1e-15)
    for found in (weight.variance(), weight.moments()[1]):
        assert found.item() == pytest.approx(variance, rel=1e-9)
    surprise = sum(-p * math.log(p) for _, p in values)
    assert weight.entropy().item() == pytest.approx(surprise, rel=1e-6, abs=1e-12)


def test_pitfall_the_variance_of_a_certain_weight_is_not_zero() -> None:
    """(1 - c) - E^2 came out 0 in float32 for 2,731 of a million weights."""
    zero, sign = torch.meshgrid(torch.linspace(-40, 40, 101), torch.linspace(-40, 40, 101), indexing="ij")
    weight = ternary(zero, sign, torch.float32)
    exact = ternary(zero, sign).variance()
    cancelling = torch.sigmoid(-zero) - weight.mean().detach() ** 2
    assert (cancelling <= 0).any()
    for variance in (weight.variance(), weight.moments()[1]):
        assert (variance > 0).all()
        assert torch.allclose(variance.double(), exact, rtol=1e-5, atol=0)


def test_gradients_in_closed_form_are_those_of_differences() -> None:
    weight = ternary(torch.linspace(-4, 4, 12).reshape(3, 4), torch.linspace(5, -5, 12).reshape(4, 3).T)

    def outputs(zero: torch.Tensor, sign: torch.Tensor) -> tuple[torch.Tensor, ...]:
        held = weight.zero_logits, weight.sign_logits
        del weight.zero_logits, weight.sign_logits
        weight.zero_logits, weight.sign_logits = zero, sign  # plain tensors, so that gradcheck sees the dependence
        result = (*weight.moments(), weight.mean(), weight.variance(), weight.total_variance(), weight.entropy())
        del weight.zero_logits, weight.sign_logits
        weight.zero_logits, weight.sign_logits = held
        return result

    logits = [x.detach().clone().requires_grad_() for x in (weight.zero_logits, weight.sign_logits)]
    assert torch.autograd.gradcheck(outputs, logits)


def test_a_layer_larger_than_a_chunk() -> None:
    zero, sign = torch.randn(2, 7, CHUNK // 3, dtype=torch.float64) * 3
    fast, plain = ternary(zero, sign), ternary(zero, sign)
    weights = torch.randn(2, *zero.shape, dtype=torch.float64)
    mean, variance = fast.moments()
    (weights[0] * mean + weights[1] * variance).sum().backward()
    (weights[0] * plain.mean() + weights[1] * plain.variance()).sum().backward()
    fast.total_variance().backward()
    plain.variance().sum().backward()
    for mine, theirs in zip(fast.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("size", [0.0, 5.5, 100.0, 1e4, 3e38])
def test_everything_is_finite_at_extreme_logits(size: float) -> None:
    weight = ternary([size, size, -size, -size], [size, -size, size, -size], torch.float32)
    total = sum(x.sum() for x in (*weight.moments(), weight.entropy(), weight.total_variance()))
    total.backward()
    assert all(torch.isfinite(x).all() for x in (total, weight.zero_logits.grad, weight.sign_logits.grad))


@given(st.lists(st.tuples(st.floats(-12, 12, width=32), st.floats(-12, 12, width=32)), min_size=1, max_size=30))
def test_map_is_the_likeliest_of_three_and_that_of_the_codes(pairs: list[tuple[float, float]]) -> None:
    zero, sign = np.array(pairs, dtype=np.float32).T
    found = ternary(zero, sign, torch.float32).map().tolist()
    for value, (c, a) in zip(found, pairs, strict=True):
        p = dict(outcomes(c, a))
        assert p[int(value)] >= max(p.values()) * (1 - 1e-14)
    assert found == Coded(TERNARY, TERNARY.encode(zero, sign)).likeliest().tolist()


def test_ties_are_zero_and_then_plus_one() -> None:
    assert ternary([0.0, -50.0, -50.0, -50.0], [60.0, 0.0, -0.0, -1e-300]).map().tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_a_settled_weight_has_its_likeliest_value_for_certain(dtype: torch.dtype) -> None:
    weight = Ternary((50, 20), dtype=dtype)
    before = weight.map().clone()
    weight.settle_()
    mean, variance = weight.moments()
    assert torch.equal(mean, before) and torch.equal(weight.map(), before) and not variance.any()
    assert set(before.unique().tolist()) == {-1.0, 0.0, 1.0}


def test_samples_follow_the_probabilities() -> None:
    pairs = [(-100.0, 100.0), (-100.0, -100.0), (100.0, 0.0), (0.0, 0.0), (-2.0, 1.0), (-math.log(2), 0.0), (3.0, -4.0)]
    count = 40_000
    weight = ternary(*np.array(pairs).T[:, None].repeat(count, 1))
    draws = weight.sample(torch.Generator().manual_seed(1))
    assert set(draws.unique().tolist()) == {-1.0, 0.0, 1.0}
    for column, pair in zip(draws.T, pairs, strict=True):
        for value, p in outcomes(*pair):
            share = (column == value).double().mean().item()
            assert abs(share - p) <= 4.5 * math.sqrt(p * (1 - p) / count) + 1e-15
    assert torch.equal(draws, weight.sample(torch.Generator().manual_seed(1)))


def test_the_gaussian_of_a_layer_has_the_moments_of_sampled_weights() -> None:
    torch.manual_seed(0)
    layer, count = BinaryLinear(30, 4, weight="ternary"), 4_000
    x = torch.randn(1, 30)
    mean, variance = layer(x)
    draws = torch.cat([x @ layer.weight.sample().T for _ in range(count)])
    assert ((draws.mean(0) - mean[0]).abs() <= 4.5 * (variance[0] / count).sqrt()).all()
    assert torch.allclose(draws.var(0), variance[0], rtol=4.5 * math.sqrt(2 / count))


@pytest.mark.parametrize("by_network", [False, True])
def test_transfer_is_the_formula(by_network: bool) -> None:
    w = torch.randn(50, 20, generator=torch.Generator().manual_seed(3)) * 0.03 + 0.01
    if by_network:
        target, source = nn.Sequential(BinaryLinear(20, 50, weight="ternary")), nn.Sequential(nn.Linear(20, 50))
        source[0].weight.data.copy_(w)
        source[0].bias.data.zero_()
        transfer_(target, source)
        weight = target[0].weight
    else:
        weight = Ternary((50, 20))
        assert weight.transfer_(w) == pytest.approx(1 / w.double().std().item(), rel=1e-6)
    wanted = np.clip(w.double().numpy() / w.double().numpy().std(ddof=1), -1, 1)
    c = 0.95 - 0.9 * np.abs(wanted)
    a = np.clip((1 + wanted / (1 - c)) / 2, 0.05, 0.95)
    assert np.abs(torch.sigmoid(weight.zero_logits).detach().numpy() - c).max() < 1e-5
    assert np.abs(torch.sigmoid(weight.sign_logits).detach().numpy() - a).max() < 1e-5
    assert (c < 0.06).any() and (a == 0.95).any() and (a == 0.05).any()


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (torch.ones(2, 3), "standard deviation"),
        (torch.tensor([[1.0, float("nan"), 0.0]] * 2), "standard deviation"),
        (torch.randn(3, 2), r"shape \(3, 2\) to shape \(2, 3\)"),
    ],
)
def test_transfer_refuses(w: torch.Tensor, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        Ternary((2, 3)).transfer_(w)


def test_what_is_summed_over_a_network_takes_both_distributions() -> None:
    model = nn.Sequential(BinaryConv2d(1, 2, 3), nn.Sequential(BinaryLinear(3, 4, weight="ternary")))
    weights = model[0].weight, model[1][0].weight
    total = sum(weight.variance().sum().item() for weight in weights)
    assert variance_regulariser(model).item() == pytest.approx(0.25 * total, rel=1e-5)
    assert entropy(model).item() == pytest.approx(sum(w.entropy().sum().item() for w in weights), rel=1e-5)
    restrain(model, 0.25)
    for weight in weights:
        assert torch.allclose(weight.moments()[1], 0.25 * weight.variance())
        assert torch.allclose(weight.eval().moments()[1], weight.variance())
        assert torch.allclose(weight.train().total_variance(), weight.variance().sum())
    with shared_moments(model):
        for weight in weights:
            weight.moments()
        assert variance_regulariser(model).item() == pytest.approx(0.25 * total, rel=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_the_regulariser_of_a_step_is_that_of_its_weights(shared: bool) -> None:
    weight = Ternary((40, 30))
    adam = torch.optim.Adam(weight.parameters(), lr=0.5, fused=True)
    for _ in range(3):
        weight.share(shared)
        weight.moments()
        adam.zero_grad()
        value = variance_regulariser(weight)
        value.backward()
        fresh = Ternary((40, 30))
        fresh.load_state_dict(weight.state_dict())
        expected = 0.25 * fresh.variance().sum()
        expected.backward()
        assert torch.allclose(value, expected)
        for mine, theirs in zip(weight.parameters(), fresh.parameters(), strict=True):
            assert torch.allclose(mine.grad, theirs.grad, rtol=1e-4, atol=1e-8)
        weight.share(False)
        adam.step()


def test_xavier_scatters_about_equally_likely_values() -> None:
    torch.manual_seed(0)
    layer = BinaryLinear(100, 50, weight="ternary")
    xavier_(nn.Sequential(layer))
    zero, sign = layer.weight.zero_logits.detach() + math.log(2), layer.weight.sign_logits.detach()
    for logits in (zero, sign):
        assert 0.19 < logits.abs().max() <= 0.2 + 1e-6  # sqrt(6 / 150)
        assert abs(logits.mean()) < 0.01
    p = np.array([[q for _, q in outcomes(-math.log(2), 0.0)]])
    assert np.allclose(p, 1 / 3)


@pytest.mark.parametrize("layer", [BinaryLinear(4, 2, weight="ternary"), BinaryConv1d(4, 2, 3, weight="ternary"),
                                   BinaryConv2d(4, 2, 3, weight="ternary", padding="same", groups=2)])  # fmt: skip
def test_every_random_layer_takes_them(layer: nn.Module) -> None:
    x = torch.randn(3, 4) if isinstance(layer, BinaryLinear) else torch.randn(3, 4, *[5] * layer.dims)
    mean, variance = layer(x)
    assert isinstance(layer.weight, Ternary) and (variance > 0).all()
    (mean.sum() + variance.sum()).backward()
    assert layer.weight.zero_logits.grad.abs().min() > 0 and layer.weight.sign_logits.grad.abs().min() > 0
    fixed = deterministic(nn.Sequential(layer))
    assert torch.equal(fixed[0].weight, layer.weight.map())
    assert set(deterministic(nn.Sequential(layer), sample=True)[0].weight.unique().tolist()) <= {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("weight", ["quinary", "Ternary", "", 3, None, Ternary, Ternary((2, 3))])
def test_other_weights_are_refused_by_name(weight: object) -> None:
    for build in (lambda: BinaryLinear(3, 2, weight=weight), lambda: BinaryConv2d(3, 2, 1, weight=weight)):  # type: ignore[arg-type]
        with pytest.raises(BlrcError, match=r"^Binary\w+: weight .*: 'binary' or 'ternary'$") as error:
            build()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("cls", [SteLinear, SteConv1d, SteConv2d])
def test_layers_of_a_binarized_nn_have_no_choice(cls: type[nn.Module]) -> None:
    with pytest.raises(BlrcError, match=f"{cls.__name__}: its weights are .-1 and not random; leave out weight="):
        cls(3, 2, *([] if cls is SteLinear else [1]), weight="ternary")

"""Weight transfer between networks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import (
    BinaryConv2d,
    BinaryLinear,
    SoftmaxLinear,
    SteLevels,
    StochasticBatchNorm1d,
    StochasticLevels,
    choose_steps_,
    models,
    transfer_,
    xavier_,
)


def test_the_whole_network() -> None:
    source, target = models.mnist("fp"), models.mnist()
    target.norm1.weight.data.fill_(3.0)
    target.norm1.running_mean.fill_(3.0)
    transfer_(target, source)
    for name in ("conv1", "conv2", "dense"):
        w = source.get_submodule(name).weight.detach()
        expected = (w / w.std()).clamp(-0.9, 0.9)
        assert torch.allclose(target.get_submodule(name).weight.mean(), expected, atol=1e-5), name
    assert torch.equal(target.scores.weight, source.scores.weight)
    assert torch.equal(target.scores.bias, source.scores.bias)
    for name in ("norm1", "norm2", "norm3"):
        fresh = StochasticBatchNorm1d(target.get_submodule(name).num_features).state_dict()
        assert all(torch.equal(value, fresh[key]) for key, value in target.get_submodule(name).state_dict().items())


def test_a_bias_is_scaled_with_its_weights() -> None:
    source, target = nn.Sequential(nn.Linear(9, 5)), nn.Sequential(BinaryLinear(9, 5, bias=True))
    transfer_(target, source)
    assert torch.allclose(target[0].bias, source[0].bias / source[0].weight.std())
    transfer_(target, nn.Sequential(nn.Linear(9, 5, bias=False)))
    assert not target[0].bias.any()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (nn.Sequential(), "layer '0' needs .* found no such layer"),
        (nn.Sequential(nn.Linear(3, 3)), r"weight shape \(2, 3\) .* found Linear\(in_features=3, out_features=3"),
        (nn.Sequential(nn.ReLU()), "found ReLU"),
    ],
)
@pytest.mark.parametrize("target", [BinaryLinear(3, 2), SoftmaxLinear(3, 2)], ids=["binary", "softmax"])
def test_a_missing_counterpart_is_named(source: nn.Module, message: str, target: nn.Module) -> None:
    with pytest.raises(BlrcError, match=message):
        transfer_(nn.Sequential(target), source)


def test_bad_weights_name_their_layer() -> None:
    source = nn.Sequential(nn.Linear(3, 2))
    source[0].weight.data.fill_(1.0)
    with pytest.raises(BlrcError, match=r"layer '0': .*standard deviation"):
        transfer_(nn.Sequential(BinaryLinear(3, 2)), source)


def test_xavier_is_glorots_uniform_and_clears_biases() -> None:
    torch.manual_seed(0)
    layers = BinaryLinear(300, 200, bias=True), BinaryConv2d(30, 20, 3), SoftmaxLinear(300, 200)
    for layer in layers:
        xavier_(nn.Sequential(layer))
    fans = [(300, 200), (270, 180), (300, 200)]
    for layer, (fan_in, fan_out) in zip(layers, fans, strict=True):
        values = layer.weight if isinstance(layer, SoftmaxLinear) else layer.weight.logits
        reach = math.sqrt(6 / (fan_in + fan_out))
        assert 0.99 * reach < float(values.detach().abs().max()) <= reach
        assert float(values.detach().std()) == pytest.approx(reach / math.sqrt(3), rel=0.03)
    assert not layers[0].bias.detach().any() and not layers[2].bias.detach().any()


def test_norms_behind_real_activations_are_copied_without_their_statistics() -> None:
    source, target = models.mnist("fp"), models.mnist("lrnet")
    for norm in (source.norm1, source.norm3):
        norm.weight.data.uniform_(0.5, 2.0)
        norm.bias.data.normal_()
        norm.running_mean.fill_(3.0)
    target.norm1.running_var.fill_(7.0)
    transfer_(target, source)
    for name in ("norm1", "norm2", "norm3"):
        mine, theirs = target.get_submodule(name), source.get_submodule(name)
        assert torch.equal(mine.weight, theirs.weight) and torch.equal(mine.bias, theirs.bias)
        assert mine.weight is not theirs.weight
        assert not mine.running_mean.any() and (mine.running_var == 1).all()


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["exponential", "uniform", "sparse"])
def test_a_step_has_the_least_squared_error_on_the_source_s_activations(bits: int, kind: str) -> None:
    """No step of a fine grid does better by more than a tenth; at 8 bits there are many minima."""
    rng = torch.Generator().manual_seed(bits)
    x = torch.rand(4000, generator=rng)
    x = {"exponential": -3 * x.log(), "uniform": 5 * x, "sparse": (40 * (x - 0.8))}[kind]
    target = nn.Sequential(BinaryLinear(1, 1), SteLevels(bits))
    choose_steps_(target, nn.Sequential(nn.Identity(), nn.ReLU()), x[:, None])
    values, found = x.relu().double(), float(target[1].step)

    def error(step: float) -> float:
        codes = torch.bucketize(values, step * (torch.arange(1, 2**bits, dtype=torch.float64) - 0.5), right=True)
        return float((codes * step - values).square().mean())

    best = min(error(float(values.max()) * share / 1000 / (2**bits - 1)) for share in range(20, 1700))
    assert error(found) <= 1.1 * best
    assert math.frexp(found)[0] * 2**12 % 1 == 0  # 12 significant bits


def test_each_layer_of_levels_takes_the_step_of_the_relu_in_its_place() -> None:
    source = nn.Sequential(nn.ReLU(), nn.Linear(1, 1, bias=False), nn.ReLU())
    source[1].weight.data.fill_(8.0)
    target = nn.Sequential(StochasticLevels(2), nn.Identity(), SteLevels(2))
    choose_steps_(target, source, torch.linspace(0.0, 3.0, 1000)[:, None])
    assert float(target[2].step) == 8 * float(target[0].step) == pytest.approx(8 * 6 / 7, rel=0.01)


def test_steps_that_cannot_be_chosen_are_refused() -> None:
    with pytest.raises(BlrcError, match="1 layers of levels, but the source has 0 ReLUs"):
        choose_steps_(nn.Sequential(SteLevels(2)), nn.Sequential(nn.Tanh()), torch.ones(3, 1))
    for value in (-1.0, float("inf"), float("nan")):
        with pytest.raises(BlrcError, match=r"layer '0': the source's activations are all 0 or not finite"):
            choose_steps_(nn.Sequential(SteLevels(2)), nn.Sequential(nn.ReLU()), torch.full((3, 1), value))


def test_a_target_without_random_weights_is_refused() -> None:
    target, source = nn.Sequential(BinaryLinear(3, 2)), nn.Sequential(nn.Linear(3, 2, bias=False))
    with pytest.raises(BlrcError, match="transfer: the target has no random weights; give the target first"):
        transfer_(source, target)


def test_steps_are_of_what_a_relu_gave_and_not_of_what_a_later_layer_made_of_it() -> None:
    """`choose_steps_` kept a view of each output, which a layer that works in place changed afterwards."""
    x = torch.linspace(0.0, 3.0, 1000)[:, None]
    alone, changed = nn.Sequential(SteLevels(2)), nn.Sequential(SteLevels(2))
    choose_steps_(alone, nn.Sequential(nn.ReLU()), x)
    choose_steps_(changed, nn.Sequential(nn.ReLU(), nn.Hardtanh(-1e-3, 1e-3, inplace=True)), x.clone())
    assert float(changed[0].step) == float(alone[0].step) > 0.5


@pytest.mark.parametrize(("times", "count"), [(0, 1), (2, 2)])
def test_a_relu_that_is_not_used_once_is_refused(times: int, count: int) -> None:
    class Source(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(times):
                x = self.relu(x)
            return x

    with pytest.raises(BlrcError, match=f"the source's 1 ReLUs ran {times} times; each has to be used once"):
        choose_steps_(nn.Sequential(SteLevels(2)), Source(), torch.ones(3, 1))


def test_steps_need_inputs_and_activations_of_a_size_that_a_step_can_have() -> None:
    with pytest.raises(BlrcError, match="choose_steps: no inputs"):
        choose_steps_(nn.Sequential(SteLevels(2)), nn.Sequential(nn.ReLU()), torch.ones(0, 1))
    with pytest.raises(BlrcError, match=r"choose_steps: layer '0': step 3\..*e-26: give a positive number"):
        choose_steps_(nn.Sequential(SteLevels(2)), nn.Sequential(nn.ReLU()), torch.full((3, 1), 1e-25))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, affine=False)), "BatchNorm1d"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(5)), "BatchNorm1d"),
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU()), "ReLU"),
        (nn.Sequential(nn.Linear(3, 2)), "no such layer"),
    ],
)
def test_a_norm_without_a_counterpart_is_refused_by_name(source: nn.Module, found: str) -> None:
    target = nn.Sequential(BinaryLinear(3, 2), nn.BatchNorm1d(2))
    with pytest.raises(BlrcError, match=f"layer .1. needs a norm of 2 channels with gamma and beta .*{found}"):
        transfer_(target, source)

"""Weight transfer between networks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import BinaryConv2d, BinaryLinear, SoftmaxLinear, StochasticBatchNorm1d, models, transfer_, xavier_


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

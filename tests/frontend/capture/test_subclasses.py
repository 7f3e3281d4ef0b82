"""Subclasses of known classes are taken where they compute the same, and refused where they do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layers_taken import network, refusal
from torch import nn

from blrc import nn as bnn
from blrc.frontend.capture.trace import capture


class Negated(bnn.BinaryConv2d):
    def convolve(self, x: Any, weight: Any, bias: Any, signs: bool = False) -> torch.Tensor:
        return super().convolve(-x, weight, bias, signs)


class Doubled(bnn.BinaryLinear):
    def multiply(self, x: Any, weight: Any, signs: bool) -> torch.Tensor:
        return 2 * super().multiply(x, weight, signs)


class Shifted(bnn.StochasticBatchNorm2d):
    def affine_pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = super().affine_pair()
        return weight, bias + 1


class Certain(bnn.Bernoulli):
    def moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        mean, variance = super().moments()
        return -mean, variance


class OwnWeight(bnn.BinaryLinear):
    def new_weight(self, shape: Any, device: Any, dtype: Any) -> bnn.WeightDistribution:
        return Certain(shape, device=device, dtype=dtype)


class Foreign(bnn.WeightDistribution):
    name = "foreign"
    support = (-1, 0, 1)

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(shape))

    shape = property(lambda self: self.logits.shape)  # type: ignore[assignment]

    def mean(self) -> torch.Tensor:
        return 0.5 * torch.tanh(self.logits)

    def variance(self) -> torch.Tensor:
        return torch.ones_like(self.logits)

    def map(self) -> torch.Tensor:
        return torch.zeros_like(self.logits)

    def sample(self, generator: Any = None) -> torch.Tensor:
        return self.map()

    def entropy(self) -> torch.Tensor:
        return torch.zeros_like(self.logits)

    def transfer_(self, weight: torch.Tensor) -> float:
        return 1.0

    def scatter_(self, reach: float) -> None:
        pass

    def settle_(self) -> None:
        pass


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Negated(1, 2, 3), "Negated has a convolve of its own"),
        (Doubled(2, 2), "Doubled has a multiply of its own"),
        (Shifted(2), "Shifted has a affine_pair of its own"),
        (OwnWeight(2, 2), "its weights: Certain has a moments of its own"),
    ],
)
def test_regression_what_forward_calls_is_overridden(layer: nn.Module, words: str) -> None:
    """They were compiled as their base class."""
    line = refusal(network(layer))
    assert "layer '1'" in line
    assert words in line


@pytest.mark.parametrize("layer", [bnn.BinaryLinear(2, 2), bnn.BinaryConv2d(2, 2, 1)])
def test_regression_a_foreign_distribution_of_weights(layer: Any) -> None:
    layer.weight = Foreign(tuple(layer.weight.shape))
    line = refusal(network(layer))
    assert "layer '1': its weights are the distribution Foreign, which cannot be compiled" in line
    assert line.endswith('build the layer with weight="binary" or weight="ternary"')


def test_subclasses_that_compute_the_same_are_taken() -> None:
    class Named(bnn.BinaryConv2d):
        """Have a docstring, a constructor, a helper, and attributes of its own."""

        group = "slow"

        def __init__(self, width: int) -> None:
            super().__init__(1, width, 3)
            self.rate = 0.1

        def extra_repr(self) -> str:
            return "named"

        def reset(self) -> None:
            self.weight.reset_parameters()  # type: ignore[operator]

    nodes = capture(network(Named(2)))
    assert nodes[1].kind == "binary_conv2d"

"""Compute the divergence of random weights from their prior, a term of the variational bound (paper, section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from blrc.errors import BlrcError
from blrc.nn.weights.bernoulli import Bernoulli
from blrc.nn.weights.distribution import WeightDistribution


def divergence(model: nn.Module, prior: float | Mapping[str, float] = 0.5) -> Tensor:
    """Return KL(q || Bern(prior)) in nats, summed over all random weights.

    The bound to maximise is ``E[log p(Y | X, B)] - KL``. With a mean loss per example, add ``divergence(model) / N`` to
    the loss. For a prior of 1/2 the divergence is ``ln 2 - H`` for each weight.

    Args:
        model: the network.
        prior: the probability of a weight of +1, for all layers or by the name of the layer; 1/2 for other layers.

    Raises:
        BlrcError: the network has no random weights, a prior is not above 0 and below 1 or names no layer, or a layer
            has weights of more than two values and a prior other than 1/2, which stands for equal probabilities there.

    Example:
        >>> from blrc.nn.layers.binary import BinaryLinear
        >>> layer = nn.Sequential(BinaryLinear(3, 2))
        >>> _ = layer[0].weight.logits.data.fill_(0.0)
        >>> round(divergence(layer).item(), 6), round(divergence(layer, {"0": 0.25}).item() / 6, 6)
        (0.0, 0.143841)
    """
    weights = {
        name.rpartition(".")[0]: module
        for name, module in model.named_modules()
        if isinstance(module, WeightDistribution)
    }
    if not weights:
        raise BlrcError("the network has no weight distribution: build it of BinaryLinear and BinaryConv2d layers")
    named = prior if isinstance(prior, Mapping) else dict.fromkeys(weights, prior)
    if unknown := next((name for name in named if name not in weights), None):
        raise BlrcError(f"prior: no layer {unknown!r} has random weights; those that have are {', '.join(weights)}")
    return torch.stack([_divergence(name, each, named.get(name, 0.5)).sum() for name, each in weights.items()]).sum()


def _divergence(name: str, weight: WeightDistribution, plus: float) -> Tensor:
    """Return the divergence of each weight of a layer.

    With q the probability of +1 it is ``-H - q ln plus - (1 - q) ln(1 - plus)``. No term cancels for large logits.
    """
    if not 0.0 < plus < 1.0:
        raise BlrcError(f"prior of layer {name!r} {plus}: the probability of a weight of +1, above 0 and below 1")
    if plus == 0.5:
        return math.log(len(weight.support)) - weight.entropy()
    if not isinstance(weight, Bernoulli):
        raise BlrcError(
            f"prior of layer {name!r} {plus}: its weights have {len(weight.support)} values; give 0.5, by which "
            "all are as likely"
        )
    minus = torch.sigmoid(weight.logits)
    return -weight.entropy() - torch.sigmoid(-weight.logits) * math.log(plus) - minus * math.log1p(-plus)

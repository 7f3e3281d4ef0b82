"""Initialise a binary network from a trained full-precision network (paper, section 4.4), or at random."""

from __future__ import annotations

import math

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn.layers.binary import BinaryConv1d, BinaryConv2d, BinaryLinear, SoftmaxLinear
from blrc.nn.layers.norm import StochasticBatchNorm1d, StochasticBatchNorm2d
from blrc.nn.weights import Bernoulli


@torch.no_grad()
def transfer_(target: nn.Module, source: nn.Module) -> None:
    """Set `target`'s weight distributions from `source`, a full-precision network whose layers have the same names.

    Each layer gets ``E[B] = w / std(w)`` with p clipped to [0.05, 0.95], and its bias is divided by the same std. The
    softmax layer is copied. Norms are reset: gamma = 1, beta = 0, no running statistics.

    Raises:
        BlrcError: a layer has no counterpart, or one of another shape, or its weights are all equal or not finite. The
            message names the layer.

    Example:
        >>> target, source = nn.Sequential(BinaryLinear(3, 2)), nn.Sequential(nn.Linear(3, 2, bias=False))
        >>> transfer_(target, source)
        >>> bool((target[0].weight.map() == source[0].weight.sign()).all())
        True
    """
    layers = dict(source.named_modules())
    for name, module in target.named_modules():
        if isinstance(module, StochasticBatchNorm1d | StochasticBatchNorm2d):
            module.reset_running_stats()
            if module.weight is not None and module.bias is not None:
                module.weight.fill_(1.0)
                module.bias.zero_()
        if not isinstance(module, BinaryLinear | BinaryConv1d | BinaryConv2d | SoftmaxLinear):
            continue
        layer = layers.get(name)
        if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d) or layer.weight.shape != module.weight.shape:
            found = "no such layer" if layer is None else f"{layer}"
            raise BlrcError(
                f"transfer: layer {name!r} needs a full-precision layer of weight shape {tuple(module.weight.shape)} "
                f"under the same name, found {found}"
            )
        if isinstance(module, SoftmaxLinear):
            module.weight.copy_(layer.weight)
            scale = 1.0
        else:
            try:
                scale = module.weight.transfer_(layer.weight)
            except BlrcError as error:
                raise BlrcError(f"transfer: layer {name!r}: {error}") from None
        if module.bias is not None:
            module.bias.copy_(layer.bias * scale) if layer.bias is not None else module.bias.zero_()


@torch.no_grad()
def xavier_(model: nn.Module) -> None:
    """Draw the logits W of every Bernoulli layer, and the weights of softmax layers, as Glorot & Bengio (2010) do.

    The distribution is uniform over +-sqrt(6 / (fan_in + fan_out)), so that every p(B = -1) is close to 1/2. Biases
    are set to 0. This is the paper's ablation of weight transfer (section 5.3).

    Example:
        >>> layer = BinaryLinear(100, 50)
        >>> xavier_(layer)
        >>> bool(layer.weight.logits.abs().max() <= 0.2)
        True
    """
    for module in model.modules():
        if not isinstance(module, BinaryLinear | BinaryConv1d | BinaryConv2d | SoftmaxLinear):
            continue
        if module.bias is not None:
            module.bias.zero_()
        if isinstance(module, SoftmaxLinear):
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module.weight, Bernoulli):
            logits = module.weight.logits
            taps = math.prod(logits.shape[2:])
            reach = math.sqrt(6.0 / ((logits.shape[0] + logits.shape[1]) * taps))
            logits.uniform_(-reach, reach)

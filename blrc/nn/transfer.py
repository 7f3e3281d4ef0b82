"""Start a binary network from a trained full-precision one (paper, section 4.4)."""

from __future__ import annotations

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn.layers import BinaryConv2d, BinaryLinear, SoftmaxLinear
from blrc.nn.norm import StochasticBatchNorm1d, StochasticBatchNorm2d


@torch.no_grad()
def transfer_(target: nn.Module, source: nn.Module) -> None:
    """Set `target`'s weight distributions from `source`, a full-precision network whose layers have the same names.

    ``E[B] = w / std(w)`` of each layer, p clipped to [0.05, 0.95]; a bias is divided by the same std. The softmax layer
    is copied. Norms start anew: gamma = 1, beta = 0, no running statistics.

    Raises:
        BlrcError: a layer has no counterpart, or one of another shape; the layer is named.

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
        if not isinstance(module, BinaryLinear | BinaryConv2d | SoftmaxLinear):
            continue
        layer = layers.get(name)
        if not isinstance(layer, nn.Linear | nn.Conv2d) or layer.weight.shape != module.weight.shape:
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

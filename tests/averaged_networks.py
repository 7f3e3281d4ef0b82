"""Random networks with average pooling behind signs and levels: windowed, global, nested, and beside max pooling."""

from __future__ import annotations

import torch
from torch import nn

from blrc import nn as bnn


def averaged_network(seed: int) -> tuple[nn.Sequential, str, tuple[int, int, int]]:
    """Averages of signs (even seeds) or of levels, read by a convolution, by a dense layer and by the last layer.

    Seeds 0 and 1 of every four take a norm behind the pool with gammas of both signs, so that bits are turned back.
    """
    levels, turned, double, real = seed % 2 == 1, seed % 4 < 2, seed % 3 == 2, seed % 8 < 4
    first, second = nn.BatchNorm2d(9), nn.BatchNorm2d(33)
    layers: list[nn.Module] = [
        bnn.SteConv2d(2, 9, 3, padding=1),
        *([nn.MaxPool2d(2, 1), first] if turned else [first, nn.MaxPool2d(2, 1)]),
        bnn.SteLevels(2, step=0.4) if levels else bnn.SteSign(),
        nn.AvgPool2d(3, 2, padding=1 if levels else 0, count_include_pad=True),
        *([nn.AvgPool2d(2, 1)] if double and not levels else [nn.MaxPool2d(2, 1)] if double else []),
        bnn.SteConv2d(9, 33, 3, padding=1 if levels else 0, bias=seed % 5 == 0, groups=3),
        second,
        bnn.SteLevels(3, step=0.3) if levels and seed % 3 else bnn.SteSign(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    if seed % 7 == 3:
        layers += [bnn.SteLinear(33, 12, bias=True), nn.BatchNorm1d(12), bnn.SteSign(), bnn.SoftmaxLinear(12, 5)]
    else:
        layers += [bnn.SoftmaxLinear(33, 5)] if real else [bnn.SteLinear(33, 5, bias=True), nn.BatchNorm1d(5)]
    return nn.Sequential(*layers), ["uint8", "int8", "bits"][seed % 3], (2, 13, 12)


def randomised(model: nn.Sequential, seed: int) -> nn.Sequential:
    """The model in float64 with random weights, and norms whose values lie around what arrives there."""
    generator = torch.Generator().manual_seed(seed)
    size = 1.0
    for module in model:
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            for values in (module.weight.data, module.bias.data, module.running_mean, module.running_var):
                values.copy_(torch.randn(values.shape, generator=generator))
            module.running_var.abs_()
            module.running_mean *= size / 3
            module.running_var *= size**2
        elif isinstance(module, bnn.SteConv2d | bnn.SteLinear | nn.Linear):
            module.weight.data.copy_(torch.randn(module.weight.shape, generator=generator))
            if module.bias is not None:
                module.bias.data.copy_(torch.randn(module.bias.shape, generator=generator))
            size = float(module.weight[0].numel()) ** 0.5
    return model.double()

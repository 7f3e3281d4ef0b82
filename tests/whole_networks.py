"""Random networks with weights of 8 bits: stems, depthwise and pointwise layers, behind levels, signs, averages."""

from __future__ import annotations

import torch
from torch import nn

from blrc import nn as bnn


def whole_network(seed: int) -> tuple[nn.Sequential, str, tuple[int, int, int]]:
    """A stem with a stride, a depthwise layer on levels, a pointwise one, and binary ones behind them.

    Every third network ends its front with signs, so that layers of 8 bits read +-1; every fourth has averages.
    """
    bits = [(2, 3), (8, 5), (4, 8), (1, 6)][seed % 4]
    signs, averaged = seed % 3 == 1, seed % 4 == 3
    before, after = (nn.BatchNorm2d(9), nn.MaxPool2d(2, 1)), (nn.MaxPool2d(2, 1), nn.BatchNorm2d(9))
    layers: list[nn.Module] = [
        bnn.Int8Conv2d(2, 9, 3, stride=1 + seed % 2, padding=(1, 0, 1, 2), bias=seed % 2 == 0),
        *(before if seed % 5 < 3 else after),
        bnn.SteSign() if signs else bnn.SteLevels(bits[0], step=2 / 2 ** bits[0]),
        bnn.Int8Conv2d(9, 9 if seed % 2 else 18, 3, padding="same", groups=9),
        nn.BatchNorm2d(9 if seed % 2 else 18),
        nn.ReLU(),
        bnn.SteLevels(bits[1], step=2 / 2 ** bits[1]),
        *([nn.AvgPool2d(2, 1)] if averaged and bits[1] <= 6 else []),
        bnn.Int8Conv2d(9 if seed % 2 else 18, 20, 1, bias=seed % 3 == 0),
        nn.BatchNorm2d(20),
        bnn.SteSign(),
        bnn.SteConv2d(20, 33, 3),
        nn.BatchNorm2d(33),
        bnn.SteSign(),
        nn.Flatten(),
    ]
    shape = (2, 13, 12)
    with torch.no_grad():
        width = nn.Sequential(*layers).eval()(torch.zeros(1, *shape)).shape[1]
    layers += [bnn.Int8Linear(width, 12), nn.BatchNorm1d(12), bnn.SteSign(), bnn.SoftmaxLinear(12, 5)]
    return nn.Sequential(*layers), ["uint8", "int8", "bits"][seed % 3], shape


ENDS = [((-1, 1), (0, 4)), ((-2, 5), (-128, 127)), ((0, 6), (-3, 0)), ((-7, 7), (0, 255))]
"""Least and largest numbers of steps of levels below 0, or fewer than their bits hold."""


def foreign_network(seed: int) -> tuple[nn.Sequential, str, tuple[int, int, int]]:
    """Whole numbers with a scale for each channel, ternary ones and +-1 among them, and levels that round to even."""
    first, second = ENDS[seed % 4]
    layers: list[nn.Module] = [
        bnn.WholeConv2d(2, 9, 3, padding=1),
        bnn.ChannelScale(torch.ones(9)),
        nn.BatchNorm2d(9),
        *([nn.ReLU()] if seed % 2 else []),
        nn.MaxPool2d(2, 1),
        bnn.EvenLevels(*first, step=2 / (first[1] - first[0])),
        bnn.WholeConv2d(9, 20, 3, bias=True) if seed % 2 else bnn.WholeConv2d(9, 18, 3, groups=9),
        bnn.ChannelScale(torch.ones(20 if seed % 2 else 18)),
        nn.BatchNorm2d(20 if seed % 2 else 18),
        bnn.EvenLevels(*second, step=3 / (second[1] - second[0])),
        *([nn.AvgPool2d(2, 2)] if second[1] - second[0] < 60 else []),
        nn.Flatten(),
    ]
    shape = (2, 9, 8)
    with torch.no_grad():
        width = nn.Sequential(*layers).eval()(torch.zeros(1, *shape)).shape[1]
    layers += [bnn.WholeLinear(width, 12), nn.BatchNorm1d(12), bnn.SteSign(), bnn.SoftmaxLinear(12, 5)]
    return nn.Sequential(*layers), ["uint8", "int8", "bits"][seed % 3], shape


def randomised(
    model: nn.Sequential, seed: int, shape: tuple[int, int, int] = (2, 13, 12), most: int = 127
) -> nn.Sequential:
    """The model in float64 with random weights, and norms around what arrives there, of which some fall.

    Weights that are whole numbers are so from `-most` to `most`.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in model:
        if isinstance(module, bnn.Int8Conv2d | bnn.Int8Linear | bnn.SteConv2d | nn.Linear):
            module.weight.data.copy_(torch.randn(module.weight.shape, generator=generator))
            if isinstance(module, bnn.WholeConv2d | bnn.WholeLinear):
                module.weight.data.mul_(most).clamp_(-most, most).round_()
        elif isinstance(module, bnn.ChannelScale):
            module.factor.copy_(torch.rand(module.factor.shape, generator=generator) / most)
            module.divisor.copy_(torch.rand(module.divisor.shape, generator=generator) + 0.1)
        weighted = isinstance(module, bnn.Int8Conv2d | bnn.Int8Linear | bnn.SteConv2d | nn.Linear)
        if weighted and module.bias is not None:
            module.bias.data.copy_(torch.randn(module.bias.shape, generator=generator))
    model.double().eval()
    x = torch.randn((30, *shape), generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for module in model:
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                over = [axis for axis in range(x.ndim) if axis != 1]
                module.running_mean, module.running_var = x.mean(over).float().double(), x.var(over).float().double()
                for values in (module.weight.data, module.bias.data):
                    values.copy_(torch.randn(values.shape, generator=generator).double())
            x = module(x)
    return model

"""Random steps between a binary layer and its sign, as networks of other people have them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from blrc import nn as bnn


def values(generator: np.random.Generator, channels: int) -> torch.Tensor:
    """Negative, tiny, zero and ordinary numbers, that float32 holds."""
    drawn = generator.normal(size=channels)
    drawn[generator.random(channels) < 0.1] *= 1e-3
    return torch.tensor(drawn, dtype=torch.float32)


def step(generator: np.random.Generator, channels: int, pools: bool, zeros: bool) -> nn.Module:
    kind = generator.integers(0, 7 if pools else 6)
    if kind == 0:
        norm = nn.BatchNorm2d(channels)
        norm.weight.data, norm.bias.data = values(generator, channels), values(generator, channels)
        norm.running_mean, norm.running_var = 3 * values(generator, channels), 0.1 + values(generator, channels).abs()
        return norm
    if kind == 1:
        factor = values(generator, channels)
        if zeros:
            factor[generator.random(channels) < 0.2] = 0.0
        return bnn.ChannelScale(factor, values(generator, 1).abs() + 0.1)
    if kind == 2:
        return bnn.ChannelShift(values(generator, channels))
    if kind == 3:
        prelu = nn.PReLU(channels)
        prelu.weight.data = values(generator, channels).abs()
        return prelu
    if kind == 4:
        return nn.ReLU() if generator.random() < 0.3 else nn.Hardtanh(-2.5, 1.25)
    if kind == 5:
        return nn.Hardtanh(-7.0, 9.0)
    return nn.MaxPool2d(2)


def decision(generator: np.random.Generator, channels: int) -> nn.Module:
    if generator.random() < 0.5:
        return bnn.SteSign()
    at = torch.from_numpy(generator.integers(-2, 3, channels))
    return bnn.Threshold(at, torch.from_numpy(generator.random(channels) < 0.5))

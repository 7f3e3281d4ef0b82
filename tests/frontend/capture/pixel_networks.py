"""Networks of plain PyTorch that read standardised pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

import blrc

SAMPLES = 200


def sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


class Dense(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, sign(self.weight) * 0.37, self.bias)


class Conv(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.linspace(0.5, 2, self.out_channels, dtype=x.dtype)[:, None, None, None]
        return self._conv_forward(x, sign(self.weight) * scale, self.bias)


class Last(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, sign(self.weight))


class Signs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sign(x)


class Affine(nn.Module):
    """Multiplies and adds, as the forwards of others do before their first layer."""

    def __init__(self, factor: float, *by: float) -> None:
        super().__init__()
        self.factor, self.by = factor, nn.Parameter(torch.tensor(by)[:, None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x + self.by


def dense(channels: int, *first: nn.Module) -> nn.Module:
    inputs = 36 * channels
    return nn.Sequential(*first, nn.Flatten(), Dense(inputs, 24), nn.BatchNorm1d(24), Signs(), Last(24, 5))


def conv(channels: int, *first: nn.Module, groups: int = 1, **options: Any) -> nn.Module:
    layer = Conv(channels, 6, 3, groups=groups, **options)
    return nn.Sequential(*first, layer, nn.BatchNorm2d(6), Signs(), nn.MaxPool2d(2), nn.Flatten(), Last(24, 5))


GRAY = blrc.pixels((1, 6, 6), mean=[0.1307], std=[0.3081])
COLOURS = blrc.pixels((3, 6, 6), mean=[0.4914, 0.4822, 0.4465], std=[0.25] * 3)
PLAIN = blrc.pixels((1, 6, 6), mean=[0.0], std=[1.0])
NETWORKS: dict[str, tuple[blrc.InputEncoding, Callable[[], nn.Module]]] = {
    "dense": (GRAY, lambda: dense(1)),
    "dense of colours": (COLOURS, lambda: dense(3)),
    "convolution": (GRAY, lambda: conv(1)),
    "convolution of colours": (COLOURS, lambda: conv(3, bias=False)),
    "groups": (COLOURS, lambda: conv(3, groups=3)),
    "from -1 to 1": (PLAIN, lambda: conv(1, Affine(2.0, -1.0))),
    "multiplied": (PLAIN, lambda: conv(1, Affine(2.0, 0.0))),
    "channels of their own": (COLOURS, lambda: dense(3, Affine(-1.5, 0.1, 0.2, -0.3))),
    "bits": (GRAY, lambda: dense(1, Signs())),
    "bits of colours": (COLOURS, lambda: conv(3, Affine(1.0, 0.3, -0.1, 0.2), Signs())),
    "bits that fall": (PLAIN, lambda: dense(1, Affine(-2.0, 1.0), Signs())),
}


def network(name: str, seed: int) -> tuple[blrc.InputEncoding, nn.Module]:
    """Return a network whose norms have seen pixels, so that its bits are mixed."""
    torch.manual_seed(seed)
    encoding, make = NETWORKS[name]
    model = make().double()
    model(torch.from_numpy(standardised(encoding, pixels(encoding, 9))))
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
            norm.momentum = None
            norm.weight.data.normal_()
            norm.bias.data.normal_(std=0.3)
            norm.reset_running_stats()
    with torch.no_grad():
        model.train()(torch.from_numpy(standardised(encoding, pixels(encoding, 9))))
    return encoding, model.float().eval()


def pixels(encoding: blrc.InputEncoding, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (SAMPLES, *encoding.shape)).astype(np.uint8)


def standardised(encoding: blrc.InputEncoding, raw: Any) -> Any:
    """Return what torchvision's ToTensor and Normalize give, in float64."""
    mean, std = (np.array(row)[:, None, None] for row in (encoding.mean, encoding.std))
    return (raw / 255 - mean) / std


class Given(nn.Module):
    """Computes anything, written as a function of one tensor."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)

"""A small network whose forward a test gives, and samples for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from random_networks import encoding_of, raw_samples
from torch import nn

from blrc import nn as bnn

SHAPE = (1, 6, 6)
ENCODING = encoding_of("uint8", SHAPE)
SAMPLES = raw_samples(ENCODING, 20, 0)
Forward = Callable[[Any, torch.Tensor], Any]


class Net(nn.Module):
    """A network whose forward a test gives; `count` and `log` are for forwards that remember."""

    def __init__(self, call: Forward | None = None) -> None:
        super().__init__()
        self.conv = bnn.SteConv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.sign = bnn.SteSign()
        self.flat = nn.Flatten()
        self.scores = bnn.SoftmaxLinear(64, 3)
        self.count = 0
        self.log: list[int] = []
        self.call = call

    def plain(self, x: torch.Tensor) -> Any:
        return self.scores(self.flat(self.sign(self.norm(self.conv(x)))))

    def forward(self, x: torch.Tensor) -> Any:
        return self.plain(x) if self.call is None else self.call(self, x)

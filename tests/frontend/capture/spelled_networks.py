"""A network whose sign and forward a test spells, and what becomes of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import blrc
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.saving import from_model

SHAPE = (2, 5, 4)
BITS = blrc.bits(SHAPE)


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[x < 0] = -1
        out[x >= 0] = 1
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class Network(nn.Module):
    """A binary convolution of 18 or fewer inputs, a function, and real scores."""

    def __init__(self, function: Callable[..., Any], last: Callable[..., Any] | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.Conv2d(2, 6, (3, 3), bias=False)
        self.conv.weight.data.sign_()
        self.function, self.last = function, last
        self.fc = nn.Linear(36, 4)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.function(self.conv(x))
        return self.fc(x.flatten(1)) if self.last is None else self.last(self, x)


def taken(model: nn.Module, encoding: blrc.InputEncoding = BITS, **options: Any) -> Checkpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return from_model(model, encoding, **options)


def sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x)


def scores(m: Network, x: torch.Tensor) -> torch.Tensor:
    return m.fc(sign(x).flatten(1))  # type: ignore[no-any-return]


class Signs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sign(x)


class OnlySigns(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, sign(self.weight))

"""Provide layers with parameters that are given rather than trained, for networks that were made elsewhere.

They map tensors ``(N, channels, ...)`` to tensors of the same shape. Parameters have one value for each channel, or one
for all channels. They are buffers, so no optimiser changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from blrc.errors import BlrcError

LARGEST = 2**53
"""Sums are computed in float64, which holds integers up to this one."""
Numbers = Tensor | Sequence[float] | float


class ChannelScale(nn.Module):
    """Multiply each channel by ``factor`` / ``divisor``, which the compiler takes as exact rationals.

    Args:
        factor, divisor: numbers ``(channels,)``, or one number for all channels. Their quotient is not rounded.
    """

    factor: Tensor
    divisor: Tensor

    def __init__(self, factor: Numbers, divisor: Numbers = 1.0) -> None:
        super().__init__()
        first, second = _row("factor", factor), _row("divisor", divisor)
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            raise BlrcError(f"ChannelScale: {len(first)} factors, but {len(second)} divisors; give as many")
        if not second.all():
            raise BlrcError("ChannelScale: a divisor is 0")
        channels = max(len(first), len(second))
        self.register_buffer("factor", first.expand(channels).clone())
        self.register_buffer("divisor", second.expand(channels).clone())

    @property
    def channels(self) -> int:
        return len(self.factor)

    def forward(self, x: Tensor) -> Tensor:
        return x * _by_channel(self.factor, x) / _by_channel(self.divisor, x)


class ChannelShift(nn.Module):
    """Add ``by`` to each channel: numbers ``(channels,)``, or one number for all channels."""

    by: Tensor

    def __init__(self, by: Numbers) -> None:
        super().__init__()
        self.register_buffer("by", _row("by", by))

    @property
    def channels(self) -> int:
        return len(self.by)

    def forward(self, x: Tensor) -> Tensor:
        return x + _by_channel(self.by, x)


class Threshold(nn.Module):
    """Decide each channel by an integer: +1 where x >= ``at``, else -1; the other way round where ``inverted``.

    Behind `SteConv2d` or `SteLinear` without a bias x is the integer sum z of +-1 products, so that thresholds of other
    tools can be given as they are. Behind a first layer, whose input are codes, x is the sum of codes / scale.

    Args:
        at: integers ``(channels,)``, or one for all channels.
        inverted: booleans ``(channels,)``, or one for all channels.
    """

    at: Tensor
    inverted: Tensor

    def __init__(self, at: Tensor | Sequence[int] | int, inverted: Tensor | Sequence[bool] | bool = False) -> None:
        super().__init__()
        limits, turned = _numbers("Threshold", "at", at), _numbers("Threshold", "inverted", inverted)
        if limits.is_floating_point() and not (limits == limits.round()).all():
            raise BlrcError("Threshold: at must be integers; a sum of +-1 reaches t exactly if it reaches ceil(t)")
        if not (limits.double().abs() < LARGEST).all():
            raise BlrcError("Threshold: at must lie between -2^53 and 2^53, which no sum reaches")
        if len(turned) not in (1, len(limits)):
            raise BlrcError(f"Threshold: {len(limits)} thresholds, but {len(turned)} values of inverted; give as many")
        self.register_buffer("at", limits.to(torch.int64))
        self.register_buffer("inverted", (turned != 0).to(torch.int64).expand(len(limits)).clone())

    @property
    def channels(self) -> int:
        return len(self.at)

    def forward(self, x: Tensor) -> Tensor:
        plus = (x >= _by_channel(self.at, x)) != (_by_channel(self.inverted, x) != 0)
        return torch.where(plus, 1.0, -1.0).to(x.dtype)


class StrictSign(nn.Module):
    """Take `torch.sign`, whose value at 0 is 0. The compiler refuses it where 0 can occur."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sign(x)


def _numbers(who: str, what: str, values: Any) -> Tensor:
    """Return real numbers as a vector that is not empty."""
    try:
        row = torch.as_tensor(values).reshape(-1)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        row = torch.zeros(0)
    if not len(row) or row.is_complex():
        raise BlrcError(f"{who}: {what} must be numbers, one for each channel or one for all")
    return row


def _row(what: str, values: Numbers) -> Tensor:
    row = _numbers("ChannelScale or ChannelShift", what, values)
    row = row if row.is_floating_point() else row.to(torch.get_default_dtype())
    if not torch.isfinite(row).all():
        raise BlrcError(f"{what}: give finite numbers, one for each channel or one for all")
    return row


def _by_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(1, -1, *[1] * (x.ndim - 2))

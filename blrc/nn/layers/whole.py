"""Define layers whose weights are whole numbers of 8 bits: first layers, depthwise and pointwise ones.

Every layer keeps real weights w and computes with w' = u q, where q = round(w / u) is a whole number from -127 to 127
and u = max |w| / 127 is the unit of an output; of layers with whole numbers as they are, u is 1. The gradient with
respect to w' is applied to w unchanged.

Source: Jacob et al. (2018), "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", section 3; symmetric, with a unit for each output as in Krishnamoorthi (2018), section 3.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from blrc.net.net import LARGEST_WEIGHT
from blrc.nn.layers.geometry import ConvLayer, DenseLayer, Device


def whole(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole numbers, of the shape of the weights, and the unit of each output, ``(out,)``; without gradient.

    Both are computed in float32 whatever type the weights have, so that a network in another type has the same ones.
    An output whose weights are all 0 has the unit 1.

    Example:
        >>> whole(torch.tensor([[1.0, -0.5, 0.004], [0.0, 0.0, 0.0]]))
        (tensor([[127., -64.,   1.],
                [  0.,   0.,   0.]]), tensor([0.0079, 1.0000]))
    """
    rows = weight.detach().float().flatten(1)
    unit = rows.abs().amax(1) / LARGEST_WEIGHT
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    return (rows / unit[:, None]).round_().clamp_(-LARGEST_WEIGHT, LARGEST_WEIGHT).reshape(weight.shape), unit


def rounded(weight: Tensor) -> Tensor:
    """Return weights of 8 bits as real numbers, of the shape and type of `weight`; without gradient."""
    numbers, unit = whole(weight)
    return numbers.to(weight.dtype) * unit.reshape(-1, *[1] * (weight.ndim - 1)).to(weight.dtype)


def as_they_are(weight: Tensor) -> Tensor:
    """Return the whole numbers from -127 to 127 that are nearest to weights; without gradient."""
    return weight.detach().round().clamp_(-LARGEST_WEIGHT, LARGEST_WEIGHT)


class _Int8(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, counted: bool) -> Tensor:
        return as_they_are(weight) if counted else rounded(weight)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class Int8Linear(DenseLayer):
    """Apply a dense layer with weights of 8 bits, ``z = a w'^T + bias``, from ``(N, in)`` to ``(N, out)``.

    Args:
        in_features, out_features, bias: as in `torch.nn.Linear`. A bias is useless before a norm.

    Attributes:
        weight: real weights ``(out, in)``, initially uniform as in `torch.nn.Linear`.
        bias: real parameter ``(out,)`` or None.

    Raises:
        BlrcError: a number of features is no positive whole number, or the input is no tensor ``(N, in)``.

    Source: Jacob et al. (2018), section 3.

    Example:
        >>> layer = Int8Linear(3, 1)
        >>> _ = layer.weight.data.copy_(torch.tensor([[1.27, 0.014, -0.5]]))
        >>> layer(torch.tensor([[0.0, 1.0, 0.0]])).item()
        0.009999999776482582
    """

    weight: nn.Parameter
    counted: ClassVar[bool] = False

    def new_weight(self, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None) -> nn.Parameter:
        return _uniform(shape, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.multiply(self.expect(x), _Int8.apply(self.weight, self.counted), False)  # type: ignore[no-untyped-call]


class WholeLinear(Int8Linear):
    """Apply a dense layer whose weights are whole numbers from -127 to 127, to which real ones are rounded.

    Arguments, attributes and errors are those of `Int8Linear`. Networks of other people have such weights, with a
    `ChannelScale` for their unit.

    Example:
        >>> layer = WholeLinear(3, 1)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -200.0, 0.4]]))
        >>> layer(torch.ones(1, 3)).item()
        -124.0
    """

    counted = True


class _Int8Conv(ConvLayer):
    """Implement what convolutions with weights of 8 bits share, whatever their dimensions."""

    weight: nn.Parameter
    counted: ClassVar[bool] = False

    def new_weight(self, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None) -> nn.Parameter:
        return _uniform(shape, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolve(self.expect(x), _Int8.apply(self.weight, self.counted), self.bias)  # type: ignore[no-untyped-call]


class Int8Conv1d(_Int8Conv):
    """Apply a convolution over time with weights of 8 bits: ``(N, C, L)`` to ``(N, C', L')``.

    Arguments and errors are those of `Int8Conv2d`, with the options of `torch.nn.Conv1d`.

    Example:
        >>> Int8Conv1d(6, 8, 5, padding=2)(torch.randn(4, 6, 100)).shape
        torch.Size([4, 8, 100])
    """

    dims = 1


class Int8Conv2d(_Int8Conv):
    """Apply a convolution with weights of 8 bits and zero padding: ``(N, C, H, W)`` to ``(N, C', H', W')``.

    A sign, levels or a threshold follow it, with a norm, scales and pools between them, as behind a binary layer.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias: as in `torch.nn.Conv2d`. The
            padding may also be four numbers: top, left, bottom, right. With ``groups=in_channels`` the layer is a
            depthwise one.

    Attributes:
        weight: real weights ``(C', C / groups, kH, kW)``, initially uniform as in `torch.nn.Conv2d`.
        bias: real parameter ``(C',)`` or None.
        kernel_size, stride, dilation: pairs of whole numbers.
        padding: a pair of whole numbers, or four where opposite sides differ, ``'same'`` or ``'valid'``.

    Raises:
        BlrcError: an option is no whole number (or pair of them) in its range, the groups do not divide the channels,
            'same' padding is combined with a stride, or the input has another shape.

    Source: Jacob et al. (2018), section 3.

    Example:
        >>> Int8Conv2d(3, 32, 3, stride=2, padding=1)(torch.randn(5, 3, 32, 32)).shape
        torch.Size([5, 32, 16, 16])
    """


class WholeConv1d(Int8Conv1d):
    """Apply a convolution over time whose weights are whole numbers from -127 to 127, as `WholeConv2d` does.

    Example:
        >>> WholeConv1d(6, 8, 5, padding=2)(torch.randn(4, 6, 100)).shape
        torch.Size([4, 8, 100])
    """

    counted = True


class WholeConv2d(Int8Conv2d):
    """Apply a convolution whose weights are whole numbers from -127 to 127, to which real ones are rounded.

    Arguments, attributes and errors are those of `Int8Conv2d`. Networks of other people have such weights, with a
    `ChannelScale` for their unit.

    Example:
        >>> layer = WholeConv2d(1, 1, 1)
        >>> _ = layer.weight.data.fill_(-7.0)
        >>> layer(torch.ones(1, 1, 1, 1)).item()
        -7.0
    """

    counted = True


def _uniform(shape: tuple[int, ...], device: Device, dtype: torch.dtype | None) -> nn.Parameter:
    weight = torch.empty(shape, device=device, dtype=dtype)
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    return nn.Parameter(weight if weight.is_meta else weight.uniform_(-bound, bound))

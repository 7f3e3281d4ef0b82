"""Define what dense layers and convolutions share, whatever their weights: options, bias and checks of the input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from blrc.errors import BlrcError
from blrc.net.window import conv_window, count, of_line, padding_option
from blrc.nn.gaussian import expect_tensor

Pair = int | tuple[int, int]
Sides = tuple[int, int, int, int]
"""Paddings: top, left, bottom, right."""
Device = torch.device | str | None
DEFAULT_WEIGHT = "binary"


class _Weighted(nn.Module, ABC):
    weight: Any
    bias: nn.Parameter | None
    signs_in: torch.dtype | None = None

    @abstractmethod
    def new_weight(self, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None) -> nn.Module | nn.Parameter:
        """Return the layer's initial weights of this `shape`, whose first dimension is that of the outputs."""

    def named_weight(
        self, name: str, shape: tuple[int, ...], device: Device, dtype: torch.dtype | None
    ) -> nn.Module | nn.Parameter:
        """Return initial weights of another kind than `new_weight` gives, by the name that was given as ``weight``.

        Raises:
            BlrcError: the layer has no such weights.
        """
        raise BlrcError(f"{type(self).__name__}: its weights are +-1 and not random; leave out weight=")

    def _fill(self, shape: tuple[int, ...], bias: bool, device: Device, dtype: torch.dtype | None, weight: str) -> None:
        if weight == DEFAULT_WEIGHT:
            self.weight = self.new_weight(shape, device, dtype)
        else:
            self.weight = self.named_weight(weight, shape, device, dtype)
        self.bias = nn.Parameter(torch.zeros(shape[0], device=device, dtype=dtype)) if bias else None


def last(sizes: tuple[int, int], dims: int) -> tuple[int, ...]:
    """Return the sizes of a window (vertical, horizontal) along its last `dims` dimensions."""
    return sizes[2 - dims :]


def padded(x: Tensor, padding: Any, dims: int, value: float = 0.0) -> tuple[Tensor, Any]:
    """Return maps, and the padding that torch's own functions can add to them.

    They take a number for each dimension. Where each side has its own, the maps are padded here, with `value`, and
    none is left.
    """
    if isinstance(padding, str | int) or len(padding) == dims:
        return x, padding
    first, behind = padding[:dims], padding[dims:]
    return F.pad(x, [n for pair in zip(first[::-1], behind[::-1], strict=True) for n in pair], value=value), 0


class DenseLayer(_Weighted):
    """Hold the options of `torch.nn.Linear`, weights of shape ``(out, in)``, and a bias ``(out,)`` or None.

    Attributes:
        signs_in: type in which +-1 inputs are multiplied (`multiply_signs_in`); None is that of the weights.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        weight: str = DEFAULT_WEIGHT,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_features = count(name, "in_features", in_features)
        self.out_features = count(name, "out_features", out_features)
        self._fill((self.out_features, self.in_features), bias, device, dtype, weight)

    def expect(self, x: Tensor) -> Tensor:
        """Return `x`, or raise a `BlrcError` if it is no tensor ``(N, in)``."""
        name = type(self).__name__
        x = expect_tensor(x, name)
        if x.ndim != 2 or x.shape[1] != self.in_features:
            raise BlrcError(f"{name} takes (N, {self.in_features}), got {tuple(x.shape)}: flatten maps before it")
        return x

    def multiply(self, x: Tensor, weight: Tensor, signs: bool) -> Tensor:
        """Return ``x weight^T + bias``, where `signs` tells that all of x is +-1."""
        if signs and self.signs_in is not None:
            z = F.linear(x.to(self.signs_in), weight.to(self.signs_in)).to(x.dtype)
            return z if self.bias is None else z + self.bias
        return F.linear(x, weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def all_signs(x: Tensor) -> bool:
    """Return whether every value is +1 or -1. The first sample is checked first, so that real input costs little."""
    x = x.detach()
    one = torch.ones((), dtype=x.dtype, device=x.device)
    return all(torch.equal(part, torch.copysign(one, part)) for part in (x[:1], x))


class ConvLayer(_Weighted):
    """Hold the options of `torch.nn.Conv2d`, weights ``(C', C / groups, kH, kW)``, and a bias ``(C',)`` or None.

    With one dimension they are those of `torch.nn.Conv1d`, and the weights are ``(C', C / groups, k)``.

    Attributes:
        dims: number of dimensions besides batch and channels.
        signs_in: type in which +-1 inputs are convolved (`multiply_signs_in`); None is that of the weights.
    """

    dims: ClassVar[int] = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair | Sides | Literal["same", "valid"] = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        weight: str = DEFAULT_WEIGHT,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_channels = in_channels = count(name, "in_channels", in_channels)
        self.out_channels = out_channels = count(name, "out_channels", out_channels)
        self.groups = groups = count(name, "groups", groups)
        if in_channels % groups or out_channels % groups:
            raise BlrcError(f"{name}: {groups} groups must divide {in_channels} and {out_channels} channels")
        options = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
        window = conv_window(name, **(of_line(options) if self.dims == 1 else options))
        self.kernel_size, self.stride = last(window.kernel, self.dims), last(window.stride, self.dims)
        self.dilation = last(window.dilation, self.dims)
        pads = padding_option(window.padding, self.dims)
        self.padding: tuple[int, ...] | str = padding if isinstance(padding, str) else pads
        self._fill((out_channels, in_channels // groups, *self.kernel_size), bias, device, dtype, weight)

    def expect(self, x: Tensor) -> Tensor:
        """Return `x`, or raise a `BlrcError` if it is no tensor ``(N, C, H, W)``, or ``(N, C, L)``."""
        name = type(self).__name__
        x = expect_tensor(x, name)
        if x.ndim != 2 + self.dims or x.shape[1] != self.in_channels:
            sizes = "L" if self.dims == 1 else "H, W"
            raise BlrcError(f"{name} takes (N, {self.in_channels}, {sizes}), got {tuple(x.shape)}")
        return x

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None, signs: bool = False) -> Tensor:
        """Return the convolution of x with these weights, where `signs` tells that all of x is +-1."""
        if signs and self.signs_in is not None:
            z = self.convolve(x.to(self.signs_in), weight.to(self.signs_in), None).to(x.dtype)
            return z if bias is None else z + bias.reshape(-1, *[1] * self.dims)
        convolve = F.conv1d if self.dims == 1 else F.conv2d
        x, padding = padded(x, self.padding, self.dims)
        return convolve(x, weight, bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding!r}, dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}"
        )


def multiply_signs_in(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Let every linear map of a network compute in `dtype` where its input is +-1; None restores the weights' type.

    In bfloat16 (8 bits of mantissa) +-1 are exact, and so are sums of up to 256 of them. Real weights and larger sums
    are rounded by at most 2^-9 of their value, far less than the noise of a stochastic network. This halves the time
    on CPUs with instructions for bfloat16 (avx512_bf16, amx_bf16) and takes longer on others.

    Example:
        >>> from blrc.nn.layers.binary import BinaryConv2d
        >>> model = nn.Sequential(BinaryConv2d(32, 8, 3))
        >>> multiply_signs_in(model, torch.bfloat16)
        >>> model(torch.ones(1, 32, 4, 4)).mean.dtype
        torch.float32
    """
    for module in model.modules():
        if isinstance(module, _Weighted):
            module.signs_in = dtype

"""Exact integer pre-activations of a net, with torch as nothing but a fast convolution.

A float32 convolution of integers is exact while every partial sum stays below 2^24 in magnitude; the bound is
asserted, and float64 is used where it does not hold. So the sums do not depend on threads, batch order or machine.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from blrc.net import Conv, Dense
from blrc.window import Window

CHUNK = 16  # samples at once: small enough for caches, and no large buffer is allocated again and again


def preactivation(linear: Conv | Dense, x: NDArray[np.int8], peak: int) -> NDArray[np.int32]:
    """z of a batch, without bias.

    Args:
        x: int8 codes or +-1, ``(N, C, H, W)`` or ``(N, C)``.
        peak: bound on the magnitude of x.

    Returns:
        int32 ``(N, out, H', W')`` or ``(N, out)``.
    """
    fan_in = int(np.prod(linear.weights.shape[1:]))
    dtype = torch.float32 if fan_in * peak < 2**24 else torch.float64
    weights = torch.from_numpy(linear.weights).to(dtype)
    z = _empty(len(x), _output_shape(linear, x))
    for i in range(0, len(x), CHUNK):
        chunk = torch.from_numpy(np.ascontiguousarray(x[i : i + CHUNK]) if x.ndim == 2 else x[i : i + CHUNK])
        torch.from_numpy(z[i : i + CHUNK]).copy_(_linear(linear, weights, chunk))
    return z


def _empty(count: int, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """``(count, *shape)`` with channels last in memory, as the convolution writes it: a copy between the two orders
    costs more than the convolution."""
    channels, *size = shape
    return np.moveaxis(np.empty((count, *size, channels), dtype=np.int32), -1, 1)


def _output_shape(linear: Conv | Dense, x: NDArray[np.int8]) -> tuple[int, ...]:
    if isinstance(linear, Dense):
        return (len(linear.weights),)
    return (len(linear.weights), *linear.window.output(*x.shape[2:]))


def _linear(linear: Conv | Dense, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if isinstance(linear, Dense):
        return F.linear(x.to(weights.dtype), weights)
    window = linear.window
    top, left, bottom, right = window.padding
    n, channels, height, width = x.shape
    padded = torch.empty(
        (n, channels, top + height + bottom, left + width + right),
        dtype=weights.dtype,
        memory_format=torch.channels_last,
    ).zero_()
    padded[:, :, top : top + height, left : left + width] = x
    kernels = weights.contiguous(memory_format=torch.channels_last)
    # oneDNN may pick Winograd, which is not exact on integers; there is no such kernel for dilated or strided or tiny
    # cases, and the test of this module compares every shape with int64 sums.
    return F.conv2d(padded, kernels, None, window.stride, 0, window.dilation, linear.groups)


def max_pool(x: NDArray[Any], window: Window) -> NDArray[Any]:
    """Max pooling of integers ``(N, C, H, W)``; padding never wins."""
    top, left, bottom, right = window.padding
    padded = x
    if any(window.padding):
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=np.iinfo(x.dtype).min)
    (height, width), (sy, sx), (dy, dx) = window.output(*x.shape[2:]), window.stride, window.dilation
    taps = (
        padded[:, :, i * dy : i * dy + (height - 1) * sy + 1 : sy, j * dx : j * dx + (width - 1) * sx + 1 : sx]
        for i in range(window.kernel[0])
        for j in range(window.kernel[1])
    )
    return reduce(np.maximum, taps)

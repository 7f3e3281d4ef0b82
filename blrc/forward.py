"""Exact integer pre-activations of a net, with torch as nothing but a fast convolution.

A float32 convolution of integers is exact while every partial sum stays below 2^24 in magnitude; the bound is
asserted, and float64 is used where it does not hold. So the sums do not depend on threads, batch order or machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from blrc.net import Conv, Dense
from blrc.window import Window

CHUNK = 128


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
    parts: list[NDArray[Any]] = []
    for i in range(0, len(x), CHUNK):
        chunk = torch.from_numpy(np.ascontiguousarray(x[i : i + CHUNK])).to(dtype)
        parts.append(_linear(linear, weights, chunk).numpy().astype(np.int32))
    return np.concatenate(parts)


def _linear(linear: Conv | Dense, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if isinstance(linear, Dense):
        return F.linear(x, weights)
    window = linear.window
    top, left, bottom, right = window.padding
    padded = F.pad(x, (left, right, top, bottom)).contiguous(memory_format=torch.channels_last)
    kernels = weights.contiguous(memory_format=torch.channels_last)
    # oneDNN may pick Winograd, which is not exact on integers; there is no such kernel for dilated or strided or tiny
    # cases, and the test of this module compares every shape with int64 sums.
    return F.conv2d(padded, kernels, None, window.stride, 0, window.dilation, linear.groups)


def max_pool(x: NDArray[Any], window: Window) -> NDArray[Any]:
    """Max pooling of ``(N, C, H, W)``; padding never wins."""
    top, left, bottom, right = window.padding
    tensor = torch.from_numpy(np.ascontiguousarray(x)).to(torch.float32)
    padded = F.pad(tensor, (left, right, top, bottom), value=float("-inf"))
    pooled = F.max_pool2d(padded, window.kernel, window.stride, 0, window.dilation)
    return pooled.numpy().astype(x.dtype)

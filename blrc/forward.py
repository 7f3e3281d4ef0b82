"""Exact integer pre-activations of a net, with torch as nothing but a fast convolution.

A float32 convolution of integers is exact while every partial sum stays below 2^24 in magnitude, in whatever order it
is summed; float64 is used where that bound does not hold. It is not exact by transforms (Winograd, FFT) or in bfloat16,
which some builds and settings of torch choose by themselves. So those are switched off where torch has a switch, and
every result is checked: summed over output channels it must equal one float64 convolution with the summed weights. If
it does not, all is computed in float64, which has no such shortcuts. So z does not depend on threads, batches, build or
machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.backends import nnpack
from torch.nn import functional as F

from blrc.net import Conv, Dense
from blrc.window import Window

CHUNK = 16  # samples at once: small enough for caches, and no large buffer is allocated again and again


class _Nnpack:
    """How many threads want NNPACK off, and whether it was on before the first of them."""

    lock = Lock()
    users = 0
    before = False


@contextmanager
def without_nnpack() -> Iterator[None]:
    """Switch NNPACK, whose Winograd convolutions are not exact, off for the whole process, until all users are done.

    torch's own switch belongs to the process: of two threads the first to leave would switch it on for the other.
    """
    with _Nnpack.lock:
        if _Nnpack.users == 0:
            (_Nnpack.before,) = nnpack.set_flags(False)  # type: ignore[no-untyped-call, unused-ignore]
        _Nnpack.users += 1
    try:
        yield
    finally:
        with _Nnpack.lock:
            _Nnpack.users -= 1
            if _Nnpack.users == 0:
                nnpack.set_flags(_Nnpack.before)  # type: ignore[no-untyped-call, unused-ignore]


def preactivation(linear: Conv | Dense, x: NDArray[np.int8], peak: int) -> NDArray[np.int16] | NDArray[np.int32]:
    """z of a batch, without bias.

    Args:
        x: int8 codes or +-1, ``(N, C, H, W)`` or ``(N, C)``.
        peak: bound on the magnitude of x.

    Returns:
        ``(N, out, H', W')`` or ``(N, out)``: int16 where every z and its neighbours fit, else int32 (half the
        bytes: writing to memory that is new to the process costs as much as the convolution).
    """
    fan_in = int(np.prod(linear.weights.shape[1:]))
    weights = torch.from_numpy(linear.weights).double()
    single = weights.float() if fan_in * peak < 2**24 else None
    summed = weights.reshape(_groups(linear), -1, *weights.shape[1:]).sum(1)
    z = _empty(len(x), _output_shape(linear, x), np.int16 if fan_in * peak + 1 < 2**15 else np.int32)
    with torch.no_grad(), torch.autocast("cpu", enabled=False), without_nnpack():
        for i in range(0, len(x), CHUNK):
            chunk = torch.from_numpy(np.ascontiguousarray(x[i : i + CHUNK]) if x.ndim == 2 else x[i : i + CHUNK])
            out = torch.from_numpy(z[i : i + CHUNK])
            expected = _linear(linear, summed, chunk)
            if single is not None and _fill(out, _linear(linear, single, chunk), expected):
                continue
            if not _fill(out, _linear(linear, weights, chunk), expected):
                raise RuntimeError(f"layer {linear.name!r}: torch's float64 arithmetic is not exact on this machine")
    return z


def _fill(out: torch.Tensor, z: torch.Tensor, expected: torch.Tensor) -> bool:
    """Write z as integers; whether their sums over the channels of each group are the expected ones."""
    out.copy_(z)
    grouped = out.reshape(len(out), expected.shape[1], -1, *out.shape[2:])
    total = grouped.sum(2, dtype=torch.int64)
    return bool((total == expected.to(torch.int64)).all())


def _groups(linear: Conv | Dense) -> int:
    return linear.groups if isinstance(linear, Conv) else 1


def _empty(count: int, shape: tuple[int, ...], dtype: type[Any]) -> NDArray[Any]:
    """``(count, *shape)`` with channels last in memory, as the convolution writes it: a copy between the two orders
    costs more than the convolution."""
    channels, *size = shape
    return np.moveaxis(np.empty((count, *size, channels), dtype=dtype), -1, 1)


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
        device="cpu",  # whatever torch's default is
    ).zero_()
    padded[:, :, top : top + height, left : left + width] = x
    kernels = weights.contiguous(memory_format=torch.channels_last)
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

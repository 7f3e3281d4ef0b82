"""Compute exact integer pre-activations by torch, which serves as nothing but a fast convolution.

A float32 convolution of integers is exact while every partial sum stays below 2^24 in magnitude, in whatever order it
is summed; float64 is used where that bound does not hold. It is not exact by transforms (Winograd, FFT) or in bfloat16,
which some builds and settings of torch choose by themselves. So those are switched off where torch has a switch, and
every result is checked: summed over output channels it must equal one float64 convolution with the summed weights. If
it does not, everything is computed in float64, which has no such shortcuts. So z does not depend on threads, batches,
build or machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.backends import nnpack
from torch.nn import functional as F

from blrc.net.net import Conv, Dense, reach

CHUNK = 16  # samples at once: small enough for caches, and no large buffer is allocated again and again
SMALL = 2**17  # values of a map that are few: more samples at once where maps are small
MOST_AT_ONCE = 2**23  # values of a map: fewer samples at once where maps are large


class _Nnpack:
    """Count the threads that want NNPACK off, and remember whether it was on before the first of them."""

    lock = Lock()
    users = 0
    before = False


@contextmanager
def without_nnpack() -> Iterator[None]:
    """Switch off NNPACK, whose Winograd convolutions are not exact, for the whole process until all users are done.

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


def fill(linear: Conv | Dense, x: NDArray[np.int8], peak: int, z: NDArray[Any]) -> None:
    """Write the sums of a batch into `z`, which has their shape, with channels last in memory.

    Args:
        x: int8 codes or +-1, ``(N, C, H, W)`` or ``(N, C)``.
        peak: bound on the magnitude of x.
    """
    weights = torch.from_numpy(linear.weights).double()
    single = weights.float() if reach(linear) * peak < 2**24 else None
    summed = weights.reshape(_groups(linear), -1, *weights.shape[1:]).sum(1)
    values = max(1, z[:1].size, x[:1].size)
    step = max(1, min(max(CHUNK, SMALL // values), MOST_AT_ONCE // values))
    with torch.no_grad(), torch.autocast("cpu", enabled=False), without_nnpack():
        for i in range(0, len(x), step):
            chunk = torch.from_numpy(np.ascontiguousarray(x[i : i + step]) if x.ndim == 2 else x[i : i + step])
            out = torch.from_numpy(z[i : i + step])
            expected = _linear(linear, summed, chunk)
            if single is not None and _fill(out, _linear(linear, single, chunk), expected):
                continue
            if not _fill(out, _linear(linear, weights, chunk), expected):
                raise RuntimeError(f"layer {linear.name!r}: torch's float64 arithmetic is not exact on this machine")


def _fill(out: torch.Tensor, z: torch.Tensor, expected: torch.Tensor) -> bool:
    """Write z as integers, and return whether their sums over the channels of each group are as expected."""
    out.copy_(z)
    grouped = out.reshape(len(out), expected.shape[1], -1, *out.shape[2:])
    total = grouped.sum(2, dtype=torch.int64)
    return bool((total == expected.to(torch.int64)).all())


def _groups(linear: Conv | Dense) -> int:
    return linear.groups if isinstance(linear, Conv) else 1


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

"""Compute exact integer pre-activations of a net, and max pooling: by torch where it is loaded, else by NumPy.

Both give the same integers (`blrc.lowering.exact`), so the choice only affects time.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.lowering.exact import by_numpy
from blrc.net.net import Conv, Dense, reach
from blrc.net.window import Window

PAYS = 5e10  # multiply-adds that take NumPy longer than it takes to load torch and let it do them
PADDED = 2**24  # values of a padded map, up to which torch is given one: it stores padding, and NumPy does not


def prepare(multiply_adds: float) -> None:
    """Load torch for this many multiply-adds, if it is installed and saves more time than loading it takes."""
    if multiply_adds >= PAYS and find_spec("torch") is not None:
        try:
            import torch  # noqa: F401
        except (ImportError, OSError):  # installed, and damaged: NumPy does it
            return


def uses_torch(linear: Conv | Dense, x: NDArray[np.int8]) -> bool:
    """Decide whether torch computes a layer: it has to be loaded, and the padded map must not be too large.

    torch stores the padding, which NumPy does not.
    """
    if sys.modules.get("torch") is None:
        return False
    if isinstance(linear, Dense):
        return True
    top, left, bottom, right = linear.window.padding
    return bool(x.shape[1] * (x.shape[2] + top + bottom) * (x.shape[3] + left + right) <= PADDED)


def preactivation(linear: Conv | Dense, x: NDArray[np.int8], peak: int) -> NDArray[np.int16] | NDArray[np.int32]:
    """Return z of a batch, without bias.

    Args:
        x: int8 codes or +-1, ``(N, C, H, W)`` or ``(N, C)``.
        peak: bound on the magnitude of x.

    Returns:
        ``(N, out, H', W')`` or ``(N, out)``: int16 where every z and its neighbours fit, else int32. int16 takes half
            the bytes, and writing to memory that is new to the process costs as much as the convolution.
    """
    z = _empty(len(x), _output_shape(linear, x), np.int16 if reach(linear) * peak + 1 < 2**15 else np.int32)
    if uses_torch(linear, x):
        from blrc.lowering.exact import by_torch

        by_torch.fill(linear, x, peak, z)
    else:
        by_numpy.fill(linear, x, peak, z)
    return z


def max_pool(x: NDArray[Any], window: Window) -> NDArray[Any]:
    """Pool integers ``(N, C, H, W)`` by their maximum; padding never wins.

    The largest value of a window is the largest of its rows' largest values, so each axis is pooled by itself.
    """
    return _pooled(x, window, np.maximum, np.iinfo(x.dtype).min)


def sum_pool(x: NDArray[Any], window: Window) -> NDArray[np.uint8]:
    """Add up the codes of a map ``(N, C, H, W)``, uint8, or count the +1 of one of +-1, int8; padding adds nothing."""
    return _pooled((x > 0).astype(np.uint8) if x.dtype == np.int8 else x, window, np.add, 0)


def _pooled(x: NDArray[Any], window: Window, combine: np.ufunc, start: int) -> NDArray[Any]:
    """Combine the values of each window, by rows and by columns."""
    for axis in (0, 1):
        x = _combined(x, window, axis, window.output(*x.shape[2:])[axis], combine, start)
    return x


def _combined(x: NDArray[Any], window: Window, axis: int, outputs: int, combine: np.ufunc, start: int) -> NDArray[Any]:
    """Combine along rows (axis 0) or columns (axis 1); padding is never stored."""
    lines = np.moveaxis(x, 2 + axis, 0)
    found = np.full((outputs, *lines.shape[1:]), start, x.dtype)
    step = window.stride[axis]
    for tap in by_numpy.taps(window, axis, len(lines), outputs):
        part = lines[tap.start : tap.start + (tap.end - tap.first - 1) * step + 1 : step]
        combine(found[tap.first : tap.end], part, out=found[tap.first : tap.end])
    return np.moveaxis(found, 0, 2 + axis)


def _empty(count: int, shape: tuple[int, ...], dtype: type[Any]) -> NDArray[Any]:
    """Return an empty array ``(count, *shape)`` with channels last in memory, as the convolution writes it.

    A copy between the two orders would cost more than the convolution.
    """
    channels, *size = shape
    return np.moveaxis(np.empty((count, *size, channels), dtype=dtype), -1, 1)


def _output_shape(linear: Conv | Dense, x: NDArray[np.int8]) -> tuple[int, ...]:
    if isinstance(linear, Dense):
        return (len(linear.weights),)
    return (len(linear.weights), *linear.window.output(*x.shape[2:]))

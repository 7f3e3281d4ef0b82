"""Compute exact integer pre-activations by NumPy alone: gather taps into rows, and multiply them by BLAS in float32.

A float32 product of integer matrices is exact while every partial sum stays below 2^24 in magnitude, in whatever order
it is summed; float64 is used where that bound does not hold. The first block of a batch and every `CHECK`-th one is
compared with a float64 product by the weights summed over output channels. If a BLAS library turns out to round
otherwise, everything is computed in float64, and if that does not hold either, in integers.

Padding is never stored: a tap is gathered where it lies inside the map. So memory does not depend on padding, strides
or dilation, only on the map and the layer's outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.net import Conv, Dense, reach
from blrc.net.window import Window

BLOCK = 2**21  # gathered values at once: 8 MB, about what the caches of a core and its neighbours hold
CHECK = 16


@dataclass(frozen=True)
class Tap:
    """Describe a kernel position along one axis, and the outputs for which it lies inside the map: `first` up to `end`.

    Attributes:
        index: number of the position in the kernel.
        first: first of these outputs.
        end: the output behind the last of them.
        start: input pixel of output `first`.
    """

    index: int
    first: int
    end: int
    start: int


def taps(window: Window, axis: int, size: int, outputs: int) -> list[Tap]:
    """Return the kernel positions along an axis that lie inside a map of length `size` for at least one output."""
    step, apart, before = window.stride[axis], window.dilation[axis], window.padding[axis]
    found = []
    for index in range(window.kernel[axis]):
        offset = index * apart - before  # input pixel of output 0
        first = max(0, -(offset // step))
        end = min(outputs, (size - 1 - offset) // step + 1)
        if first < end:
            found.append(Tap(index, first, end, offset + first * step))
    return found


def fill(linear: Conv | Dense, x: NDArray[np.int8], peak: int, z: NDArray[Any]) -> None:
    """Write the sums of a batch into `z`, which has their shape, with channels last in memory.

    Args:
        x: int8 codes or +-1, ``(N, C, H, W)`` or ``(N, C)``.
        peak: bound on the magnitude of x.
    """
    types: list[type[Any]] = [np.float32, np.float64, np.int64]
    for dtype in types if reach(linear) * peak < 2**24 else types[1:]:
        if _fill(linear, x, z, np.dtype(dtype)):
            return
    raise AssertionError("products of integers are exact")


def _fill(linear: Conv | Dense, x: NDArray[np.int8], z: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Write the sums as computed in `dtype`, and return whether all checked blocks are exact."""
    layer = _Layer.of(linear, x.shape[2:], z.shape[2:], dtype)
    maps = x[:, :, None, None] if x.ndim == 2 else x
    sums = np.moveaxis(z[:, :, None, None] if z.ndim == 2 else z, 1, -1)
    for number, (samples, rows) in enumerate(layer.blocks(len(x))):
        source = np.moveaxis(maps[samples], 1, -1)
        block, expected = layer.product(source, rows, number % CHECK == 0 and dtype.kind == "f")
        if expected is not None and not np.array_equal(block.sum(-1, dtype=np.float64), expected):
            return False
        # Groups come first in the block, and stand beside their channels in the map.
        sums[samples, rows] = np.moveaxis(block, 0, 3).reshape(*block.shape[1:4], -1)
    return True


@dataclass(frozen=True, eq=False)
class _Layer:
    """Hold a layer made ready: its weights ``(groups, taps, in, out)``, in and out of a group, and where its taps lie.

    Attributes:
        summed: the weights summed over outputs, float64 ``(groups, taps, in, 1)``.
        places: each tap that lies inside the map for some output, as (vertical, horizontal).
    """

    weights: NDArray[Any]
    summed: NDArray[np.float64]
    places: list[tuple[Tap, Tap]]
    stride: tuple[int, int]
    height: int
    width: int

    @staticmethod
    def of(linear: Conv | Dense, size: tuple[int, ...], outputs: tuple[int, ...], dtype: np.dtype[Any]) -> _Layer:
        """Prepare a layer for maps of height and width `size` that give outputs of height and width `outputs`."""
        if isinstance(linear, Dense):
            window, groups, weights = Window((1, 1)), 1, linear.weights[:, :, None, None]
        else:
            window, groups, weights = linear.window, linear.groups, linear.weights
        (height, width), (rows, columns) = size or (1, 1), outputs or (1, 1)
        places = [(y, x) for y in taps(window, 0, height, rows) for x in taps(window, 1, width, columns)]
        ups, lefts = [y.index for y, _ in places], [x.index for _, x in places]
        used = weights.reshape(groups, -1, *weights.shape[1:])[:, :, :, ups, lefts]  # groups, out, in, taps
        table = np.ascontiguousarray(used.transpose(0, 3, 2, 1), dtype)
        return _Layer(table, table.sum(-1, keepdims=True, dtype=np.float64), places, window.stride, rows, columns)

    def blocks(self, count: int) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of samples and output rows whose inputs are gathered at once."""
        groups, taps_used, inputs, outputs = self.weights.shape
        row = self.width * groups * max(taps_used * inputs, outputs)
        rows = max(1, min(self.height, BLOCK // row))
        samples = max(1, BLOCK // (row * self.height)) if rows == self.height else 1
        for i in range(0, count, samples):
            for y in range(0, self.height, rows):
                yield slice(i, min(count, i + samples)), slice(y, min(self.height, y + rows))

    def product(
        self, source: NDArray[np.int8], rows: slice, checked: bool
    ) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Return sums ``(groups, n, rows, width, out of a group)``, and what they must add up to over the last axis.

        The second array is None unless the block is `checked`.
        """
        groups, taps_used, inputs, outputs = self.weights.shape
        shape = (groups, len(source), rows.stop - rows.start, self.width)
        total = np.zeros((*shape, outputs), self.weights.dtype)
        expected = np.zeros(shape, np.float64) if checked else None
        positions = len(source) * shape[2] * self.width
        step = max(1, BLOCK // (positions * groups * inputs))
        for t in range(0, taps_used, step):
            gathered = self._gather(source, rows, self.places[t : t + step])
            matrix = gathered.reshape(groups, positions, -1)
            part = np.matmul(matrix, self.weights[:, t : t + step].reshape(groups, -1, outputs))
            total = part.reshape(total.shape) if step >= taps_used else total + part.reshape(total.shape)
            if expected is not None:
                sums = np.matmul(matrix.astype(np.float64), self.summed[:, t : t + step].reshape(groups, -1, 1))
                expected = expected + sums.reshape(shape)
        return total, expected

    def _gather(self, source: NDArray[np.int8], rows: slice, places: list[tuple[Tap, Tap]]) -> NDArray[Any]:
        """Return the inputs at some taps, ``(groups, n, rows, width, taps, in of a group)``; 0 outside the map."""
        groups, _, inputs, _ = self.weights.shape
        count = rows.stop - rows.start
        found = np.zeros((groups, len(source), count, self.width, len(places), inputs), self.weights.dtype)
        split = source.reshape(*source.shape[:3], groups, inputs)
        for number, (y, x) in enumerate(places):
            first, end = max(y.first, rows.start), min(y.end, rows.stop)
            if first >= end:
                continue
            top = y.start + (first - y.first) * self.stride[0]
            part = split[
                :,
                top : top + (end - first - 1) * self.stride[0] + 1 : self.stride[0],
                x.start : x.start + (x.end - x.first - 1) * self.stride[1] + 1 : self.stride[1],
            ]
            found[:, :, first - rows.start : end - rows.start, x.first : x.end, number] = np.moveaxis(part, 3, 0)
        return found

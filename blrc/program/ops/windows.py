"""Check windows that slide over maps, and take them: what convolutions and pools have in common."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.window import LIMIT, Window, sliding
from blrc.program.ops.op import INT32_MAX, MOST_VALUES, BaseOp, Shape


def check_window(op: BaseOp, window: Window) -> None:
    """Refuse a window whose numbers are out of range or that reaches too far around the op's input."""
    positive = min(*window.kernel, *window.stride, *window.dilation) >= 1 and min(window.padding) >= 0
    small = max(*window.kernel, *window.stride, *window.dilation, *window.padding) <= LIMIT
    op.require(positive and small, f"bad window {window}: numbers go up to {LIMIT}")
    top, left, bottom, right = window.padding
    height, width, channels = op.x.shape
    reach = (height + top + bottom + window.span[0]) * (width + left + right + window.span[1]) * channels
    op.require(reach + max(window.stride) < INT32_MAX, f"{window} reaches too far around its map for int32")
    too_many = f"its map has over {MOST_VALUES:,} values with the padding of {window}"
    op.require(padded_values(op, window) <= MOST_VALUES, too_many)


def check_pool(op: BaseOp, window: Window, x: Shape, y: Shape) -> None:
    """Refuse a pooling window that does not turn a map of shape `x` into one of shape `y`."""
    check_window(op, window)
    top, left, bottom, right = window.padding
    fits = max(top, bottom) < window.span[0] and max(left, right) < window.span[1]
    op.require(fits, "a pooling window may not lie wholly in the padding")
    expected = (*window.output(x[0], x[1]), x[2])
    op.require(y == expected, f"pooled shape {y}, expected {expected}")


def padded_values(op: BaseOp, window: Window) -> int:
    """Return how many values the op's input has with the window's padding."""
    top, left, bottom, right = window.padding
    height, width, channels = op.x.shape
    return prod((height + top + bottom, width + left + right, channels))


def pooled(maps: NDArray[Any], window: Window) -> NDArray[Any]:
    """Return the OR of the bits in each window, or the maximum of the codes."""
    seen = windows(maps, window, fill=0)
    return np.asarray(seen.any(axis=(-2, -1)) if maps.dtype == np.bool_ else seen.max(axis=(-2, -1)))


def windows(maps: NDArray[Any], window: Window, fill: float) -> NDArray[Any]:
    """Return the sliding windows of ``(N, H, W, C)`` maps: a view ``(N, out h, out w, C, kernel h, kernel w)``."""
    top, left, bottom, right = window.padding
    padded = np.pad(maps, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    view = sliding(padded, window.span, (1, 2))
    (sy, sx), (dy, dx) = window.stride, window.dilation
    found: NDArray[Any] = view[:, ::sy, ::sx, :, ::dy, ::dx]
    return found

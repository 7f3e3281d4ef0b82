"""Layers one behind the other, with any geometry: what the farm's networks are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn

from blrc import nn as bnn

MOST_WORK = 3_000_000  # multiply-adds of a layer
MOST_MAP = 60_000  # bytes of a map before pooling
MOST_INPUTS = 40_000  # of a dense layer behind maps
Shape = tuple[int, int, int]  # channels, height, width, as in torch
Draw = np.random.Generator


class Chain:
    """A network, layer by layer: binary layers of one of two families, with or without norms.

    Attributes:
        shape: of what the last layer gives.
        leveled: whether layers give codes of several thresholds, each of other bits, besides signs.
    """

    leveled = False

    def __init__(self, rng: Draw, shape: Shape, plain: bool = False) -> None:
        self.rng, self.shape, self.plain = rng, shape, plain
        self.layers: list[nn.Module] = []
        self.flat = False

    def conv(
        self,
        out: int,
        kernel: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, ...] | str = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        pool: tuple[Any, ...] | None = None,
    ) -> bool:
        """A convolution [norm] [max pool] sign, unless it is too much work to look at."""
        channels, height, width = self.shape
        sides: Any = (0, 0) if padding == "valid" else padding
        size = [
            n
            if isinstance(sides, str)
            else (n + both_sides(sides, axis) - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1
            for axis, n in enumerate((height, width))
        ]
        pixels = max(size[0], 1) * max(size[1], 1)
        if pixels * -(-out // 32) * 4 > MOST_MAP:
            return False
        if pixels * kernel[0] * kernel[1] * channels // groups * out > MOST_WORK:
            return False
        kind = bnn.SteConv2d if self.plain else bnn.BinaryConv2d
        bias = bool(self.rng.random() < 0.3)
        self.layers.append(kind(channels, out, kernel, stride, padding, dilation, groups, bias=bias))
        if self.rng.random() < 0.8:
            self.layers.append((nn.BatchNorm2d if self.plain else bnn.StochasticBatchNorm2d)(out))
        if pool is not None:
            self.layers.append((bnn.MaxPool2d if self.plain else bnn.StochasticMaxPool2d)(*pool))
            size = _pooled(size, pool)
        self.layers.append(self._sign())
        self.shape = (out, *size)  # type: ignore[assignment]
        return True

    def pool(self, *pool: Any) -> None:
        """Max pooling of bits, a step of its own unless a convolution takes it in."""
        self.layers.append(bnn.MaxPool2d(*pool))
        self.shape = (self.shape[0], *_pooled(self.shape[1:], pool))  # type: ignore[assignment]

    def average(self) -> None:
        """Average pooling of a window whose sums fit, or now and then of one whose sums may not."""
        last = self.layers[-1]
        most = 2**last.bits - 1 if isinstance(last, bnn.SteLevels) else 1
        sides = [int(self.rng.integers(1, max(2, n + 1))) for n in self.shape[1:]]
        while sides[0] * sides[1] * most > 255 and self.rng.random() < 0.98 and max(sides) > 1:
            sides[int(np.argmax(sides))] -= 1
        strides = tuple(int(self.rng.integers(1, side + 2)) for side in sides)
        self.layers.append(nn.AvgPool2d(tuple(sides), strides))
        size = _pooled(self.shape[1:], (tuple(sides), strides, (0, 0)))
        self.shape = (self.shape[0], *size)  # type: ignore[assignment]

    def dense(self, out: int, norm: bool | None = None) -> None:
        inputs = self._flatten()
        bias = bool(self.rng.random() < 0.3)
        self.layers.append((bnn.SteLinear if self.plain else bnn.BinaryLinear)(inputs, out, bias=bias))
        if self.rng.random() < 0.8 if norm is None else norm:
            self.layers.append((nn.BatchNorm1d if self.plain else bnn.StochasticBatchNorm1d)(out))
        self.layers.append(self._sign())
        self.shape = (out, 1, 1)

    def finish(self, binary: bool = False) -> nn.Module:
        """The class scores: of a softmax layer, or of a binary one."""
        inputs, classes = self._flatten(), int(self.rng.integers(2, 12))
        if binary:
            self.layers.append((bnn.SteLinear if self.plain else bnn.BinaryLinear)(inputs, classes))
            if self.rng.random() < 0.5:
                self.layers.append((nn.BatchNorm1d if self.plain else bnn.StochasticBatchNorm1d)(classes))
        else:
            self.layers.append(bnn.SoftmaxLinear(inputs, classes))
        return nn.Sequential(*self.layers)

    @property
    def fits(self) -> bool:
        """Whether there is a map, or vector, that a dense layer could read here."""
        return min(self.shape) >= 1 and self.shape[0] * self.shape[1] * self.shape[2] <= MOST_INPUTS

    def _sign(self) -> nn.Module:
        if self.leveled and self.rng.random() < 0.85:
            return bnn.SteLevels(int(self.rng.integers(1, 9)), float(self.rng.choice([0.05, 0.3, 1.0, 40.0])))
        return bnn.SteSign() if self.plain else bnn.StochasticSign()

    def _flatten(self) -> int:
        if not self.flat:
            self.layers.append(nn.Flatten())
            self.flat = True
        return max(1, self.shape[0] * self.shape[1] * self.shape[2])


def _pooled(size: Any, pool: tuple[Any, ...]) -> list[int]:
    kernel, stride, padding = (*pool, None, (0, 0))[:3] if len(pool) < 3 else pool
    stride = kernel if stride is None else stride
    return [(n + both_sides(padding, axis) - kernel[axis]) // stride[axis] + 1 for axis, n in enumerate(size)]


def both_sides(padding: tuple[int, ...], axis: int) -> int:
    """Padding on both sides together: of a pair, or of top, left, bottom, right."""
    return padding[axis] + padding[axis - 2]


def parted(rng: Draw, padding: tuple[int, int]) -> tuple[int, ...]:
    """Padding of the same sums whose sides differ."""
    top, left = (int(rng.integers(0, 2 * n + 1)) for n in padding)
    return top, left, 2 * padding[0] - top, 2 * padding[1] - left


def extreme(rng: Draw, kernel: int) -> tuple[int, int, int]:
    """Stride, padding and dilation along one axis: mostly small, sometimes larger than the kernel."""
    stride = int(rng.integers(1, kernel + 4)) if rng.random() < 0.4 else 1
    padding = int(rng.integers(0, 2 * kernel + 1)) if rng.random() < 0.7 else 0
    dilation = int(rng.integers(1, kernel + 3)) if rng.random() < 0.3 else 1
    return stride, padding, dilation


def random_pool(rng: Draw, size: tuple[int, int]) -> tuple[Any, ...] | None:
    """A pool that fits what is left, mostly."""
    choice = rng.random()
    if choice < 0.45:
        return None
    if choice < 0.6:
        return ((2, 2),)
    kernel = tuple(int(rng.integers(1, 5)) for _ in range(2))
    if rng.random() < 0.93:  # else it may be larger than the map
        kernel = tuple(max(1, min(k, n)) for k, n in zip(kernel, size, strict=True))
    stride = tuple(int(rng.integers(1, k + 3)) for k in kernel)
    sides = tuple(int(rng.integers(0, k)) for k in (*kernel, *kernel))
    if rng.random() < 0.3 and sides[:2] != sides[2:]:
        return kernel, stride, sides
    return kernel, stride, tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)


def random_conv(chain: Chain, rng: Draw, most: int = 6) -> None:
    """A convolution of any geometry on what there is."""
    channels, height, width = chain.shape
    for _ in range(20):
        kernel = [int(rng.integers(1, most)) for _ in range(2)]
        if rng.random() < 0.15:  # larger than the map
            axis = int(rng.integers(0, 2))
            kernel[axis] = (height, width)[axis] + int(rng.integers(0, 3))
        (sy, py, dy), (sx, px, dx) = (extreme(rng, k) for k in kernel)
        if rng.random() < 0.9:  # else it may not fit
            py, px = (
                max(p, -(-(d * (k - 1) + 1 - n) // 2))
                for p, d, k, n in zip((py, px), (dy, dx), kernel, (height, width), strict=True)
            )
            if py > 2 * kernel[0] or px > 2 * kernel[1]:
                dy, dx = 1, 1
                py, px = kernel[0] // 2, kernel[1] // 2
        groups = int(rng.choice([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0]))
        out = (
            int(rng.choice([1, 2, 5, 8, 31, 32, 33, 64, 65, 100])) if groups == 1 else groups * int(rng.integers(1, 5))
        )
        if rng.random() < 0.04 and groups == 1:
            out = 1000
        padding: tuple[int, ...] | str = (py, px)
        if (sy, sx) == (1, 1) and rng.random() < 0.2:
            padding = "same"
        elif rng.random() < 0.3:
            padding = parted(rng, (py, px))
        size = (
            max(1, (height + 2 * py - dy * (kernel[0] - 1) - 1) // sy + 1),
            max(1, (width + 2 * px - dx * (kernel[1] - 1) - 1) // sx + 1),
        )
        pool = random_pool(rng, (height, width) if padding == "same" else size)
        if chain.conv(out, (kernel[0], kernel[1]), (sy, sx), padding, (dy, dx), groups, pool):
            return

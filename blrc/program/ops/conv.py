"""Define the op that convolves, and compares its sums with one threshold a channel or several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.net import LARGEST_WEIGHT
from blrc.net.window import Window
from blrc.program.ops.op import (
    INT32_MAX,
    MOST_VALUES,
    Context,
    Shape,
    Table,
    Value,
    WeightedOp,
    numbers_of,
    sum_magnitudes,
)
from blrc.program.ops.windows import check_pool, check_window, padded_values, pooled, windows

BLOCK = 1 << 24  # taps that are multiplied at a time: 64 MiB of float32

MOST_PRODUCTS = 1 << 38
"""Multiply-adds of the longest op: 400 times those of the longest one in the CIFAR-10 network at full width."""


@dataclass(frozen=True)
class Conv(WeightedOp):
    """Convolve with binary, ternary or 8-bit weights, apply thresholds and (optionally) max pooling in one op.

    z = sum of +-x and y = (z >= threshold[channel]), then OR over the pool. The unpooled map is never stored.
    Constants: `weights`, uint32 (out, kernel h, kernel w, words(in / groups)), where bit 1 = +1 and rows are already
    negated where gamma < 0; `thresholds`, int32 (out,).

    Where y is codes of k bits, a channel has 2^k - 1 thresholds, in order: int32 (out, 2^k - 1). A code is the number
    of those that z reaches, and codes are pooled by their maximum.

    Where `ternary`, weights are -1, 0 or +1: uint32 (out, kernel h, kernel w, 2, words(in / groups)). Bits of the first
    row are 1 for +1, and bits of the second one for what is not 0.

    Where `whole`, weights are whole numbers: int8 (out, kernel h, kernel w, in / groups), from -127 to 127, so that the
    opposite of a weight is one.
    """

    thresholds: str
    window: Window
    groups: int = 1
    pool: Window | None = None
    ternary: bool = False
    whole: bool = False

    kind = "conv"
    title = "conv"

    def tables(self) -> tuple[Table, ...]:
        outputs = self.y.shape[2]
        limits = (outputs, self.y.element.high) if self.y.is_codes else (outputs,)
        numbers = Table(self.weights, ("int8",), (outputs, *self.window.kernel, self.group_channels))
        weights = numbers if self.whole else self.packed_table(outputs, *self.window.kernel)
        return weights, Table(self.thresholds, ("int32",), limits)

    @property
    def packed(self) -> int:
        return 0 if self.whole else self.group_channels

    @property
    def has_zeros(self) -> bool:
        return self.ternary

    @property
    def group_channels(self) -> int:
        """Return the number of input channels that one output channel sees."""
        return self.x.shape[2] // self.groups

    @property
    def fan_in(self) -> int:
        """Return n of a pixel with all taps inside the map: taps x channels of a group."""
        return self.window.taps * self.group_channels

    @property
    def unpooled(self) -> Shape:
        """Return the shape of the map of pre-activations z."""
        return (*self.window.output(self.x.shape[0], self.x.shape[1]), self.y.shape[2])

    @property
    def is_dense(self) -> bool:
        return self.window.kernel == self.x.shape[:2] and self.unpooled[:2] == (1, 1)

    @property
    def macs(self) -> int:
        """Return the multiply-adds of one inference; taps outside the map are not computed, so they do not count."""
        return self.window.taps_inside(*self.x.shape[:2]) * self.group_channels * self.y.shape[2]

    @property
    def largest_map(self) -> int:
        return max(super().largest_map, padded_values(self, self.window), prod(self.unpooled))

    def bounds(self, program: Context) -> tuple[int, int]:
        """Return the smallest and the largest pre-activation that can occur, over all members and positions."""
        most = self.fan_in
        if self.whole:
            most = max(int(sum_magnitudes(table).max()) for table in program.constants[self.weights].tables)
        largest = most * program.peak(self.x)
        return -largest, largest

    def check(self) -> None:
        height, width, channels = self.x.shape
        takes = self.x.dtype in ("bits", "int8") or self.x.is_codes
        gives = self.y.dtype == "bits" or self.y.is_codes
        self.require(takes and gives, "takes bits, int8 or codes and gives bits or codes")
        self.require(not (self.ternary and self.whole), "its weights are ternary and whole numbers at once")
        divisible = self.groups >= 1 and channels % self.groups == 0 and self.y.shape[2] % self.groups == 0
        self.require(divisible, "channels not divisible by groups")
        check_window(self, self.window)
        unpooled = self.unpooled
        self.require(min(unpooled) >= 1, f"kernel {self.window.kernel} does not fit a map of {height} x {width}")
        self.require(prod(unpooled) <= MOST_VALUES, f"a map {unpooled} has over {MOST_VALUES:,} values")
        few = prod(unpooled) * self.fan_in <= MOST_PRODUCTS
        self.require(few, f"takes more than {MOST_PRODUCTS:,} multiply-adds")
        if self.pool is None:
            self.require(unpooled == self.y.shape, f"output shape {self.y.shape}, expected {unpooled}")
        else:
            check_pool(self, self.pool, unpooled, self.y.shape)

    def check_tables(self, program: Context) -> None:
        super().check_tables(program)
        for table in program.constants[self.weights].tables:
            self.require(not self.whole or int(table.min()) >= -LARGEST_WEIGHT, "a weight is -128; -127 is the least")
        low, high = self.bounds(program)
        self.require(2 * high < INT32_MAX, f"sums up to {high} do not fit int32")
        for table in program.constants[self.thresholds].tables:
            inside = bool(np.all((table >= low) & (table <= high + 1)))
            self.require(inside, f"a threshold lies outside [{low}, {high + 1}]")
            self.require(not self.y.is_codes or bool((np.diff(table) >= 0).all()), "a channel's thresholds decrease")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        z, thresholds = self.preactivation(program, x, member), program.constant(self.thresholds, member)
        y = _codes(z, thresholds) if self.y.is_codes else z >= thresholds
        return y if self.pool is None else pooled(y, self.pool)

    def preactivation(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[np.int32]:
        """Return z, before threshold and pooling: int32 ``(N, height, width, out)``.

        Padding is 0, neither +1 nor -1, so absent taps contribute nothing.
        """
        weights = self.numbers(program, member)
        peak = self.bounds(program)[1]
        real = np.float32 if peak < 2**24 else np.float64
        # BLAS in float32 is exact here: every partial sum is an integer of magnitude below 2**24.
        assert peak < 2 ** (24 if real is np.float32 else 53)
        taps = windows(numbers_of(self.x, x).astype(real), self.window, fill=0)
        n, height, width = taps.shape[:3]
        per_group = self.y.shape[2] // self.groups
        z = np.empty((n, height, width, self.y.shape[2]), dtype=np.int32)
        for g in range(self.groups):
            channels = slice(g * self.group_channels, (g + 1) * self.group_channels)
            out = slice(g * per_group, (g + 1) * per_group)
            rows = weights[out].transpose(0, 3, 1, 2).reshape(per_group, -1).T.astype(real)
            for part in _blocks((n, height, width), max(1, BLOCK // len(rows))):
                inputs = taps[part][:, :, :, channels]
                product = inputs.reshape(-1, len(rows)) @ rows
                z[part][..., out] = product.reshape(*inputs.shape[:3], per_group)
        return z

    def resized(self, x: Value, outputs: int) -> Conv | None:
        groups = self.groups
        if groups > 1:
            if groups != self.x.shape[2]:
                return None
            groups = x.shape[2]
            outputs = groups * (self.y.shape[2] // self.groups)
        return replace(self, x=x, y=replace(self.y, shape=(*self.y.shape[:2], outputs)), groups=groups)


def _codes(z: NDArray[np.int32], thresholds: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return how many of its channel's thresholds each sum reaches."""
    codes = np.empty(z.shape, np.uint8)
    for c, limits in enumerate(thresholds):
        codes[..., c] = np.searchsorted(limits, z[..., c], side="right")
    return codes


def _blocks(shape: tuple[int, int, int], most: int) -> Iterator[tuple[slice, slice, slice]]:
    """Yield parts of the first three axes of an array, of at most `most` positions each, that cover all of it."""
    images, height, width = shape
    steps = max(1, most // (height * width)), max(1, min(height, most // width)), min(width, most)
    for i in range(0, images, steps[0]):
        for y in range(0, height, steps[1]):
            for x in range(0, width, steps[2]):
                yield slice(i, i + steps[0]), slice(y, y + steps[1]), slice(x, x + steps[2])

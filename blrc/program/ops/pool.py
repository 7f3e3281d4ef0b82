"""Define the ops that pool maps of +-1 or of codes: by the maximum, and by the sum, which stands for the average."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from blrc.net.window import Window
from blrc.program.ops.op import BaseOp, Context, Table, Value
from blrc.program.ops.windows import check_pool, padded_values, pooled, windows


@dataclass(frozen=True)
class _Pooling(BaseOp):
    """Define what ops have that make one number of each window of a channel."""

    window: Window

    def tables(self) -> tuple[Table, ...]:
        return ()

    def resized(self, x: Value, outputs: int) -> Self:
        return replace(self, x=x, y=replace(self.y, shape=(*self.y.shape[:2], x.shape[2])))

    @property
    def largest_map(self) -> int:
        return max(super().largest_map, padded_values(self, self.window))


@dataclass(frozen=True)
class Pool(_Pooling):
    """Pool +-1 by the maximum, an OR of bits, or codes. Padding is absent (never wins)."""

    kind = "pool"
    title = "pool"

    def check(self) -> None:
        check_pool(self, self.window, self.x.shape, self.y.shape)
        pools = self.x.dtype == "bits" or self.x.is_codes
        self.require(pools and self.y.dtype == self.x.dtype, "max pooling takes bits or codes, and gives the same")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        return pooled(x, self.window)


@dataclass(frozen=True)
class SumPool(_Pooling):
    """Count the bits that are 1 under a window, or add up its codes; what lies outside the map adds nothing.

    The sums are codes themselves. An average is one of them times a number, and less another one for +-1, which whoever
    reads the sums takes into account (`blrc.net.elements.Codes`).
    """

    kind = "sum_pool"
    title = "sum"
    format = 7

    def check(self) -> None:
        check_pool(self, self.window, self.x.shape, self.y.shape)
        sums = self.x.dtype == "bits" or self.x.is_codes
        self.require(sums and self.y.is_codes, "sums take bits or codes, and give codes")
        self.require(self.window.dilation == (1, 1), "windows of sums are not dilated")
        most = self.window.taps * self.x.element.high
        self.require(most <= self.y.element.high, f"sums up to {most} do not fit {self.y.dtype}")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        return np.asarray(windows(x, self.window, fill=0).sum(axis=(-2, -1), dtype=self.y.element.value))

    def extremes(self, program: Context, member: int) -> Iterator[tuple[str, NDArray[Any]]]:
        yield "its largest sums", np.full((1, *self.x.shape), self.x.element.high, self.x.element.value)

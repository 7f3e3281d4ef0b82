"""Define the op that pools maps of +-1 or of codes by the maximum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from blrc.net.window import Window
from blrc.program.ops.op import BaseOp, Context, Table, Value
from blrc.program.ops.windows import check_pool, padded_values, pooled


@dataclass(frozen=True)
class Pool(BaseOp):
    """Pool +-1 by the maximum, an OR of bits, or codes. Padding is absent (never wins)."""

    window: Window

    kind = "pool"
    title = "pool"

    def tables(self) -> tuple[Table, ...]:
        return ()

    def check(self) -> None:
        check_pool(self, self.window, self.x.shape, self.y.shape)
        pools = self.x.dtype == "bits" or self.x.is_codes
        self.require(pools and self.y.dtype == self.x.dtype, "max pooling takes bits or codes, and gives the same")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        return pooled(x, self.window)

    def resized(self, x: Value, outputs: int) -> Pool:
        return replace(self, x=x, y=replace(self.y, shape=(*self.y.shape[:2], x.shape[2])))

    @property
    def largest_map(self) -> int:
        return max(super().largest_map, padded_values(self, self.window))

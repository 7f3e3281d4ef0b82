"""Define the op that looks codes up for raw values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.ops.op import BaseOp, Context, Table, Value


@dataclass(frozen=True)
class Encode(BaseOp):
    """Turn raw uint8 into int8 codes: y = table[channel][x]. Constant `table`: int8 (channels or 1, 256)."""

    table: str

    kind = "encode"
    title = "encode"
    random_inputs = 0

    def tables(self) -> tuple[Table, ...]:
        return (Table(self.table, ("int8",), (self.x.shape[2], 256), one_row=True),)

    def check(self) -> None:
        self.require(self.x.dtype == "uint8" and self.y.dtype == "int8", "encode takes uint8 and gives int8")
        self.require(self.x.shape == self.y.shape, "encode must keep the shape")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        table = program.constant(self.table, member)
        channel = np.arange(self.x.shape[2]) if len(table) > 1 else 0
        return np.asarray(table[channel, x])

    def resized(self, x: Value, outputs: int) -> Encode:
        return self

    def extremes(self, program: Context, member: int) -> Iterator[tuple[str, NDArray[Any]]]:
        raw = np.arange(256, dtype=np.uint8)[:, None, None, None]
        yield "every raw value", np.broadcast_to(raw, (256, *self.x.shape))

    def peak(self, program: Context) -> int:
        return max(int(np.abs(table.astype(np.int64)).max()) for table in program.constants[self.table].tables)

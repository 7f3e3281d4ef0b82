"""Define the op that turns raw values into bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.ops.op import BaseOp, Context, Table, Value

ALWAYS, NEVER = 0, 256
"""Thresholds that every raw value reaches, and that none does."""


@dataclass(frozen=True)
class Binarize(BaseOp):
    """Turn raw uint8 into bits: y = (x >= thresholds[channel]).

    The map keeps its shape, or becomes one vector in the order H, W, C, whose bits lie without gaps. Constant
    `thresholds`: int16 (channels or 1,), from 0 (always) to 256 (never).
    """

    thresholds: str

    kind = "binarize"
    title = "binarize"
    format = 3
    random_inputs = 0

    def tables(self) -> tuple[Table, ...]:
        return (Table(self.thresholds, ("int16",), (self.x.shape[2],), one_row=True),)

    def check(self) -> None:
        self.require(self.x.dtype == "uint8" and self.y.dtype == "bits", "binarize takes uint8 and gives bits")
        flat = (1, 1, prod(self.x.shape))
        self.require(self.y.shape in (self.x.shape, flat), "binarize must keep the shape, or make one vector")

    def check_tables(self, program: Context) -> None:
        super().check_tables(program)
        for table in program.constants[self.thresholds].tables:
            legal = bool(((table >= ALWAYS) & (table <= NEVER)).all())
            self.require(legal, f"its thresholds are not from {ALWAYS} to {NEVER}")

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        reached: NDArray[np.bool_] = x >= program.constant(self.thresholds, member)
        return reached.reshape(len(x), *self.y.shape)

    def resized(self, x: Value, outputs: int) -> Binarize:
        return self

    def extremes(self, program: Context, member: int) -> Iterator[tuple[str, NDArray[Any]]]:
        raw = np.arange(256, dtype=np.uint8)[:, None, None, None]
        yield "every raw value", np.broadcast_to(raw, (256, *self.x.shape))

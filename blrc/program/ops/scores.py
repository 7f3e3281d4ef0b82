"""Define the op that computes scores by integer weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.ops.end import End, vectors
from blrc.program.ops.op import INT32_MAX, Context, Table, sum_magnitudes


@dataclass(frozen=True)
class Scores(End):
    """Compute scores by integer weights: y = bias + sum of +-weights, or of weights times codes.

    Constants: `weights` int8 or, on bits, int16 (classes, H, W, C); `bias` int32 (classes,).
    """

    bias: str

    kind = "scores"
    title = "softmax"

    def tables(self) -> tuple[Table, ...]:
        classes = self.y.shape[2]
        kinds = ("int8",) if self.x.is_codes else ("int8", "int16")
        weights = Table(self.weights, kinds, (classes, *self.x.shape))
        return weights, Table(self.bias, ("int32",), (classes,))

    @property
    def packed(self) -> int:
        return 0

    def check_tables(self, program: Context) -> None:
        super().check_tables(program)
        # Twice, so that the form bias - sum(w) + 2 sum(w at set bits), which kernels use, cannot overflow either.
        self.require(2 * self.largest(program) < INT32_MAX, "scores may overflow int32")

    def largest(self, program: Context) -> int:
        largest = program.peak(self.x)
        sums = [largest * sum_magnitudes(table) for table in program.constants[self.weights].tables]
        return max(
            int((sums[of_member] + np.abs(program.constant(self.bias, member).astype(np.int64))).max())
            for member, of_member in enumerate(program.constants[self.weights].of_member)
        )

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        return vectors(self.sums(program, x, member) + program.constant(self.bias, member))

    def extremes(self, program: Context, member: int) -> Iterator[tuple[str, NDArray[Any]]]:
        weights = program.constant(self.weights, member)
        for extreme in (weights > 0, weights <= 0):  # the largest and the smallest score of each class
            yield "its extreme scores", self.extreme(extreme)

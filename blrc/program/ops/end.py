"""Define what the ops at the end of a program have in common: they make the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from blrc.program.head import MAX_CLASSES
from blrc.program.ops.op import Context, Value, WeightedOp, numbers_of


@dataclass(frozen=True)
class End(WeightedOp):
    """Define the record of an op that makes the scores of all classes from all of its input."""

    is_scores = True
    random_inputs = 256

    @property
    def fan_in(self) -> int:
        """Return n, the number of inputs."""
        return prod(self.x.shape)

    def check(self) -> None:
        takes = self.x.dtype == "bits" or self.x.is_codes
        self.require(takes and self.y.dtype == "int32", "scores take bits or codes and give int32")
        self.require(self.y.shape[:2] == (1, 1), "scores must be a vector")
        classes = self.y.shape[2]
        self.require(classes <= MAX_CLASSES, f"{classes} classes; the integer softmax is for {MAX_CLASSES} at most")

    def sums(self, program: Context, x: NDArray[Any], member: int) -> NDArray[np.int64]:
        """Return the sum of the weighted inputs for each class: int64 ``(N, classes)``."""
        rows = self.numbers(program, member).reshape(self.y.shape[2], -1)
        # Exact in float64: the checks bound the sum far below 2**53.
        total = numbers_of(self.x, x).reshape(len(x), self.fan_in).astype(np.float64) @ rows.T.astype(np.float64)
        return np.asarray(total.astype(np.int64))

    def largest(self, program: Context) -> int:
        """Return a bound on the magnitude of every score, over all members."""
        raise NotImplementedError

    def extreme(self, plus: NDArray[np.bool_]) -> NDArray[Any]:
        """Return an input that is as large as can be where `plus` says so, and as small as can be elsewhere."""
        return plus if self.x.dtype == "bits" else np.where(plus, self.x.element.high, 0).astype(self.x.element.value)

    def resized(self, x: Value, outputs: int) -> Self:
        return replace(self, x=x)


def vectors(scores: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return scores ``(N, classes)`` as the maps ``(N, 1, 1, classes)`` that an op writes."""
    return np.asarray(scores.astype(np.int32)[:, None, None, :])

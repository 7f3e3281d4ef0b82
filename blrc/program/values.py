"""Combine the members of a network that gives values: no label, no softmax, only integers and their sums.

Each output of a member is an int32 v, and its real value is scale x v + offset (`Program.units`). Of n members an
answer has, for each output,

    sum      = sum over members of v                                        int32
    mean     = (2 sum + n) // (2 n)                                         sum / n rounded, halves up
    variance = (n x sum over members of v^2 - sum^2) // n^2                 of the population, rounded down

`blrc.program.legal.check` refuses programs in which n times the largest magnitude of an output reaches 2^31. So sums
fit int32, and n x sum of v^2 stays below 2^62. All members are always asked: there is no label that could be settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.head import Answer

MOST_SUM = 2**31
"""Sums over members stay below it, so that they fit int32 in C and ONNX."""
SMALLEST_SCALE = 2.0**-126
"""Bound scales from below by the smallest normal float32, so that a stated scale is usable in float32 as well."""
MOST_REAL = 2.0**127
"""Real values stay below it, within float32."""


def together(values: Sequence[NDArray[Any]]) -> Answer:
    """Return the answer of all members, from the values ``(N, values)`` of each."""
    stack = np.stack([each.astype(np.int64) for each in values])
    n, count = len(stack), stack.shape[1]
    total, squares = stack.sum(axis=0), (stack * stack).sum(axis=0)
    mean, variance = (2 * total + n) // (2 * n), (n * squares - total * total) // (n * n)
    return Answer(np.empty((count, 0), np.int64), total, mean, variance, np.full(count, n, np.int64))

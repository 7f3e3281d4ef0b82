"""Thresholds in tables: how many bits they take, what never passes, and what a limit on differing bits is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.program import INT32_MAX, Conv, DType, Program

INT16_MAX = 2**15 - 1


def threshold_bits(program: Program, dtype: DType) -> int:
    """Return the bits that hold every threshold of the convolutions that read `dtype`: 16, or 32 where one needs them.

    A threshold is at most the largest sum + 1, and "never" must be more than every sum: 16 bits are enough where no sum
    is above 2^15 - 2. One width for all of them, so that each kernel is compiled for one type.
    """
    sums = [program.bounds(op)[1] for op in program.ops if isinstance(op, Conv) and op.x.dtype == dtype]
    return 16 if all(largest + 1 <= INT16_MAX for largest in sums) else 32


def never_padded(thresholds: NDArray[np.int32], block: int, groups: int = 1, bits: int = 32) -> NDArray[Any]:
    """Return thresholds of so many bits for whole blocks in every group: missing rows never pass."""
    by_group = thresholds.reshape(groups, -1)
    kind, never = (np.int16, INT16_MAX) if bits == 16 else (np.int32, INT32_MAX)
    missing = ((0, 0), (0, -by_group.shape[1] % block))
    return np.pad(by_group, missing, constant_values=never).reshape(-1).astype(kind)


def most_differing(taps: int, thresholds: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return how many of an output's taps may differ from its weights where it passes: floor((n - t) / 2).

    With n taps of which k differ the sum is z = n - 2 k, so z >= t where k <= (n - t) / 2.
    """
    return (taps - thresholds.astype(np.int64)) // 2

"""Lay out thresholds: their width in bits, values that never pass, and limits on how many bits may differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.program import INT32_MAX, Conv, DType, Program

INT16_MAX = 2**15 - 1


def threshold_bits(program: Program, dtype: DType) -> int:
    """Return the bits (16 or 32) that hold every threshold of the convolutions that read `dtype` and write bits.

    Those with weights of 8 bits have limits of their own.

    A threshold is at most the largest sum + 1, and "never" must be more than every sum, so 16 bits are enough if no sum
    is above 2^15 - 2. All these convolutions have one width, so that each kernel is compiled for one type.
    """
    made = (op for op in program.ops if isinstance(op, Conv) and not op.whole)
    convs = (op for op in made if (op.x.dtype, op.y.dtype) == (dtype, "bits"))
    sums = [program.bounds(op)[1] for op in convs]
    return 16 if all(largest + 1 <= INT16_MAX for largest in sums) else 32


def never_padded(thresholds: NDArray[np.int32], block: int, groups: int = 1, bits: int = 32) -> NDArray[Any]:
    """Return thresholds of `bits` bits, padded to whole blocks in every group with rows that never pass."""
    by_group = thresholds.reshape(groups, -1)
    kind, never = (np.int16, INT16_MAX) if bits == 16 else (np.int32, INT32_MAX)
    missing = ((0, 0), (0, -by_group.shape[1] % block))
    return np.pad(by_group, missing, constant_values=never).reshape(-1).astype(kind)


def most_differing(taps: int, thresholds: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return how many of an output's taps may differ from its weights if it is to pass: floor((n - t) / 2).

    With n taps of which k differ the sum is z = n - 2 k, so z >= t exactly if k <= (n - t) / 2.

    Args:
        taps: n.
        thresholds: t, for each output.
    """
    return (taps - thresholds.astype(np.int64)) // 2

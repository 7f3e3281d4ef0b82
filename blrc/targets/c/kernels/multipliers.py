"""Put a multiplier and an offset in the place of a channel's thresholds, where both give the same code for every sum.

The thresholds of levels lie almost at equal distances, so that code = (M z + b) / 2^shift, rounded down and confined to
the codes that there are. For M >= 0 this decides as the thresholds T_t do, for every sum z from low to high, if and
only if for each t

    M T_t + b >= t 2^shift   where T_t <= high,        M (T_t - 1) + b < t 2^shift   where T_t > low.

Each pair of such conditions bounds M, and for an M within all bounds there is a b. The result is tried on every
condition, in integers. So it is exact, and where one does not hold, a layer keeps its thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST = 2**31 - 1
MOST_SHIFT = 48
"""Codes of 8 bits times 2^48 have 56 bits, and products of multipliers and sums at most 61, so all fit 63 bits."""


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Hold ``multiplier`` and ``offset`` of each channel, int64 ``(channels,)``, and the shift of all."""

    multiplier: NDArray[np.int64]
    offset: NDArray[np.int64]
    shift: int

    def table(self, constant: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return what the kernels read: the shift, then for each row multiplier and offset, its lower half first.

        Args:
            constant: of each row, what z is counted from: kernels have constant - z.
        """
        offset = self.offset + self.multiplier * constant
        rows = np.stack([self.multiplier, offset & 0xFFFFFFFF, offset >> 32], axis=1)
        whole = np.concatenate([[self.shift], rows.reshape(-1)]).astype(np.uint32)
        return np.asarray(whole.view(np.int32))


def multipliers(tables: Sequence[NDArray[np.int32]], low: int, high: int) -> list[Multipliers] | None:
    """Return multipliers for each of several tables of thresholds, with one shift for all; None if some have none.

    Args:
        tables: int32 ``(channels, levels)`` each, with rows in order.
        low, high: the range of the sums.
    """
    slopes = [_slopes(table.astype(np.int64), low, high) for table in tables]
    steepest = max(float(slope.max()) for slope in slopes)
    if not all(np.isfinite(slope).all() for slope in slopes):
        return None
    shift = MOST_SHIFT if steepest == 0 else min(MOST_SHIFT, int(np.floor(np.log2(MOST / steepest))))
    if shift < 0:
        return None
    found = []
    for table, slope in zip(tables, slopes, strict=True):
        exact = _exact(table.astype(np.int64), slope, low, high, shift)
        if exact is None:
            return None
        found.append(exact)
    return found


def _slopes(table: NDArray[np.int64], low: int, high: int) -> NDArray[np.float64]:
    """Return codes for each unit of z by channel, in the middle of what all pairs allow; NaN where none is left."""
    levels = table.shape[1]
    apart = (np.arange(levels)[None, :] - np.arange(levels)[:, None]).astype(np.float64)  # [t, u]: u - t
    found = np.empty(len(table))
    for c, row in enumerate(table):
        from_here, below = row <= high, row > low
        distance = (row[None, :] - 1 - row[:, None]).astype(np.float64)  # M distance < (u - t) 2^shift
        used = from_here[:, None] & below[None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = apart / distance
        most = np.min(bound, initial=np.inf, where=used & (distance > 0))
        least = np.max(bound, initial=0.0, where=used & (distance < 0))
        if np.any(used & (distance == 0) & (apart <= 0)) or least >= most:
            found[c] = np.nan
        else:
            found[c] = 2 * least if most == np.inf else (least + most) / 2
    return found


def _exact(table: NDArray[np.int64], slope: NDArray[np.float64], low: int, high: int, shift: int) -> Multipliers | None:
    """Return multipliers of these slopes if they decide every sum as the thresholds do."""
    multiplier = np.floor(slope * 2.0**shift).astype(np.int64).clip(0, MOST)
    goal = np.arange(1, table.shape[1] + 1, dtype=np.int64) << shift
    at_least = goal - multiplier[:, None] * table
    below = at_least + multiplier[:, None]
    furthest = np.iinfo(np.int64).max
    least = np.max(at_least, axis=1, initial=-furthest, where=table <= high)
    most = np.min(below, axis=1, initial=furthest, where=table > low)
    if not (least < most).all():
        return None
    offset = np.where(least > -furthest, least, np.minimum(most - 1, 0))
    return Multipliers(multiplier, offset, shift)

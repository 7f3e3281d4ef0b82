"""A multiplier in the place of thresholds decides every sum as they do, or there is none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blrc.targets.c.kernels.multipliers import multipliers


def codes_of(table: np.ndarray, z: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return (z[:, None, None] >= table[None]).sum(axis=2)


def scaled(table: np.ndarray, z: np.ndarray, low: int, high: int) -> np.ndarray | None:  # type: ignore[type-arg]
    """Codes by multiplication, in Python's integers."""
    found = multipliers([table.astype(np.int32)], low, high)
    if found is None:
        return None
    (only,) = found
    assert (only.multiplier >= 0).all() and (only.multiplier < 2**31).all() and 0 <= only.shift < 63
    rows = zip(only.multiplier.tolist(), only.offset.tolist(), strict=True)
    most = table.shape[1]
    columns = [[min(max((m * int(each) + b) >> only.shift, 0), most) for each in z] for m, b in rows]
    return np.array(columns).T


@settings(max_examples=40)
@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.fractions(-3000, 3000), st.fractions(0, 60, max_denominator=999)), min_size=1, max_size=4),
    st.integers(1, 3000),
)
def test_thresholds_of_a_line(bits: int, lines: list[tuple[Fraction, Fraction]], high: int) -> None:
    """Thresholds of (z - start) / slope >= t - 1/2, at both ends of what can occur and beyond."""
    rows = [
        [min(max(-(-(start + slope * (2 * t - 1) / 2) // 1), -high), high + 1) for t in range(1, 2**bits)]
        for start, slope in lines
    ]
    table = np.array(rows, dtype=np.int64)
    z = np.arange(-high, high + 1)
    found = scaled(table, z, -high, high)
    assert found is None or np.array_equal(found, codes_of(table, z))


@given(st.integers(1, 6), st.data())
def test_any_thresholds_in_order(bits: int, data: st.DataObject) -> None:
    """Mostly there is no multiplier; where there is one, it is right."""
    numbers = st.lists(st.integers(-50, 51), min_size=2**bits - 1, max_size=2**bits - 1).map(sorted)
    table, z = np.array([data.draw(numbers)]), np.arange(-50, 51)
    found = scaled(table, z, -50, 50)
    assert found is None or np.array_equal(found, codes_of(table, z))


@pytest.mark.parametrize(("slope", "high"), [(0.013, 400), (1.0, 2000), (37.7, 200_000), (0.5, 300)])
def test_levels_at_equal_distances_have_one(slope: float, high: int) -> None:
    at = np.ceil(slope * (np.arange(1, 256) - 0.5) - 3)
    table = np.array([at, np.full(255, -high), np.full(255, high + 1)]).clip(-high, high + 1).astype(np.int64)
    z = np.arange(-high, high + 1)
    found = scaled(table, z, -high, high)
    assert found is not None and np.array_equal(found, codes_of(table, z))


def test_a_step_of_two_sums_in_between_has_none() -> None:
    """Four levels at one distance and one at ten times that: no line."""
    assert multipliers([np.array([[0, 1, 2, 3, 13, 14, 15]], np.int32)], -100, 100) is None

"""Parameters of a test that only the night runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def night(*values: Any) -> list[Any]:
    """Mark each value, which is a parameter of its own, as one that `make nightly` runs."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]


def night_rows(*rows: Sequence[Any]) -> list[Any]:
    """Mark each row, which has a value for each of several parameters, as one that `make nightly` runs."""
    return [pytest.param(*row, marks=pytest.mark.nightly) for row in rows]


def first(count: int, values: Sequence[Any]) -> list[Any]:
    """Leave all values but the first `count` to the night."""
    return [*values[:count], *night(*values[count:])]


def where(by_day: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Leave those values to the night for which `by_day` does not hold."""
    return [each for value in values for each in ([value] if by_day(value) else night(value))]


def rows_where(by_day: Callable[[Any], bool], rows: Iterable[Sequence[Any]]) -> list[Any]:
    """Leave those rows to the night for which `by_day`, which takes a whole row, does not hold."""
    return [each for row in rows for each in ([row] if by_day(row) else night_rows(row))]

"""Parameters of a test that only the night runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def night(*values: Any) -> list[Any]:
    """Mark each value, which is a parameter of its own, as one that `make nightly` runs."""
    return [pytest.param(value, marks=pytest.mark.nightly) for value in values]


def first(count: int, values: Sequence[Any]) -> list[Any]:
    """Leave all values but the first `count` to the night."""
    return [*values[:count], *night(*values[count:])]


def where(by_day: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Leave those values to the night for which `by_day` does not hold."""
    return [each for value in values for each in ([value] if by_day(value) else night(value))]


def tuples(by_day: Callable[[Any], bool], values: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Leave those tuples to the night for which `by_day` does not hold; each is the values of several parameters."""
    return [each if by_day(each) else pytest.param(*each, marks=pytest.mark.nightly) for each in values]

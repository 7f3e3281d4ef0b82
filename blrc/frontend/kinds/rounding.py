"""Say what rounding makes of values that a clip keeps between two whole numbers, as in ((x + 1) / 2).clamp(0, 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Layer = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""The kind, the options and the tensors of a layer."""
Bound = Fraction | float
"""An exact number, or an infinity."""
_WHOLE: Mapping[str, Callable[[Bound], int]] = {"round": round, "floor": math.floor, "ceil": math.ceil}
ROUNDINGS = tuple(_WHOLE)
_POOLS = ("plain_pool1d", "plain_pool2d")
_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Step:
    """Describe a function of two values: `low`, and low + 1 above `at`, or from `at` on if it is not ``strict``."""

    low: int
    at: Fraction
    strict: bool


def step_of(rounding: str, layers: Iterable[Layer]) -> Step | None:
    """Return what rounding gives behind `layers`, the first of which may read any number.

    Args:
        rounding: one of `ROUNDINGS`; ``round`` takes the even number of two that are as near.
        layers: clips, ReLUs, scales, shifts and pools, in order; others may give anything.

    Returns:
        None if more than two values may come out, or only one, or others in each channel.
    """
    found = {_step(rounding, *each) for each in reach(layers)}
    return found.pop() if len(found) == 1 else None


def reach(layers: Iterable[Layer]) -> list[tuple[Bound, Bound]]:
    """Return the least and the largest number that layers may give, for each channel or one for all."""
    ends: list[tuple[Bound, Bound]] = [(-math.inf, math.inf)]
    for kind, options, tensors in layers:
        ends = _behind(kind, options, tensors, ends)
    return ends


def _behind(
    kind: str, options: Mapping[str, Any], tensors: Mapping[str, Any], ends: list[tuple[Bound, Bound]]
) -> list[tuple[Bound, Bound]]:
    """Return the least and the largest value behind a layer, for each channel or one for all."""
    if kind in ("clip", "relu"):
        low, high = (0.0, None) if kind == "relu" else (options["min_val"], options["max_val"])
        least: Bound = -math.inf if low is None else Fraction(low)
        most: Bound = math.inf if high is None else Fraction(high)
        return [(min(max(low, least), most), min(max(high, least), most)) for low, high in ends]
    if kind == "shift":
        return [(low + by, high + by) for (low, high), (by,) in _paired(ends, tensors["by"])]
    if kind == "scale":
        made = []
        for (low, high), (top, bottom) in _paired(ends, tensors["factor"], tensors["divisor"]):
            by = top / bottom
            first, last = sorted((low * by, high * by)) if by else (Fraction(0), Fraction(0))
            made.append((first, last))
        return made
    return ends if kind in _POOLS else [(-math.inf, math.inf)]


def _paired(ends: list[tuple[Bound, Bound]], *rows: Any) -> list[tuple[tuple[Bound, Bound], tuple[Fraction, ...]]]:
    many = max(len(ends), *map(len, rows))
    return [(ends[i % len(ends)], tuple(Fraction(float(row[i % len(row)])) for row in rows)) for i in range(many)]


def _step(rounding: str, low: Bound, high: Bound) -> Step | None:
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    first, last = _WHOLE[rounding](low), _WHOLE[rounding](high)
    if last != first + 1:
        return None
    if rounding == "round":
        return Step(first, first + _HALF, strict=first % 2 == 0)
    return Step(first, Fraction(last if rounding == "floor" else first), strict=rounding == "ceil")

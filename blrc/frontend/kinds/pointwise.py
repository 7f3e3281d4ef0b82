"""Define layers without weights that treat each value by itself: signs, levels, samples and flattening."""

from __future__ import annotations

from typing import Any

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, flag, no_more, positive, shown
from blrc.net.choices import MOST_BITS, level_bits, level_ends, level_step
from blrc.net.net import Flatten, Levels, Sign


def _sign(who: str, node: Node, values: Values) -> Sign:
    return Sign(node.name, node.inputs[0])


def _levels(who: str, node: Node, values: Values) -> Levels:
    return Levels(node.name, node.inputs[0], node.options["bits"], level_step(who, float(values.reals("step"))))


def _even_levels(who: str, node: Node, values: Values) -> Levels:
    low, high = node.options["low"], node.options["high"]
    step = level_step(who, float(values.reals("step")))
    return Levels(node.name, node.inputs[0], (high - low).bit_length(), step, (low, high))


def _low(who: str, option: str, value: Any) -> None:
    """Refuse anything but a number of steps that is not above 0."""
    if type(value) is not int or not -(2**MOST_BITS) < value <= 0:
        raise BlrcError(f"{who}: {option} {shown(value)}: give a whole number from {1 - 2**MOST_BITS} to 0")


def _high(who: str, option: str, value: Any) -> None:
    """Refuse anything but a number of steps that is not below 0."""
    if type(value) is not int or not 0 <= value < 2**MOST_BITS:
        raise BlrcError(f"{who}: {option} {shown(value)}: give a whole number from 0 to {2**MOST_BITS - 1}")


def _check_ends(who: str, options: Options) -> None:
    level_ends(who, options["low"], options["high"])


def _no_layer(who: str, node: Node, values: Values) -> None:
    """Return no layer: with fixed weights the variance is 0, and a sample is the value itself."""


def _bits(who: str, option: str, value: Any) -> None:
    """Refuse anything but a number of bits."""
    level_bits(who, value)


def _flatten(who: str, node: Node, values: Values) -> Flatten:
    return Flatten(node.name, node.inputs[0])


SIGN = Kind("sign", {"tau": positive, "hard": flag, "exact": flag}, no_more, lambda _: {}, _sign)
STE_SIGN = Kind("ste_sign", {}, no_more, lambda _: {}, _sign)
LEVELS, STE_LEVELS = (
    Kind(name, {"bits": _bits}, no_more, lambda _: {"step": Tensor(())}, _levels) for name in ("levels", "ste_levels")
)
EVEN_LEVELS = Kind(
    "even_levels",
    {"low": _low, "high": _high},
    _check_ends,
    lambda _: {"step": Tensor(())},
    _even_levels,
    since=3,
)
SAMPLE = Kind("gaussian_sample", {}, no_more, lambda _: {}, _no_layer)
FLATTEN = Kind("flatten", {}, no_more, lambda _: {}, _flatten)

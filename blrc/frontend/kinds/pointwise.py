"""Define layers without weights that treat each value by itself: signs, levels, samples and flattening."""

from __future__ import annotations

from typing import Any

from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Tensor, Values, flag, no_more, positive
from blrc.net.choices import level_bits, level_step
from blrc.net.net import Flatten, Levels, Sign


def _sign(who: str, node: Node, values: Values) -> Sign:
    return Sign(node.name, node.inputs[0])


def _levels(who: str, node: Node, values: Values) -> Levels:
    return Levels(node.name, node.inputs[0], node.options["bits"], level_step(who, float(values.reals("step"))))


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
SAMPLE = Kind("gaussian_sample", {}, no_more, lambda _: {}, _no_layer)
FLATTEN = Kind("flatten", {}, no_more, lambda _: {}, _flatten)

"""Define what stands between a binary layer and its sign in networks of other people: scales, shifts, PReLUs, clips.

Each parameter has one value for each channel, or one for all. `threshold` takes integers as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, no_more, real_or_none, size
from blrc.net.net import Clip, Leak, Scale, Shift, Sign, Threshold


def _rows(option: str, *names: str) -> Callable[[Options], dict[str, Tensor]]:
    return lambda options: {name: Tensor((options[option],)) for name in names}


def _scale(who: str, node: Node, values: Values) -> Scale:
    return Scale(node.name, node.inputs[0], values.reals("factor"), values.reals("divisor"))


def _shift(who: str, node: Node, values: Values) -> Shift:
    return Shift(node.name, node.inputs[0], values.reals("by"))


def _prelu(who: str, node: Node, values: Values) -> Leak:
    return Leak(node.name, node.inputs[0], values.reals("weight"))


def _relu(who: str, node: Node, values: Values) -> Leak:
    return Leak(node.name, node.inputs[0], np.zeros(1))


def _clip(who: str, node: Node, values: Values) -> Clip:
    low, high = (None if (bound := node.options[key]) is None else float(bound) for key in ("min_val", "max_val"))
    return Clip(node.name, node.inputs[0], low, high)


def _check_clip(who: str, options: Options) -> None:
    low, high = options["min_val"], options["max_val"]
    if low is not None and high is not None and low >= high:
        raise BlrcError(f"{who}: min_val {low} is not below max_val {high}; nothing is between them")


def _threshold(who: str, node: Node, values: Values) -> Threshold:
    return Threshold(node.name, node.inputs[0], values.reals("at"), values.reals("inverted") != 0)


def _threshold_tensors(options: Options) -> dict[str, Tensor]:
    return {name: Tensor((options["channels"],), "int") for name in ("at", "inverted")}


def _strict_sign(who: str, node: Node, values: Values) -> Sign:
    return Sign(node.name, node.inputs[0], strict=True)


GIVEN = (
    Kind("scale", {"channels": size}, no_more, _rows("channels", "factor", "divisor"), _scale),
    Kind("shift", {"channels": size}, no_more, _rows("channels", "by"), _shift),
    Kind("prelu", {"num_parameters": size}, no_more, _rows("num_parameters", "weight"), _prelu),
    Kind("relu", {}, no_more, lambda _: {}, _relu),
    Kind("clip", {"min_val": real_or_none, "max_val": real_or_none}, _check_clip, lambda _: {}, _clip),
    Kind("threshold", {"channels": size}, no_more, _threshold_tensors, _threshold),
    Kind("strict_sign", {}, no_more, lambda _: {}, _strict_sign),
)

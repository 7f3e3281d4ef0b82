"""Define layers without weights that treat each value by itself: signs and flattening."""

from __future__ import annotations

from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Values, flag, no_more, positive
from blrc.net.net import Flatten, Sign


def _sign(who: str, node: Node, values: Values) -> Sign:
    return Sign(node.name, node.inputs[0])


def _flatten(who: str, node: Node, values: Values) -> Flatten:
    return Flatten(node.name, node.inputs[0])


SIGN = Kind("sign", {"tau": positive, "hard": flag, "exact": flag}, no_more, lambda _: {}, _sign)
STE_SIGN = Kind("ste_sign", {}, no_more, lambda _: {}, _sign)
FLATTEN = Kind("flatten", {}, no_more, lambda _: {}, _flatten)

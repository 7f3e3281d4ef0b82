"""Define max pooling over random variables and over tensors."""

from __future__ import annotations

from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Values, anything
from blrc.net.net import MaxPool
from blrc.net.window import Window, of_line, pool_window

_OPTIONS = {"kernel_size": anything, "stride": anything, "padding": anything}


def _window(who: str, options: Options) -> Window:
    return pool_window(who, options["kernel_size"], options["stride"], options["padding"])


def _check(who: str, options: Options) -> None:
    _window(who, options)


def _pool(who: str, node: Node, values: Values) -> MaxPool:
    return MaxPool(node.name, node.inputs[0], _window(who, node.options))


def _check_line(who: str, options: Options) -> None:
    _window(who, of_line(options))


def _pool1d(who: str, node: Node, values: Values) -> MaxPool:
    return MaxPool(node.name, node.inputs[0], _window(who, of_line(node.options)))


POOLS = (
    *(Kind(name, _OPTIONS, _check, lambda _: {}, _pool) for name in ("max_pool2d", "plain_pool2d")),
    *(Kind(name, _OPTIONS, _check_line, lambda _: {}, _pool1d) for name in ("max_pool1d", "plain_pool1d")),
)

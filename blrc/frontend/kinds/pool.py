"""Define max pooling over random variables and over tensors, and average pooling of what a sign or levels give."""

from __future__ import annotations

from typing import Any

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Values, anything, no_more, shown
from blrc.net.net import AveragePool, MaxPool
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


def _alike(who: str, option: str, value: Any) -> None:
    """Refuse the four numbers of a padding, which torch's average pooling does not take."""
    if isinstance(value, list | tuple) and len(value) > 2:
        raise BlrcError(f"{who}: {option} of average pooling: give a whole number, or one for each dimension")


_AVERAGED = {**_OPTIONS, "padding": _alike}


def _average(who: str, node: Node, values: Values) -> AveragePool:
    return AveragePool(node.name, node.inputs[0], _window(who, node.options))


def _average1d(who: str, node: Node, values: Values) -> AveragePool:
    return AveragePool(node.name, node.inputs[0], _window(who, of_line(node.options)))


def _one(who: str, option: str, value: Any) -> None:
    """Refuse other sizes than 1: they would need windows of several sizes, or a window that `AvgPool2d` names."""
    numbers = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(numbers) <= 2 or any(type(number) is not int or number != 1 for number in numbers):
        given = [number if type(number) in (int, type(None)) else "?" for number in numbers[:2]]
        what = shown(value) if not isinstance(value, list | tuple) else str(given)
        raise BlrcError(
            f"{who}: {option} {what} of an adaptive average: only averages over the whole map, of size 1, are "
            "compiled; use AvgPool2d (or AvgPool1d) for windows"
        )


def _global(who: str, node: Node, values: Values) -> AveragePool:
    return AveragePool(node.name, node.inputs[0], None)


POOLS = (
    *(Kind(name, _OPTIONS, _check, lambda _: {}, _pool) for name in ("max_pool2d", "plain_pool2d")),
    *(Kind(name, _OPTIONS, _check_line, lambda _: {}, _pool1d) for name in ("max_pool1d", "plain_pool1d")),
    Kind("average_pool2d", _AVERAGED, _check, lambda _: {}, _average),
    Kind("average_pool1d", _AVERAGED, _check_line, lambda _: {}, _average1d),
    *(Kind(name, {"output_size": _one}, no_more, lambda _: {}, _global) for name in ("global_pool1d", "global_pool2d")),
)

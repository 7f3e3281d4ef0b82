"""Define dense layers and convolutions with discrete weights: random ones, and those of a Binarized NN (``ste``)."""

from __future__ import annotations

from collections.abc import Sequence

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, anything, flag, no_more, size
from blrc.frontend.weights.record import Coding
from blrc.frontend.weights.table import CODINGS
from blrc.net.net import Conv, Dense
from blrc.net.window import Window, conv_window, of_line, pair

_DENSE = {"in_features": size, "out_features": size, "bias": flag}
_CONV = {
    "in_channels": size,
    "out_channels": size,
    "kernel_size": anything,
    "stride": anything,
    "padding": anything,
    "dilation": anything,
    "groups": size,
    "bias": flag,
}


def _window(who: str, options: Options) -> Window:
    return conv_window(who, options["kernel_size"], options["stride"], options["padding"], options["dilation"])


def _check_conv(who: str, options: Options) -> None:
    _window(who, options)
    groups, inputs, outputs = (options[name] for name in ("groups", "in_channels", "out_channels"))
    if inputs % groups or outputs % groups:
        raise BlrcError(f"{who}: {groups} groups must divide {inputs} and {outputs} channels")


def _conv_shape(options: Options) -> tuple[int, ...]:
    kernel = pair("", "kernel_size", options["kernel_size"], 1)
    return (options["out_channels"], options["in_channels"] // options["groups"], *kernel)


def _dense_shape(options: Options) -> tuple[int, ...]:
    return (options["out_features"], options["in_features"])


def linear_kinds(name: str, weights: Sequence[str], ternary: bool) -> tuple[Kind, Kind, Kind]:
    """Return the convolutions and the dense layer of a kind of weights.

    Args:
        name: what the names of the kinds begin with.
        weights: names of the tensors of the weights within a layer.
        ternary: whether a weight may be 0.
    """

    def tensors(options: Options, shape: tuple[int, ...]) -> dict[str, Tensor]:
        found = dict.fromkeys(weights, Tensor(shape, "weights"))
        return {**found, "bias": Tensor(shape[:1])} if options["bias"] else found

    def line_tensors(options: Options) -> dict[str, Tensor]:
        outputs, inputs, _, taps = _conv_shape(of_line(options))
        return tensors(options, (outputs, inputs, taps))

    def conv(who: str, node: Node, values: Values) -> Conv:
        window, groups = _window(who, node.options), node.options["groups"]
        return Conv(node.name, node.inputs[0], values.weights(), values.optional("bias"), window, groups, ternary)

    def line(who: str, node: Node, values: Values) -> Conv:
        held, bias = values.weights()[:, :, None], values.optional("bias")
        window, groups = _window(who, of_line(node.options)), node.options["groups"]
        return Conv(node.name, node.inputs[0], held, bias, window, groups, ternary)

    def dense(who: str, node: Node, values: Values) -> Dense:
        return Dense(node.name, node.inputs[0], values.weights(), values.optional("bias"), ternary)

    def check_line(who: str, options: Options) -> None:
        _check_conv(who, of_line(options))

    return (
        Kind(f"{name}_conv1d", _CONV, check_line, line_tensors, line),
        Kind(f"{name}_conv2d", _CONV, _check_conv, lambda options: tensors(options, _conv_shape(options)), conv),
        Kind(f"{name}_linear", _DENSE, no_more, lambda options: tensors(options, _dense_shape(options)), dense),
    )


def random_kinds(coding: Coding) -> tuple[Kind, Kind, Kind]:
    """Return the kinds of layers whose weights are drawn as `coding` says."""
    return linear_kinds(coding.name, [f"weight.{name}" for name in coding.tensors], 0 in coding.values)


RANDOM = tuple(kind for coding in CODINGS.values() for kind in random_kinds(coding))
LINEAR = (*RANDOM, *linear_kinds("ste", ["weight"], ternary=False))

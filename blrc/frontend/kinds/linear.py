"""Define dense layers and convolutions with +-1 weights: random ones, and those of a Binarized NN (``ste``)."""

from __future__ import annotations

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, anything, flag, no_more, size
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


def _with_bias(options: Options, weight: str, shape: tuple[int, ...]) -> dict[str, Tensor]:
    found = {weight: Tensor(shape, "weights")}
    return {**found, "bias": Tensor(shape[:1])} if options["bias"] else found


def _conv(who: str, node: Node, values: Values) -> Conv:
    window, groups = _window(who, node.options), node.options["groups"]
    return Conv(node.name, node.inputs[0], values.signs(), values.optional("bias"), window, groups)


def _dense(who: str, node: Node, values: Values) -> Dense:
    return Dense(node.name, node.inputs[0], values.signs(), values.optional("bias"))


def _kinds(prefix: str, weight: str) -> tuple[Kind, Kind]:
    """Return the convolution and the dense layer whose weights have the name `weight`."""
    conv = Kind(f"{prefix}_conv2d", _CONV, _check_conv, lambda o: _with_bias(o, weight, _conv_shape(o)), _conv)
    dense = Kind(f"{prefix}_linear", _DENSE, no_more, lambda o: _with_bias(o, weight, _dense_shape(o)), _dense)
    return conv, dense


def _conv1d(prefix: str, weight: str) -> Kind:
    def tensors(options: Options) -> dict[str, Tensor]:
        outputs, inputs, _, taps = _conv_shape(of_line(options))
        return _with_bias(options, weight, (outputs, inputs, taps))

    def layer(who: str, node: Node, values: Values) -> Conv:
        window, groups = _window(who, of_line(node.options)), node.options["groups"]
        return Conv(node.name, node.inputs[0], values.signs()[:, :, None], values.optional("bias"), window, groups)

    return Kind(f"{prefix}_conv1d", _CONV, lambda who, options: _check_conv(who, of_line(options)), tensors, layer)


BINARY_CONV1D, STE_CONV1D = _conv1d("binary", "weight.logits"), _conv1d("ste", "weight")
BINARY_CONV, BINARY_LINEAR = _kinds("binary", "weight.logits")
STE_CONV, STE_LINEAR = _kinds("ste", "weight")

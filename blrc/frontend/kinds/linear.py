"""Define dense layers and convolutions with discrete weights: random ones, those of a Binarized NN, of 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, anything, flag, no_more, size
from blrc.frontend.weights.record import Coding
from blrc.frontend.weights.table import CODINGS
from blrc.net.net import LARGEST_WEIGHT, Conv, Dense, Reals
from blrc.net.window import Window, conv_window, of_line, pair

FEW = 64
"""Values of a row that are tried first, so that rows of other numbers are left soon."""
Whole = tuple[NDArray[np.int8], Reals]
"""Whole numbers in the shape of a layer's weights, and what 1 stands for, of each output."""
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


def linear_kinds(
    name: str, weights: Sequence[str], ternary: bool, since: int, whole: Callable[[Reals], Whole] | None = None
) -> tuple[Kind, Kind, Kind]:
    """Return the convolutions and the dense layer of a kind of weights.

    Args:
        name: what the names of the kinds begin with.
        weights: names of the tensors of the weights within a layer.
        ternary: whether a weight may be 0.
        since: the first version of checkpoints that has them.
        whole: of weights of 8 bits, makes whole numbers and units of real weights.
    """

    def tensors(options: Options, shape: tuple[int, ...]) -> dict[str, Tensor]:
        found = dict.fromkeys(weights, Tensor(shape, "float" if whole is whole_numbers else "weights"))
        return {**found, "bias": Tensor(shape[:1])} if options["bias"] else found

    def line_tensors(options: Options) -> dict[str, Tensor]:
        outputs, inputs, _, taps = _conv_shape(of_line(options))
        return tensors(options, (outputs, inputs, taps))

    def numbers(values: Values) -> tuple[NDArray[np.int8], Reals | None]:
        return (values.weights(), None) if whole is None else whole(values.reals("weight"))

    def conv(who: str, node: Node, values: Values) -> Conv:
        (held, unit), bias = numbers(values), values.optional("bias")
        window, groups = _window(who, node.options), node.options["groups"]
        return Conv(node.name, node.inputs[0], held, bias, window, groups, ternary, unit)

    def line(who: str, node: Node, values: Values) -> Conv:
        (held, unit), bias = numbers(values), values.optional("bias")
        window, groups = _window(who, of_line(node.options)), node.options["groups"]
        return Conv(node.name, node.inputs[0], held[:, :, None], bias, window, groups, ternary, unit)

    def dense(who: str, node: Node, values: Values) -> Dense:
        (held, unit), bias = numbers(values), values.optional("bias")
        return Dense(node.name, node.inputs[0], held, bias, ternary, unit)

    def check_line(who: str, options: Options) -> None:
        _check_conv(who, of_line(options))

    return (
        Kind(f"{name}_conv1d", _CONV, check_line, line_tensors, line, since),
        Kind(f"{name}_conv2d", _CONV, _check_conv, lambda options: tensors(options, _conv_shape(options)), conv, since),
        Kind(f"{name}_linear", _DENSE, no_more, lambda options: tensors(options, _dense_shape(options)), dense, since),
    )


def whole_numbers(weights: Reals) -> Whole:
    """Return the whole numbers of 8 bits that stand for real weights, and the unit of each output.

    They are those of `blrc.nn.Int8Conv2d`: u = max |w| / 127 and round(w / u), in float32; u = 1 where all are 0.
    """
    rows = weights.astype(np.float32).reshape(len(weights), -1)
    unit = np.abs(rows).max(axis=1) / np.float32(LARGEST_WEIGHT)
    unit = np.where(unit > 0, unit, np.float32(1))
    numbers = np.rint(rows / unit[:, None]).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT)
    return numbers.astype(np.int8).reshape(weights.shape), unit.astype(np.float64)


def counted(weights: NDArray[Any], slack: float = 0.0) -> tuple[NDArray[np.int16], Reals] | None:
    """Recognise weights (channels first) of which each channel holds whole numbers of 8 bits times one float.

    Each weight has to be exactly the product that its own type gives, as a quantiser computes it. The coarsest such
    numbers are taken.

    Args:
        slack: how far a weight may be from that product instead, relative to the largest one of its channel.

    Returns:
        the numbers, from -128 to 128, in the shape of the weights, and the float of each channel, 1 where all are 0;
        None if they are others.
    """
    rows = weights.reshape(len(weights), -1)
    if not rows.size or rows.dtype.kind != "f" or not np.isfinite(rows).all():
        return None
    numbers, scales = np.zeros(rows.shape, np.int16), np.ones(len(rows))
    for c, row in enumerate(rows):
        found = _counted(row) if not slack else _near(row.astype(np.float64), slack)
        if found is None:
            return None
        numbers[c], scales[c] = found
    return numbers.reshape(weights.shape), scales


def unheld(numbers: NDArray[np.int16]) -> str | None:
    """Say which of some whole numbers is beyond what a layer holds; None where all are held."""
    largest = int(numbers.flat[np.argmax(np.abs(numbers))]) if numbers.size else 0
    if abs(largest) <= LARGEST_WEIGHT:
        return None
    return f"are whole numbers of 8 bits times a scale, of which one is {largest}"


def _counted(row: NDArray[Any]) -> tuple[NDArray[np.int16], float] | None:
    """Return whole numbers and the unit whose products are the values of a row, or None if there are none."""
    top = row[np.argmax(np.abs(row))]
    if top == 0:
        return np.zeros(row.shape, np.int16), 1.0
    few = row[:FEW]
    with np.errstate(all="ignore"):
        for most in range(1, LARGEST_WEIGHT + 2):
            near = np.abs(top) / row.dtype.type(most)
            for unit in (near, np.nextafter(near, np.inf, dtype=row.dtype), np.nextafter(near, 0, dtype=row.dtype)):
                if unit > 0 and _products(few, unit) is not None and (found := _products(row, unit)) is not None:
                    return found, float(unit)
    return None


def _near(row: Reals, slack: float) -> tuple[NDArray[np.int16], float] | None:
    """Return whole numbers and the unit whose products are nearest to the values of a row, or None if some are far."""
    top = float(np.abs(row).max())
    if top == 0:
        return np.zeros(row.shape, np.int16), 1.0
    for most in range(1, LARGEST_WEIGHT + 2):
        numbers = row * (most / top)
        for part in (numbers[:FEW], numbers):
            if np.abs(part - np.rint(part)).max() > slack * most:
                break
        else:
            whole = np.rint(numbers)
            return whole.astype(np.int16), float(row @ whole / (whole @ whole))
    return None


def _products(row: NDArray[Any], unit: Any) -> NDArray[np.int16] | None:
    """Return the whole numbers that times `unit` are exactly these values, or None."""
    numbers = np.rint(row / unit)
    if not (np.abs(numbers) <= LARGEST_WEIGHT + 1).all() or not (numbers * unit == row).all():
        return None
    return np.asarray(numbers.astype(np.int16))


def as_they_are(weights: Reals) -> Whole:
    """Return the whole numbers that are nearest to weights, whose unit is 1."""
    return np.rint(weights).clip(-LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8), np.ones(len(weights))


def random_kinds(coding: Coding) -> tuple[Kind, Kind, Kind]:
    """Return the kinds of layers whose weights are drawn as `coding` says."""
    since = 1 if coding.name == "binary" else 2
    return linear_kinds(coding.name, [f"weight.{name}" for name in coding.tensors], 0 in coding.values, since)


RANDOM = tuple(kind for coding in CODINGS.values() for kind in random_kinds(coding))
LINEAR = (
    *RANDOM,
    *linear_kinds("ste", ["weight"], ternary=False, since=1),
    *linear_kinds("int8", ["weight"], ternary=False, since=3, whole=whole_numbers),
    *linear_kinds("whole", ["weight"], ternary=False, since=3, whole=as_they_are),
)

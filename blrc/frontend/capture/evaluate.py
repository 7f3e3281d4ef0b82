"""Compute the output of a captured layer in NumPy and float64, from its node and its tensors alone.

`blrc.frontend.capture.check` compares a running module with this output. So this code shares nothing with the compiler,
nor with the layers of `blrc.nn` and of torch; of torch it uses the product of matrices only. Weights have their
likeliest values, and norms have the statistics that they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node

Reals = NDArray[np.float64]
UNIT = 2.0**-53  # by which rounding to float64 is off at most, relative to the result
_MATMUL = torch.matmul  # as it was when this module was imported
NORM_ROUNDINGS = 16  # a norm's few operations, in either of two orders
_UNCHECKED = "kind {!r} cannot be checked by this version of blrc"


@dataclass(frozen=True, eq=False)
class Layer:
    """Hold the output of a layer, and how far another order of the same float64 operations may be from each value."""

    values: Reals
    slack: Reals | float


def output(node: Node, tensors: Mapping[str, NDArray[Any]], x: Reals) -> Layer:
    """Evaluate one layer on a batch of its inputs, ``(N, C, H, W)`` or ``(N, C)``.

    Raises:
        BlrcError: the layer does not take an input of this shape, or its kind has no evaluation.
    """
    try:
        return _output(node, tensors, x)
    except (ValueError, IndexError) as error:
        raise BlrcError(
            f"layer {node.name!r}: its input is of shape {x.shape[1:]}, which it does not take ({error})"
        ) from error


def _output(node: Node, tensors: Mapping[str, NDArray[Any]], x: Reals) -> Layer:
    def real(key: str) -> Reals | None:
        held = tensors.get(f"{node.name}.{key}")
        return None if held is None else held.astype(np.float64)

    def needed(key: str) -> Reals:
        found = real(key)
        if found is None:
            raise BlrcError(f"layer {node.name!r}: has no {key}; build it anew")
        return found

    match node.kind.partition("_")[2]:
        case "conv2d":
            return _conv(weights_of(node, needed), real("bias"), x, node.options)
        case "conv1d":
            return _of_line(
                _conv(weights_of(node, needed)[:, :, None], real("bias"), x[:, :, None], _line(node.options))
            )
        case "linear":
            return _dense(weights_of(node, needed), real("bias"), x)
    match node.kind:
        case "max_pool1d" | "plain_pool1d":
            return _of_line(Layer(_max_pool(x[:, :, None], _line(node.options)), 0.0))
        case "average_pool1d" | "global_pool1d":
            return _of_line(_average_pool(x[:, :, None], _line(node.options)))
        case "average_pool2d" | "global_pool2d":
            return _average_pool(x, node.options)
        case "softmax":
            return _dense(needed("weight"), real("bias"), x)
        case "batch_norm1d" | "batch_norm2d" | "plain_norm1d" | "plain_norm2d":
            mean, variance = needed("running_mean"), needed("running_var")
            return _norm(x, mean, variance, real("weight"), real("bias"), float(node.options["eps"]))
        case "max_pool2d" | "plain_pool2d":
            return Layer(_max_pool(x, node.options), 0.0)
        case "sign" | "ste_sign":
            # The sign of what is no number is not specified, and comes from degenerate norm statistics only.
            return Layer(np.where(x >= 0, 1.0, -1.0), np.where(np.isnan(x), np.inf, 0.0))
        case "levels" | "ste_levels":
            return _levels(x, (0, 2 ** int(node.options["bits"]) - 1), float(needed("step")))
        case "even_levels":
            ends = int(node.options["low"]), int(node.options["high"])
            return _levels(x, ends, float(needed("step")), even=True)
        case "gaussian_sample":
            return Layer(x, 0.0)
        case "flatten":
            return Layer(x.reshape(len(x), -1), 0.0)
        case "strict_sign":
            return Layer(np.sign(x), 0.0)
        case "scale" | "shift" | "prelu" | "relu" | "clip" | "threshold":
            return _given(
                node,
                {key.rpartition(".")[2]: value for key, value in tensors.items() if key.startswith(f"{node.name}.")},
                x,
            )
        case _:
            raise BlrcError(f"layer {node.name!r}: {_UNCHECKED.format(node.kind)}")


def weights_of(node: Node, needed: Callable[[str], Reals]) -> Reals:
    """Return the weights of a layer that has discrete ones; random ones have their likeliest values."""
    match node.kind.partition("_")[0]:
        case "binary":
            return np.where(needed("weight.logits") <= 0, 1.0, -1.0)
        case "ternary":
            return _likeliest(needed("weight.zero_logits"), needed("weight.sign_logits"))
        case "ste":
            return np.where(needed("weight") >= 0, 1.0, -1.0)
        case "int8":
            return _whole(needed("weight"))
        case "whole":
            return np.clip(np.round(needed("weight")), -127.0, 127.0)
        case _:
            raise BlrcError(f"layer {node.name!r}: {_UNCHECKED.format(node.kind)}")


def _likeliest(zero: Reals, sign: Reals) -> Reals:
    """Return the likeliest ternary weights: 0 where both other values are at most as likely, and +1 before -1."""
    is_zero = zero + np.log1p(np.exp(-np.abs(sign))) >= 0
    return np.where(is_zero, 0.0, np.where(sign >= 0, 1.0, -1.0))


def _whole(weights: Reals) -> Reals:
    """Return weights as 127ths of the largest one of their output, which are rounded in float32."""
    column = (len(weights), *[1] * (weights.ndim - 1))
    held = weights.astype(np.float32)
    unit = (np.abs(held).reshape(len(held), -1).max(1) / np.float32(127)).reshape(column)
    unit[unit == 0] = 1
    return np.asarray(np.round(held / unit).astype(np.float64) * unit.astype(np.float64))


def _line(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a layer over time as those of one over maps of one row."""
    beside = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1}
    found = dict(options)
    for name in beside.keys() & options.keys():
        value = options[name]
        numbers = value if isinstance(value, list | tuple) else [value]
        if len(numbers) == 2:  # paddings before and behind
            found[name] = (0, numbers[0], 0, numbers[1])
        else:
            found[name] = value if value is None or isinstance(value, str) else (beside[name], numbers[0])
    return found


def _of_line(layer: Layer) -> Layer:
    slack = layer.slack if isinstance(layer.slack, float) else layer.slack[:, :, 0]
    return Layer(layer.values[:, :, 0], slack)


def _given(node: Node, held: Mapping[str, NDArray[Any]], x: Reals) -> Layer:
    """Evaluate what networks of other people have between a binary layer and its sign."""
    row = {key: value.astype(np.float64).reshape(1, -1, *[1] * (x.ndim - 2)) for key, value in held.items()}
    match node.kind:
        case "scale":
            values = x * row["factor"] / row["divisor"]
        case "shift":
            values = x + row["by"]
        case "prelu":
            values = np.where(x >= 0, x, x * row["weight"])
        case "relu":
            values = np.maximum(x, 0.0)
        case "clip":
            low, high = (node.options[key] for key in ("min_val", "max_val"))
            values = np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)
        case _:
            values = np.where((x >= row["at"]) != (row["inverted"] != 0), 1.0, -1.0)
    return Layer(values, 2 * UNIT * (np.abs(values) + np.abs(row["by"] if node.kind == "shift" else 0.0)))


def _dense(weight: Reals, bias: Reals | None, x: Reals) -> Layer:
    offset = np.zeros(len(weight)) if bias is None else bias
    magnitude = _product(np.abs(x), np.abs(weight).T) + np.abs(offset)
    return Layer(_product(x, weight.T) + offset, _slack(magnitude, weight.shape[1]))


def _conv(weight: Reals, bias: Reals | None, x: Reals, options: Mapping[str, Any]) -> Layer:
    groups = int(options["groups"])
    (sy, sx), (dy, dx) = _pair(options["stride"]), _pair(options["dilation"])
    kernel = weight.shape[2:]
    outputs, inputs = len(weight) // groups, weight.shape[1]
    top, left, bottom, right = _padding(options["padding"], kernel, (dy, dx))
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    height = (padded.shape[2] - dy * (kernel[0] - 1) - 1) // sy + 1
    width = (padded.shape[3] - dx * (kernel[1] - 1) - 1) // sx + 1
    z = np.zeros((groups, outputs, len(x) * height * width))
    # Channels first and taps outermost, so that each tap is one large product.
    split = weight.reshape(groups, outputs, inputs, *kernel).transpose(3, 4, 0, 1, 2)
    channels = padded.swapaxes(0, 1)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = channels[:, :, i * dy : i * dy + (height - 1) * sy + 1 : sy]
            taps = rows[..., j * dx : j * dx + (width - 1) * sx + 1 : sx]
            z += _product(split[i, j], taps.reshape(groups, inputs, len(x) * height * width))
    offset = np.zeros(len(weight)) if bias is None else bias
    values = z.reshape(len(weight), len(x), height, width).swapaxes(0, 1) + offset[:, None, None]
    terms = inputs * kernel[0] * kernel[1]
    magnitude = np.abs(weight).reshape(len(weight), terms).sum(1) * np.abs(x).max(initial=0.0) + np.abs(offset)
    return Layer(values, _slack(magnitude[:, None, None], terms))


def _product(a: Reals, b: Reals) -> Reals:
    """Multiply two matrices by torch, whose threads waste less time on busy CPUs than those of NumPy's BLAS."""
    return _MATMUL(*(torch.from_numpy(np.ascontiguousarray(side)) for side in (a, b))).numpy()


def _slack(magnitude: Reals, terms: int) -> Reals:
    """Bound the distance between two sums of `terms` terms whose magnitudes add up to `magnitude`."""
    return np.asarray(2 * (terms + 2) * UNIT * magnitude)


def _norm(x: Reals, mean: Reals, variance: Reals, gamma: Reals | None, beta: Reals | None, eps: float) -> Layer:
    def rows(values: Reals) -> Reals:
        return values.reshape(1, -1, *[1] * (x.ndim - 2))

    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = (np.ones_like(mean) if gamma is None else gamma) / np.sqrt(variance + eps)
        shift = np.zeros_like(mean) if beta is None else beta
        values = rows(scale) * (x - rows(mean)) + rows(shift)
        magnitude = np.abs(rows(scale)) * (np.abs(x) + np.abs(rows(mean))) + np.abs(rows(shift))
        return Layer(values, NORM_ROUNDINGS * UNIT * magnitude)


def _levels(x: Reals, ends: tuple[int, int], step: float, even: bool = False) -> Layer:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        quotient = x / step
        codes = np.round(quotient) if even else np.floor(quotient + 0.5)
        values = step * np.clip(codes, *ends)
        # A rounding may cross a threshold if that is so near; less than a step allows no other code.
        distance = np.abs(quotient - (np.floor(quotient) + 0.5))
        crossing = step * 2 * UNIT * (1 + np.abs(quotient)) / distance
    return Layer(values, np.where(np.isnan(x), np.inf, crossing + 2 * UNIT * np.abs(values)))


def _max_pool(x: Reals, options: Mapping[str, Any]) -> Reals:
    kernel = _pair(options["kernel_size"])
    sy, sx = kernel if options["stride"] is None else _pair(options["stride"])
    top, left, bottom, right = _padding(options["padding"], kernel, (1, 1))
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf)
    height, width = (padded.shape[2] - kernel[0]) // sy + 1, (padded.shape[3] - kernel[1]) // sx + 1
    result = np.full((*x.shape[:2], height, width), -np.inf)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            taps = padded[:, :, i : i + (height - 1) * sy + 1 : sy, j : j + (width - 1) * sx + 1 : sx]
            np.maximum(result, taps, out=result)
    return result


def _average_pool(x: Reals, options: Mapping[str, Any]) -> Layer:
    kernel = x.shape[2:] if "output_size" in options else _pair(options["kernel_size"])
    sy, sx = kernel if options.get("stride") is None else _pair(options["stride"])
    top, left, bottom, right = _padding(options.get("padding", 0), kernel, (1, 1))
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    height, width = (padded.shape[2] - kernel[0]) // sy + 1, (padded.shape[3] - kernel[1]) // sx + 1
    if height < 1 or width < 1:
        raise ValueError("its window does not fit")
    total, magnitude = np.zeros((*x.shape[:2], height, width)), np.zeros((*x.shape[:2], height, width))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            taps = padded[:, :, i : i + (height - 1) * sy + 1 : sy, j : j + (width - 1) * sx + 1 : sx]
            total, magnitude = total + taps, magnitude + np.abs(taps)
    count = kernel[0] * kernel[1]
    return Layer(total / count, _slack(magnitude / count, count))


def _padding(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the padding as (top, left, bottom, right).

    With 'same' padding the odd pixel goes to the bottom and the right, as in torch.
    """
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        height, width = dilation[0] * (kernel[0] - 1), dilation[1] * (kernel[1] - 1)
        return height // 2, width // 2, height - height // 2, width - width // 2
    if isinstance(padding, list | tuple) and len(padding) == 4:
        return int(padding[0]), int(padding[1]), int(padding[2]), int(padding[3])
    vertical, horizontal = _pair(padding)
    return vertical, horizontal, vertical, horizontal


def _pair(value: Any) -> tuple[int, int]:
    first, second = value if isinstance(value, list | tuple) else (value, value)
    return int(first), int(second)

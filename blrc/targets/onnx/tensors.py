"""Name, describe and shape the tensors that hold a program's values and its constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from blrc.program.program import Conv, Program, Value, Window
from blrc.targets.onnx.head import OUTPUTS
from blrc.targets.onnx.nodes import Graph

BYTE_ZERO = 128
"""The uint8 that stands for 0 where numbers of int8 are held as uint8."""


def tensor_name(program: Program, value: Value, member: int = 0) -> str:
    """Return the name of the tensor that holds `value` of one member.

    The names are:

    * ``input`` for the program's input, ``scores`` for the scores of a program of one member;
    * the value's own name where all members have the same value (with one member, always);
    * else ``mK/`` and the value's own name, where K is the first member that has the same constants up to here.
    """
    if value == program.input:
        return "input"
    origins = _origins(program, value)
    if len(origins) > 1 and (value == program.output or len(set(origins)) > 1):
        return f"m{origins.index(origins[member])}/{value.name}"
    if value == program.output:
        return "scores"
    return f"{value.name}/value" if value.name in ("input", "scores", *OUTPUTS) else value.name


def _origins(program: Program, value: Value) -> list[tuple[int, ...]]:
    """Return for each member which tables `value` is computed from.

    Members with equal entries have the same value.
    """
    makers = {op.y.name: op for op in program.ops}
    names: list[str] = []
    while value.name in makers:
        names += makers[value.name].constants
        value = makers[value.name].x
    used = [program.constants[name].of_member for name in names]
    return [tuple(of_member[k] for of_member in used) for k in range(len(program.members))]


def tensor_info(program: Program, value: Value, member: int = 0) -> onnx.ValueInfoProto:
    """Describe the inner tensor of `value`: its name, type and shape."""
    kind = TensorProto.INT32 if value.dtype == "int32" else TensorProto.UINT8
    return value_info(tensor_name(program, value, member), value, kind)


def value_info(name: str, value: Value, kind: int) -> onnx.ValueInfoProto:
    """Describe a tensor of type `kind` in the shape of `value`."""
    height, width, channels = value.shape
    shape: list[str | int] = ["N", channels] if is_flat(value) else ["N", channels, height, width]
    return helper.make_tensor_value_info(name, kind, shape)


def is_flat(value: Value) -> bool:
    """Return whether tensors of `value` are (N, C)."""
    return value.shape[:2] == (1, 1)


def geometry(window: Window) -> dict[str, list[int]]:
    """Return the attributes of a convolution or pool."""
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.stride),
        "pads": list(window.padding),
        "dilations": list(window.dilation),
    }


def by_channel(value: Value, numbers: NDArray[Any]) -> NDArray[Any]:
    """Shape one number for each channel, or one for all, so that it goes with the tensor of `value`."""
    return numbers if is_flat(value) or len(numbers) == 1 else numbers.reshape(-1, 1, 1)


def zero_point(value: Value) -> int:
    """Return the byte that stands for 0 in the tensor of `value`."""
    return 1 if value.dtype == "bits" else 0 if value.is_codes else BYTE_ZERO


def unsigned_of(weights: NDArray[Any]) -> NDArray[np.uint8]:
    """Return int8 weights as uint8, of which `BYTE_ZERO` stands for 0."""
    return np.asarray((weights.astype(np.int16) + BYTE_ZERO).astype(np.uint8))


def is_product(op: Conv) -> bool:
    """Return whether the op is a plain matrix product."""
    return op.is_dense and op.groups == 1 and op.pool is None and not any(op.window.padding)


def matrix_of(weights: NDArray[Any]) -> NDArray[Any]:
    """Turn weights (out, H, W, C) into a matrix (C x H x W, out), in the order in which `Flatten` reads a map."""
    return np.ascontiguousarray(weights.transpose(0, 3, 1, 2).reshape(len(weights), -1).T)


def read_input(graph: Graph, program: Program) -> str:
    """Add the nodes that make the inner tensor of the program's input, and return that tensor's name."""
    value = program.input
    raw = tensor_name(program, value)
    if value.dtype == "bits":
        return choose(graph, graph.node("Cast", [raw], f"{raw}/bool", to=TensorProto.BOOL), f"{raw}/bits")
    if value.dtype == "int8":
        wide = graph.node("Cast", [raw], f"{raw}/wide", to=TensorProto.INT32)
        shifted = graph.node("Add", [wide, graph.scalar("int32", 128)], f"{raw}/shifted")
        return graph.node("Cast", [shifted], f"{raw}/codes", to=TensorProto.UINT8)
    return raw


def choose(graph: Graph, condition: str, output: str) -> str:
    """Turn booleans into bits, 0 and 2. It takes `Where`, because old runtimes cannot multiply uint8."""
    return graph.node("Where", [condition, graph.scalar("uint8", 2), graph.scalar("uint8", 0)], output)

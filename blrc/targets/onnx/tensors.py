"""Name and describe the tensors that hold a program's values."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from blrc.program.program import Program, Value, Window
from blrc.targets.onnx.head import OUTPUTS


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

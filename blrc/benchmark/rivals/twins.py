"""The network that a program stands in for, as other runtimes would run it: ONNX files in float32 and in int8.

Same shapes, same windows, weights of -1 and +1 (the last layer its own); in place of a norm a bias, of the sign a ReLU,
and max pooling where the program pools. A layer's twin takes real-valued input, that of a network what is left of an
image once it has been standardised: neither contains the look-up of codes. The int8 file is what quantisation tools
write: `QLinearConv` and `QLinearMatMul`, activations uint8 with zero point 0 (which makes the cut at 0 the ReLU),
weights int8, one scale for each layer. What it computes is of no interest, only its shapes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from blrc.net.bits import unpack_signs
from blrc.program.program import BinaryScores, Conv, Encode, Op, Pool, Program, Window

INPUT = "input"
IR_VERSION, OPSET = 8, 17  # what ONNX Runtime 1.17 reads


def input_shape(program: Program, ops: Sequence[Op]) -> tuple[int, ...]:
    """Of the twin of these ops: (1, C, H, W), or (1, C) where there is one pixel."""
    height, width, channels = _computing(ops)[0].x.shape
    return (1, channels) if (height, width) == (1, 1) else (1, channels, height, width)


def float32_model(program: Program, ops: Sequence[Op], bare: bool = False) -> bytes:
    """The float32 twin of some consecutive ops of a program.

    Args:
        bare: the convolution or matrix product alone, without bias, ReLU and pooling.
    """
    return _model(program, ops, _Float32(bare), TensorProto.FLOAT)


def int8_model(program: Program, ops: Sequence[Op], bare: bool = False) -> bytes:
    """The int8 twin, as `float32_model`."""
    return _model(program, ops, _Int8(bare), TensorProto.UINT8)


def weights(program: Program, op: Op) -> NDArray[np.int8]:
    """Of a layer that has some, ``(out, C of a group, H, W)``: -1 and +1, or the last layer's."""
    if isinstance(op, Conv):
        signs = unpack_signs(program.constant(op.weights), op.group_channels)
    elif isinstance(op, BinaryScores):
        signs = unpack_signs(program.constant(op.weights), op.x.shape[2])
    else:
        assert not isinstance(op, Encode | Pool)
        signs = program.constant(op.weights).clip(-127, 127)
    return np.ascontiguousarray(signs.transpose(0, 3, 1, 2).astype(np.int8))


def is_product(op: Op) -> bool:
    """It is a matrix product: a dense layer or the scores."""
    if isinstance(op, Conv):
        return op.is_dense and op.groups == 1 and not any(op.window.padding)
    return not isinstance(op, Encode | Pool)


def _computing(ops: Sequence[Op]) -> list[Op]:
    return [op for op in ops if not isinstance(op, Encode)]


class _Nodes:
    """A graph as it grows; `at` is the tensor that the next node reads."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, NDArray[Any]] = {}
        self.at = INPUT

    def add(self, kind: str, *inputs: NDArray[Any], **attributes: Any) -> None:
        """A node that reads `at` and constants."""
        names = [self.at]
        for tensor in inputs:
            names.append(f"c{len(self.tensors)}")
            self.tensors[names[-1]] = tensor
        self.at = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [self.at], **attributes))


class _Kind(Protocol):
    bare: bool

    def conv(self, to: _Nodes, weights: NDArray[np.int8], **attributes: Any) -> None: ...

    def product(self, to: _Nodes, weights: NDArray[np.int8]) -> None: ...

    def activate(self, to: _Nodes) -> None: ...


class _Float32:
    def __init__(self, bare: bool) -> None:
        self.bare = bare

    def conv(self, to: _Nodes, weights: NDArray[np.int8], **attributes: Any) -> None:
        bias = [] if self.bare else [np.zeros(len(weights), np.float32)]
        to.add("Conv", weights.astype(np.float32), *bias, **attributes)

    def product(self, to: _Nodes, weights: NDArray[np.int8]) -> None:
        if self.bare:
            to.add("MatMul", weights.astype(np.float32))
        else:
            to.add("Gemm", weights.astype(np.float32), np.zeros(weights.shape[1], np.float32))

    def activate(self, to: _Nodes) -> None:
        to.add("Relu")


class _Int8:
    def __init__(self, bare: bool) -> None:
        self.bare = bare

    def conv(self, to: _Nodes, weights: NDArray[np.int8], **attributes: Any) -> None:
        bias = [] if self.bare else [np.zeros(len(weights), np.int32)]
        to.add("QLinearConv", *self._quantised(weights, int(np.prod(weights.shape[1:]))), *bias, **attributes)

    def product(self, to: _Nodes, weights: NDArray[np.int8]) -> None:
        to.add("QLinearMatMul", *self._quantised(weights, len(weights)))

    def activate(self, to: _Nodes) -> None:
        """The zero point does it."""

    def _quantised(self, weights: NDArray[np.int8], fan_in: int) -> list[NDArray[Any]]:
        """Scales and zero points around the weights; so that sums of random signs spread over the outputs' range."""
        one, zero = np.array(1 / 127, np.float32), np.array(0, np.uint8)
        large = (weights.astype(np.int16) * 127).clip(-127, 127).astype(np.int8)
        return [one, zero, large, one, np.array(0, np.int8), (one * np.sqrt(fan_in)).astype(np.float32), zero]


def _model(program: Program, ops: Sequence[Op], kind: _Kind, dtype: int) -> bytes:
    to, shape = _Nodes(), input_shape(program, ops)
    flat = len(shape) == 2
    for op in _computing(ops):
        if isinstance(op, Pool):
            to.add("MaxPool", **_window(op.window, dilations=False))
            continue
        table = weights(program, op)
        if is_product(op):
            if not flat:
                to.add("Flatten")
            flat = True
            kind.product(to, np.ascontiguousarray(table.reshape(len(table), -1).T))
        else:
            assert isinstance(op, Conv)
            kind.conv(to, table, group=op.groups, **_window(op.window))
        if isinstance(op, Conv) and not kind.bare:
            kind.activate(to)
            if op.pool is not None:
                to.add("MaxPool", **_window(op.pool, dilations=False))
    graph = helper.make_graph(
        to.nodes,
        "twin",
        [helper.make_tensor_value_info(INPUT, dtype, shape)],
        [helper.make_tensor_value_info(to.at, dtype, None)],
        [numpy_helper.from_array(tensor, name) for name, tensor in to.tensors.items()],
    )
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _window(window: Window, dilations: bool = True) -> dict[str, list[int]]:
    attributes = {"kernel_shape": window.kernel, "strides": window.stride, "pads": window.padding}
    if dilations:
        attributes["dilations"] = window.dilation
    return {name: list(value) for name, value in attributes.items()}

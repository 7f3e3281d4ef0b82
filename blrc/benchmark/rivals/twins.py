"""Build twins of a program for other runtimes: ONNX files in float32 and in int8 with the same shapes.

A twin has the same shapes and windows as the program. Its weights are -1 and +1, and those of the last layer are the
program's. A bias replaces the norm, a ReLU replaces the sign, and max pooling is where the program pools. The twin of
a layer takes real-valued input, and the twin of a network takes a standardised image. Neither contains what makes codes
or bits of raw values, and flattening costs nothing (`blrc.benchmark.rivals.computing.computing`).

The int8 file is what quantisation tools write: `QLinearConv` and `QLinearMatMul`, uint8 activations with zero point 0
(so that the cut at 0 is the ReLU), int8 weights, and one scale for each layer. The values that it computes do not
matter, only its shapes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from blrc.benchmark.rivals.computing import computing
from blrc.program.program import Conv, Op, Pool, Program, SumPool, WeightedOp, Window

INPUT = "input"
IR_VERSION, OPSET = 8, 17  # versions that ONNX Runtime 1.17 reads


def input_shape(program: Program, ops: Sequence[Op]) -> tuple[int, ...]:
    """Return the input shape of the twin of these ops.

    It is (1, C, H, W), or (1, C) where a matrix product takes a single pixel.
    """
    first = computing(ops)[0]
    shape = image(first.x.shape)
    return shape[:2] if shape[2:] == (1, 1) and is_product(first) else shape


def image(shape: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Return (1, C, H, W) for a map's shape (H, W, C)."""
    height, width, channels = shape
    return 1, channels, height, width


def float32_model(program: Program, ops: Sequence[Op], bare: bool = False) -> bytes:
    """Return the float32 twin of some consecutive ops of a program, as the content of an ONNX file.

    Args:
        program: the program.
        ops: its ops to build a twin of.
        bare: include only the convolution or matrix product, without bias, ReLU and pooling.
    """
    return _model(program, ops, _Float32(bare), TensorProto.FLOAT)


def int8_model(program: Program, ops: Sequence[Op], bare: bool = False) -> bytes:
    """Return the int8 twin; the arguments are those of `float32_model`."""
    return _model(program, ops, _Int8(bare), TensorProto.UINT8)


def weights(program: Program, op: WeightedOp) -> NDArray[np.int8]:
    """Return the weights ``(out, C of a group, H, W)`` of a layer.

    They are -1 and +1, or those of the last layer clipped to [-127, 127].
    """
    numbers = op.numbers(program).clip(-127, 127)
    return np.ascontiguousarray(numbers.transpose(0, 3, 1, 2).astype(np.int8))


def is_product(op: Op) -> bool:
    """Return whether an op is a matrix product, which is a dense layer or the scores."""
    if isinstance(op, Conv):
        return op.is_dense and op.groups == 1 and not any(op.window.padding)
    return op.is_scores


class _Nodes:
    """Collect the nodes of a graph, of which the next one reads the tensor `at`.

    `shape` is that of the tensor: (1, C), or (1, C, H, W).
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, NDArray[Any]] = {}
        self.at = INPUT
        self.shape = shape

    def become(self, *shape: int) -> None:
        """Reshape the tensor, unless it has this shape."""
        if self.shape != shape:
            self.add("Reshape", np.array(shape, np.int64))
        self.shape = shape

    def add(self, kind: str, *inputs: NDArray[Any], **attributes: Any) -> None:
        """Add a node that reads `at` and constants, and let `at` be its output."""
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

    def average(self, to: _Nodes, window: Window) -> None: ...

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

    def average(self, to: _Nodes, window: Window) -> None:
        to.add("AveragePool", **_window(window, dilations=False), count_include_pad=1)

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

    def average(self, to: _Nodes, window: Window) -> None:
        """Add what quantisation tools write, which runtimes may make one node of."""
        one, zero = np.array(1 / 127, np.float32), np.array(0, np.uint8)
        to.add("DequantizeLinear", one, zero)
        to.add("AveragePool", **_window(window, dilations=False), count_include_pad=1)
        to.add("QuantizeLinear", one, zero)

    def activate(self, to: _Nodes) -> None:
        """Do nothing, since the zero point already acts as the ReLU."""

    def _quantised(self, weights: NDArray[np.int8], fan_in: int) -> list[NDArray[Any]]:
        """Return the weights amid scales and zero points that spread sums of random signs over the outputs' range."""
        one, zero = np.array(1 / 127, np.float32), np.array(0, np.uint8)
        large = (weights.astype(np.int16) * 127).clip(-127, 127).astype(np.int8)
        return [one, zero, large, one, np.array(0, np.int8), (one * np.sqrt(fan_in)).astype(np.float32), zero]


def _model(program: Program, ops: Sequence[Op], kind: _Kind, dtype: int) -> bytes:
    shape = input_shape(program, ops)
    to = _Nodes(shape)
    for op in computing(ops):
        to.become(*([1, prod(op.x.shape)] if is_product(op) else image(op.x.shape)))
        to.shape = (1, op.y.shape[2]) if is_product(op) else image(op.y.shape)
        if isinstance(op, Pool):
            to.add("MaxPool", **_window(op.window, dilations=False))
            continue
        if isinstance(op, SumPool):
            kind.average(to, op.window)
            continue
        assert isinstance(op, WeightedOp)
        table = weights(program, op)
        if is_product(op):
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

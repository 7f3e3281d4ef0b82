"""Build the nodes and constants of an ONNX graph. This module knows nothing of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from blrc.errors import BlrcError
from blrc.targets.requests import OnnxWeights

IR_VERSION = 8
OPSET = 17
FILE_BYTES = 2**31 - 1
DIGITS = 5
"""Digits of base 3 that a byte holds."""
NODE_BYTES = 4096  # more than a node, its output's description and their names take


class Graph:
    """Collect the nodes and constants of a graph. A node has one output, which has the node's name.

    Args:
        weights: how the file holds signs: as ``bytes``, or as ``bits`` that its first nodes unpack.
    """

    def __init__(self, weights: OnnxWeights = "bytes") -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.made: set[str] = set()

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add a node and return its output's name."""
        assert output not in self.made, output
        self.made.add(output)
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, array: NDArray[Any]) -> str:
        """Add a constant and return its name; one that is used twice is stored once."""
        known = self.constants.setdefault(name, array)
        assert known is array or (known.dtype == array.dtype and np.array_equal(known, array)), name
        return name

    def signs(self, name: str, signs: NDArray[Any], minus: np.integer[Any], plus: np.integer[Any]) -> str:
        """Add a constant in the shape of `signs` (+-1), with `minus` and `plus` in their place, and return its name.

        `minus` and `plus` are bytes of one type. Where the file holds bits, eight signs are one byte, with the first as
        the highest bit, and a table gives each byte's eight signs. The nodes that look them up read constants only, so
        a runtime that folds constants runs them once, while it loads the file.

        Signs of 0 get what lies in the middle. Where there are such, five are one byte, digits of base 3 with the first
        as the highest one.
        """
        middle = plus.dtype.type((int(minus) + int(plus)) // 2)
        if self.weights == "bytes":
            return self.constant(name, np.where(signs > 0, plus, np.where(signs < 0, minus, middle)))
        if name in self.made:
            return name
        each, flat = 8, signs.reshape(-1)
        if flat.all():
            patterns = np.unpackbits(np.arange(256, dtype=np.uint8).reshape(-1, 1), axis=1)
            table = self.constant(f"{plus.dtype}/eight of {minus}, {plus}", np.where(patterns, plus, minus))
            packed = self.constant(f"{name}/bits", np.packbits(flat > 0))
        else:
            each, powers = DIGITS, 3 ** np.arange(DIGITS)[::-1]
            digits = np.arange(3**DIGITS)[:, None] // powers % 3
            table = self.constant(f"{plus.dtype}/five of {minus}, {plus}", np.array([minus, middle, plus])[digits])
            rows = np.pad(flat + 1, (0, -flat.size % DIGITS)).reshape(-1, DIGITS)
            packed = self.constant(f"{name}/digits", (rows @ powers).astype(np.uint8))
        x = self.node("Cast", [packed], f"{name}/indices", to=TensorProto.INT32)
        x = self.node("Gather", [table, x], f"{name}/bytes")
        if signs.size % each:
            x = self.node("Reshape", [x, self.integers(-1)], f"{name}/row")
            x = self.node("Slice", [x, self.integers(0), self.integers(signs.size)], f"{name}/used")
        return self.node("Reshape", [x, self.integers(*signs.shape)], name)

    def reached(self, z: str, name: str, limits: NDArray[Any], shape: tuple[int, ...], output: str) -> str:
        """Add a search for how many of its channel's limits each number of `z` reaches, the count's highest bit first.

        Args:
            name: a name for what is made of the limits.
            limits: int32 ``(channels, 2^bits - 1)``, each row in order.
            shape: the shape of one number for each channel beside `z`.
        """
        channels, count = limits.shape
        row = self.constant(f"{name}/row", np.ascontiguousarray(limits.reshape(-1)))
        first = (np.arange(channels, dtype=np.int32) * count - 1).reshape(shape)
        # The place in the row of the last limit that was reached: that of the channel's first, less one, and the count.
        start = at = self.constant(f"int32/before {channels} rows of {count}/{len(shape)}", first)
        for half in (1 << p for p in reversed(range(count.bit_length()))):
            step = f"{output}/{half}"
            further = self.node("Add", [at, self.scalar("int32", half)], f"{step}/at")
            limit = self.node("Gather", [row, further], f"{step}/limit")
            at = self.node("Where", [self.node("GreaterOrEqual", [z, limit], f"{step}/is"), further, at], step)
        found = self.node("Sub", [at, start], f"{output}/count")
        return self.node("Cast", [found], output, to=TensorProto.UINT8)

    def integers(self, *numbers: int) -> str:
        """Add a list of int64, such as a shape, and return its name."""
        return self.constant(f"int64/{list(numbers)}", np.array(numbers, dtype=np.int64))

    def scalar(self, kind: str, number: int) -> str:
        return self.constant(f"{kind}/{number}", np.array(number, dtype=kind))

    def model(
        self,
        name: str,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
        inner: Sequence[onnx.ValueInfoProto],
    ) -> onnx.ModelProto:
        """Return all nodes and constants as a model; `inner` describes the tensors between `inputs` and `outputs`.

        Raises:
            BlrcError: there are more weights than an ONNX file can hold.
        """
        stored = sum(array.nbytes for array in self.constants.values())
        if stored > FILE_BYTES - NODE_BYTES * (len(self.nodes) + len(self.constants)):
            raise BlrcError(f"target onnx: {stored} bytes of weights; an ONNX file ends at 2 GiB, use target c")
        tensors = [numpy_helper.from_array(self.constants[key], key) for key in sorted(self.constants)]
        graph = helper.make_graph(self.nodes, name, inputs, outputs, tensors, value_info=inner)
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[opset], producer_name="blrc")

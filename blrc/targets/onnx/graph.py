"""Turn each op into ONNX nodes of the integer form.

Every value of the program is a tensor of its own name, (N, C, H, W), or (N, C) where H = W = 1. Its type is uint8 with
a zero point, because that is what every runtime's integer kernels take: **bits are 0 and 2 with zero point 1**, **int8
codes are code + 128 with zero point 128**. Padding with the zero point is padding with 0. The scores are int32.

**Codes of several thresholds are themselves**, with zero point 0.

Convolution and threshold are one `QLinearConv` with all scales 1, weights +-2 and bias 1 - 2t:

    acc = 2z + 1 - 2t = 2 (z - t) + 1,      y = clip(acc + 1, 0, 255): 0 where z < t, at least 2 where z >= t.

acc is odd, so it is never 0. The float32 rescaling inside the runtime may round a large acc but cannot change its sign,
so the result is exact at every size. Values above 2 are cut to 2 after the pool, because the cut commutes with the
maximum. Runtimes keep their fastest int8 kernels behind this op (benchmarks/onnx_forms.py times the exact forms). A
dense layer is `MatMulInteger` and z >= t. Where there are several thresholds, z is that of `ConvInteger`, and a binary
search finds the code (`blrc.targets.onnx.nodes.Graph.reached`). A binary or ternary weight takes one byte in the file,
or one bit, of ternary ones a fifth of a byte (`Graph.signs`), an int16 score weight two bytes.

On x86 without VNNI, runtimes add pairs of products of uint8 x int8 in int16, which saturates. No pair here can:
activations of {0, 2} x any int8 stay below 2 x 2 x 128, codes x +-2 below 2 x 255 x 2. Codes of 8 bits meet the weights
of scores as uint8 with a zero point. (Products of uint8 x uint8, for
the low bytes, are not added that way.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from blrc.errors import BlrcError
from blrc.net.elements import ELEMENTS
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import (
    INT32_MAX,
    BinaryScores,
    Conv,
    Encode,
    Op,
    Pool,
    Program,
    Scores,
    SumPool,
    Value,
    WeightedOp,
    Window,
)
from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.tensors import (
    BYTE_ZERO,
    by_channel,
    choose,
    geometry,
    is_flat,
    is_product,
    matrix_of,
    tensor_name,
    unsigned_of,
    zero_point,
)

ONE, TWO = (np.int8(-1), np.int8(1)), (np.int8(-2), np.int8(2))


class Lowering:
    """Add the ops of one member to `graph`; `start` is the inner tensor of the program's input."""

    def __init__(self, graph: Graph, program: Program, member: int, start: str) -> None:
        self.graph = graph
        self.program = program
        self.member = member
        self.start = start

    def lower(self, op: Op) -> str:
        """Add the nodes of `op`, unless an earlier member has added them, and return the name of its output."""
        y = tensor_name(self.program, op.y, self.member)
        if y in self.graph.made:
            return y
        if isinstance(op, Encode):
            self.encode(op, y)
        elif isinstance(op, Binarize):
            self.binarize(op, y)
        elif isinstance(op, Flatten):
            self.flatten(op.x, y, self.tensor(op.x))
        elif isinstance(op, Conv):
            if op.y.is_codes or op.whole:
                self.summed(op, y)
            else:
                self.dense(op, y) if is_product(op) else self.convolution(op, y)
        elif isinstance(op, Pool):
            self.leave(op.y, y, self.pool(self.maps(op.x, y), op.window, self.entry(op.y, y)))
        elif isinstance(op, SumPool):
            self.sums(op, y)
        elif isinstance(op, Scores):
            self.scores(op, y)
        elif isinstance(op, BinaryScores):
            self.binary_scores(op, y)
        else:
            assert_never(op)
        return y

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        return self.graph.node(kind, inputs, output, **attributes)

    def constant(self, name: str, array: NDArray[Any]) -> str:
        return self.graph.constant(name, array)

    def scalar(self, kind: str, number: int) -> str:
        return self.graph.scalar(kind, number)

    def table(self, name: str) -> tuple[str, NDArray[Any]]:
        """Return the member's table of constant `name`, after a name for what is made of it.

        Equal tables have one name.
        """
        return f"{name}/{self.program.constants[name].of_member[self.member]}", self.program.constant(name, self.member)

    def weights(self, op: WeightedOp) -> tuple[str, NDArray[Any]]:
        """Return the member's weights as numbers, after a name for what is made of them."""
        return self.table(op.weights)[0], op.numbers(self.program, self.member)

    def tensor(self, value: Value) -> str:
        return self.start if value == self.program.input else tensor_name(self.program, value, self.member)

    def maps(self, value: Value, y: str) -> str:
        """Return the name of `value` as (N, C, H, W), for the op that makes `y`."""
        x = self.tensor(value)
        if not is_flat(value):
            return x
        return self.node("Unsqueeze", [x, self.graph.integers(2, 3)], f"{y}/x")

    def rows(self, value: Value, y: str) -> str:
        """Return the name of `value` as (N, C x H x W), for the op that makes `y`."""
        x = self.tensor(value)
        return x if is_flat(value) else self.node("Flatten", [x], f"{y}/x", axis=1)

    def entry(self, value: Value, y: str) -> str:
        """Return the name for the (N, C, H, W) result that `leave` turns into `y`."""
        return f"{y}/map" if is_flat(value) else y

    def leave(self, value: Value, y: str, x: str) -> None:
        """Make `y` of the (N, C, H, W) tensor `x`."""
        if is_flat(value):
            self.node("Flatten", [x], y, axis=1)

    def encode(self, op: Encode, y: str) -> None:
        """Look up codes in one long table, which holds the channels' tables in a row.

        Its index is 256 x channel + raw value.
        """
        name, table = self.table(op.table)
        index = self.node("Cast", [self.tensor(op.x)], f"{y}/raw", to=TensorProto.INT32)
        if len(table) > 1:
            offsets = (256 * np.arange(len(table), dtype=np.int32)).reshape((-1,) if is_flat(op.x) else (-1, 1, 1))
            index = self.node("Add", [index, self.constant(f"{name}/offsets", offsets)], f"{y}/index")
        codes = (table.astype(np.int16) + 128).astype(np.uint8).reshape(-1)
        self.node("Gather", [self.constant(name, codes), index], y)

    def binarize(self, op: Binarize, y: str) -> None:
        name, thresholds = self.table(op.thresholds)
        raw = self.node("Cast", [self.tensor(op.x)], f"{y}/raw", to=TensorProto.INT32)
        limits = self.constant(name, by_channel(op.x, thresholds.astype(np.int32)))
        reached = self.node("GreaterOrEqual", [raw, limits], f"{y}/reached")
        if op.y.shape == op.x.shape:
            choose(self.graph, reached, y)
        else:
            self.flatten(op.x, y, choose(self.graph, reached, f"{y}/map"))

    def flatten(self, value: Value, y: str, x: str) -> None:
        """Make the vector `y` of the map `x` in the order H, W, C."""
        if is_flat(value):
            self.node("Identity", [x], y)
            return
        last = self.node("Transpose", [x], f"{y}/channels_last", perm=[0, 2, 3, 1])
        self.node("Flatten", [last], y, axis=1)

    def convolution(self, op: Conv, y: str) -> None:
        self.require_int32(op, max(255 * 2 * op.fan_in, 4 * self.program.bounds(op)[1] + 2))
        name, signs = self.weights(op)
        signs = signs.transpose(0, 3, 1, 2)
        kernel = self.graph.signs(f"{name}/kernel", np.ascontiguousarray(signs), *TWO)
        name, thresholds = self.table(op.thresholds)
        bias = self.constant(f"{name}/bias", (1 - 2 * thresholds.astype(np.int64)).astype(np.int32))
        scale = self.constant("float32/1", np.array(1, dtype=np.float32))
        x, x_zero = self.maps(op.x, y), self.scalar("uint8", zero_point(op.x))
        weight_zero, y_zero = self.scalar("int8", 0), self.scalar("uint8", 1)
        inputs = [x, scale, x_zero, kernel, scale, weight_zero, scale, y_zero, bias]
        reached = self.node("QLinearConv", inputs, f"{y}/reached", **geometry(op.window), group=op.groups)
        if op.pool is not None:
            reached = self.pool(reached, op.pool, f"{y}/pool")
        self.leave(op.y, y, self.node("Clip", [reached, "", self.scalar("uint8", 2)], self.entry(op.y, y)))

    def summed(self, op: Conv, y: str) -> None:
        """Add a convolution or dense layer whose sums are compared apart: of levels, or with weights of 8 bits."""
        if is_product(op):
            self.decided(op, self.sum_of_product(op, y), y)
            return
        name, weights = self.weights(op)
        unsigned = f"{name}/unsigned"  # uint8 is all that old runtimes take
        kernel = np.ascontiguousarray(weights.transpose(0, 3, 1, 2))
        self.require_int32(op, 255 * (255 if op.whole else 2) * op.fan_in)
        zero = BYTE_ZERO if op.whole else 1
        if op.whole:
            self.constant(unsigned, unsigned_of(kernel))
        else:
            self.graph.signs(unsigned, kernel, np.uint8(0), np.uint8(2))
        inputs = [self.maps(op.x, y), unsigned, self.scalar("uint8", zero_point(op.x)), self.scalar("uint8", zero)]
        z = self.node("ConvInteger", inputs, f"{y}/sum", **geometry(op.window), group=op.groups)
        entry = self.entry(op.y, y)
        found = self.decided(op, z, entry if op.pool is None else f"{y}/codes")
        self.leave(op.y, y, found if op.pool is None else self.pool(found, op.pool, entry))

    def sum_of_product(self, op: Conv, result: str) -> str:
        """Add the sums of a dense layer, of which `result` is made."""
        name, weights = self.weights(op)
        if op.whole:
            row = self.rows(op.x, result)
            return self.product_of_bytes(op, row, matrix_of(weights), name, f"{result}/sum")
        self.require_int32(op, 255 * 2 * op.fan_in)
        matrix = self.graph.signs(f"{name}/matrix", matrix_of(weights), *ONE)
        return self.product(op, self.rows(op.x, result), matrix, f"{result}/sum")

    def decided(self, op: Conv, z: str, output: str) -> str:
        """Add the codes or the bits that sums `z` give, channels second."""
        name, thresholds = self.table(op.thresholds)
        shape = (1, -1) if is_product(op) else (1, -1, 1, 1)
        if op.y.is_codes:
            return self.graph.reached(z, name, thresholds, shape, output)
        limits = self.constant(f"{name}/limits", thresholds.reshape(shape))
        return choose(self.graph, self.node("GreaterOrEqual", [z, limits], f"{output}/reached"), output)

    def dense(self, op: Conv, y: str) -> None:
        self.require_int32(op, max(255 * 2 * op.fan_in, 4 * self.program.bounds(op)[1] + 2))
        name, signs = self.weights(op)
        matrix = self.graph.signs(f"{name}/matrix", matrix_of(signs), *ONE)
        z = self.product(op, self.rows(op.x, y), matrix, f"{y}/sum")
        thresholds = self.constant(*self.table(op.thresholds))
        choose(self.graph, self.node("GreaterOrEqual", [z, thresholds], f"{y}/reached"), y)

    def scores(self, op: Scores, y: str) -> None:
        name, weights = self.table(op.weights)
        row = self.rows(op.x, y)
        if op.x.element.code_bits == ELEMENTS["uint8"].stored.itemsize * 8:
            total = self.product_of_bytes(op, row, matrix_of(weights), name, f"{y}/sum", INT32_MAX // 2)
        elif weights.dtype == np.int8:
            total = self.product(op, row, self.constant(f"{name}/matrix", matrix_of(weights)), f"{y}/sum")
        else:
            # MatMulInteger takes bytes: w = 256 high + low, where low is unsigned.
            self.require_int32(op, INT32_MAX // 2 + 2 * 255 * weights[0].size)
            low = self.constant(f"{name}/low", matrix_of((weights & 255).astype(np.uint8)))
            high = self.constant(f"{name}/high", matrix_of((weights >> 8).astype(np.int8)))
            lows, highs = self.product(op, row, low, f"{y}/low"), self.product(op, row, high, f"{y}/high")
            total = self.node(
                "Add", [self.node("Mul", [highs, self.scalar("int32", 256)], f"{y}/high256"), lows], f"{y}/sum"
            )
        self.node("Add", [total, self.constant(*self.table(op.bias))], y)

    def binary_scores(self, op: BinaryScores, y: str) -> None:
        self.require_int32(op, 255 * 2 * op.fan_in)
        name, signs = self.weights(op)
        matrix = self.graph.signs(f"{name}/matrix", matrix_of(signs), *ONE)
        z = self.product(op, self.rows(op.x, y), matrix, f"{y}/sum")
        scaled = self.node("Mul", [z, self.constant(*self.table(op.multiplier))], f"{y}/scaled")
        self.node("Add", [scaled, self.constant(*self.table(op.bias))], y)

    def product(self, op: WeightedOp, row: str, matrix: str, output: str) -> str:
        return self.node("MatMulInteger", [row, matrix, self.scalar("uint8", zero_point(op.x))], output)

    def product_of_bytes(
        self, op: WeightedOp, row: str, matrix: NDArray[Any], name: str, output: str, beside: int = 0
    ) -> str:
        """Add the product with a matrix of int8 as one of uint8; `beside` bounds what is added to it afterwards.

        Products of uint8 x uint8 are not added in pairs, whose sums of int16 would saturate.
        """
        self.require_int32(op, beside + 2 * 255 * 128 * op.fan_in)
        zeros = [self.scalar("uint8", zero_point(op.x)), self.scalar("uint8", BYTE_ZERO)]
        return self.node("MatMulInteger", [row, self.constant(f"{name}/unsigned", unsigned_of(matrix)), *zeros], output)

    def pool(self, x: str, window: Window, output: str) -> str:
        """Add the maximum over the window.

        No value is below 0, so padding with 0 has no effect on the maximum. Padding of dilated windows gets its own
        node, because runtimes refuse that of `MaxPool` where it reaches the kernel's size.
        """
        return self.pool_padded_with(x, window, output, self.scalar("uint8", 0))

    def pool_padded_with(self, x: str, window: Window, output: str, pad: str) -> str:
        if any(window.padding) and window.dilation != (1, 1):
            top, left, bottom, right = window.padding
            pads = self.graph.integers(0, 0, top, left, 0, 0, bottom, right)
            x = self.node("Pad", [x, pads, pad], f"{output}/padded")
            window = Window(window.kernel, window.stride, dilation=window.dilation)
        return self.node("MaxPool", [x], output, **geometry(window))

    def sums(self, op: SumPool, y: str) -> None:
        """Add the sum of each channel under a window: a convolution by ones, of which bits give the double."""
        channels = op.x.shape[2]
        ones = self.constant(f"{y}/ones", np.ones((channels, 1, *op.window.kernel), np.uint8))
        inputs = [self.maps(op.x, y), ones, *[self.scalar("uint8", 0)] * 2]
        total = self.node("ConvInteger", inputs, f"{y}/sum", **geometry(op.window), group=channels)
        if op.x.dtype == "bits":
            total = self.node("Div", [total, self.scalar("int32", 2)], f"{y}/count")
        self.leave(op.y, y, self.node("Cast", [total], self.entry(op.y, y), to=TensorProto.UINT8))

    def require_int32(self, op: WeightedOp, largest: int) -> None:
        """Refuse an op whose sums may exceed int32.

        Runtimes add in int32, and they add before they subtract zero points.

        Raises:
            BlrcError: `largest`, a bound on the sums, is above the largest int32.
        """
        if largest > INT32_MAX:
            raise BlrcError(f"target onnx: layer {op.name!r}: its sums may not fit int32; use target c")

"""Turn each op into nodes of the float form, which has only float32 and only ops that every runtime has.

The ops are `Conv`, `MatMul`, `Add`, `Mul`, `MaxPool`, `Clip`, and those that reshape. Bits are -1 and +1, so that zero
padding adds nothing; codes are -128 to 127; raw input is float32 that holds the device's integers, with bits as 0 and
1.

A sum z is compared with a threshold t by

    Clip(gain x (z - t + 1/2), -1, 1),

where gain is part of the weights. z is an integer, so the result is -1 or +1, and the right one, as long as the
runtime's error of z is at most 1/2 - 1 / gain. All sums are integers or halves below 2^23, and float32 holds every one
of these. So a runtime that adds products makes no error, in any order. One that transforms a convolution (Winograd)
makes an error far below the limit. Ops whose sums could be larger are refused by name.

A code of several thresholds is a sum of such comparisons, each 0 or 1. A table of codes is a sum of its steps: code =
table[0] + sum of (table[k] - table[k - 1]) x [raw >= k].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from blrc.errors import BlrcError
from blrc.program.ops.binarize import Binarize
from blrc.program.program import BinaryScores, Conv, Encode, Program, Scores, SumPool, Value, WeightedOp, Window
from blrc.targets.onnx.graph import Lowering
from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.tensors import geometry, is_product, matrix_of, tensor_name, value_info

GAIN = 256.0  # a power of two; leaves an error of z up to 1/2 - 1/256 without consequence
HALVES = 2**23  # float32 holds every multiple of 1/2 up to here
INTEGERS = 2**24  # and every integer up to here


def float_info(program: Program, value: Value, member: int = 0) -> onnx.ValueInfoProto:
    """Describe the inner tensor of `value` in the float form: its name, type and shape."""
    return value_info(tensor_name(program, value, member), value, TensorProto.FLOAT)


def read_float_input(graph: Graph, program: Program) -> str:
    """Add the nodes that make the inner tensor of the program's input, and return that tensor's name."""
    raw = tensor_name(program, program.input)
    if program.input.dtype != "bits":
        return raw
    doubled = graph.node("Mul", [raw, graph.scalar("float32", 2)], f"{raw}/doubled")
    return graph.node("Add", [doubled, graph.scalar("float32", -1)], f"{raw}/signs")


class FloatLowering(Lowering):
    """Add the ops of one member to `graph` in the float form."""

    def encode(self, op: Encode, y: str) -> None:
        _, table = self.table(op.table)
        channels = op.x.shape[2]
        tables = np.broadcast_to(table.astype(np.float32), (channels, 256))
        steps = np.diff(tables, axis=1)
        count = max(1, int((steps != 0).sum(axis=1).max()))
        # The values at which each channel's code changes, and by how much; channels with fewer changes add zeros.
        order = np.argsort(steps == 0, axis=1, kind="stable")[:, :count]
        limits = (order + 1).reshape(-1)
        rises = np.take_along_axis(steps, order, axis=1).reshape(channels, count, 1, 1)
        x = self.maps(op.x, y)
        kernel = self.constant(f"{op.table}/gain", np.full((channels * count, 1, 1, 1), GAIN, dtype=np.float32))
        bias = self.constant(f"{self.table(op.table)[0]}/limits", (GAIN * (0.5 - limits)).astype(np.float32))
        x = self.node("Conv", [x, kernel, bias], f"{y}/compared", kernel_shape=[1, 1], group=channels)
        x = self.clip(x, 0, f"{y}/reached")
        kernel = self.constant(f"{self.table(op.table)[0]}/rises", rises)
        bias = self.constant(f"{self.table(op.table)[0]}/first", np.ascontiguousarray(tables[:, 0]))
        x = self.node("Conv", [x, kernel, bias], self.entry(op.y, y), kernel_shape=[1, 1], group=channels)
        self.leave(op.y, y, x)

    def binarize(self, op: Binarize, y: str) -> None:
        channels = op.x.shape[2]
        name, thresholds = self.table(op.thresholds)
        limits = np.broadcast_to(thresholds.astype(np.float32), (channels,))
        kernel = self.constant(f"{name}/gain", np.full((channels, 1, 1, 1), GAIN, dtype=np.float32))
        bias = self.constant(f"{name}/limits", (GAIN * (0.5 - limits)).astype(np.float32))
        x = self.node("Conv", [self.maps(op.x, y), kernel, bias], f"{y}/compared", kernel_shape=[1, 1], group=channels)
        if op.y.shape == op.x.shape:
            self.leave(op.y, y, self.clip(x, -1, self.entry(op.y, y)))
        else:
            self.flatten(op.x, y, self.clip(x, -1, f"{y}/map"))

    def convolution(self, op: Conv, y: str) -> None:
        bias = self.threshold(op)
        name, signs = self.weights(op)
        signs = signs.transpose(0, 3, 1, 2)
        kernel = self.constant(f"{name}/kernel", np.ascontiguousarray(GAIN * signs, dtype=np.float32))
        x = self.node("Conv", [self.maps(op.x, y), kernel, bias], f"{y}/sum", **geometry(op.window), group=op.groups)
        if op.pool is None:
            self.leave(op.y, y, self.clip(x, -1, self.entry(op.y, y)))
        else:
            self.leave(op.y, y, self.pool(self.clip(x, -1, f"{y}/reached"), op.pool, self.entry(op.y, y)))

    def summed(self, op: Conv, y: str) -> None:
        if not op.y.is_codes:
            self.dense(op, y) if is_product(op) else self.convolution(op, y)
            return
        self.check_sums(op)
        name, signs = self.weights(op)
        signs = signs.transpose(0, 3, 1, 2)
        kernel = self.constant(f"{name}/kernel", np.ascontiguousarray(GAIN * signs, dtype=np.float32))
        z = self.node("Conv", [self.maps(op.x, y), kernel], f"{y}/sum", **geometry(op.window), group=op.groups)
        name, thresholds = self.table(op.thresholds)
        codes, entry = "", self.entry(op.y, y)
        for t, limits in enumerate(thresholds.T, 1):
            bias = self.constant(f"{name}/bias{t}", (GAIN * (0.5 - limits)).astype(np.float32).reshape(-1, 1, 1))
            one = self.clip(self.node("Add", [z, bias], f"{y}/compared{t}"), 0, f"{y}/reached{t}")
            last = entry if op.pool is None else f"{y}/codes"
            codes = one if t == 1 else self.node("Add", [codes, one], last if t == len(thresholds.T) else f"{y}/{t}")
        if op.pool is not None:
            codes = self.pool(codes, op.pool, entry)
        elif len(thresholds.T) == 1:
            codes = self.node("Identity", [codes], entry)
        self.leave(op.y, y, codes)

    def dense(self, op: Conv, y: str) -> None:
        bias = self.threshold(op)
        name, signs = self.weights(op)
        weights = (GAIN * matrix_of(signs)).astype(np.float32)
        x = self.node("MatMul", [self.rows(op.x, y), self.constant(f"{name}/matrix", weights)], f"{y}/sum")
        self.clip(self.node("Add", [x, bias], f"{y}/compared"), -1, y)

    def scores(self, op: Scores, y: str) -> None:
        name, weights = self.table(op.weights)
        bias_name, bias = self.table(op.bias)
        sums = self.program.peak(op.x) * np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1)
        self.require_exact(op, int((sums + np.abs(bias.astype(np.int64))).max()), INTEGERS)
        matrix = self.constant(f"{name}/matrix", matrix_of(weights).astype(np.float32))
        x = self.node("MatMul", [self.rows(op.x, y), matrix], f"{y}/sum")
        self.node("Add", [x, self.constant(bias_name, bias.astype(np.float32))], y)

    def binary_scores(self, op: BinaryScores, y: str) -> None:
        name, signs = self.weights(op)
        multiplier_name, multiplier = self.table(op.multiplier)
        bias_name, bias = self.table(op.bias)
        most = op.fan_in * self.program.peak(op.x)
        reach = np.abs(multiplier.astype(np.int64)) * most + np.abs(bias.astype(np.int64))
        self.require_exact(op, int(reach.max()), INTEGERS)
        matrix = self.constant(f"{name}/matrix", matrix_of(signs).astype(np.float32))
        z = self.node("MatMul", [self.rows(op.x, y), matrix], f"{y}/sum")
        scaled = self.node("Mul", [z, self.constant(multiplier_name, multiplier.astype(np.float32))], f"{y}/scaled")
        self.node("Add", [scaled, self.constant(bias_name, bias.astype(np.float32))], y)

    def pool(self, x: str, window: Window, output: str) -> str:
        """Add the maximum over the window.

        No value is below -1, so padding with -1 has no effect on the maximum.
        """
        return self.pool_padded_with(x, window, output, self.graph.scalar("float32", -1))

    def sums(self, op: SumPool, y: str) -> None:
        """Add the sum of each channel under a window; of bits, -1 becomes 0 before anything is padded with 0."""
        channels, x = op.x.shape[2], self.maps(op.x, y)
        if op.x.dtype == "bits":
            half = self.constant("float32/half", np.array(0.5, np.float32))
            x = self.node("Add", [self.node("Mul", [x, half], f"{y}/halves"), half], f"{y}/bits")
        ones = self.constant(f"{y}/ones", np.ones((channels, 1, *op.window.kernel), np.float32))
        x = self.node("Conv", [x, ones], self.entry(op.y, y), **geometry(op.window), group=channels)
        self.leave(op.y, y, x)

    def clip(self, x: str, low: int, output: str) -> str:
        return self.node("Clip", [x, self.graph.scalar("float32", low), self.graph.scalar("float32", 1)], output)

    def threshold(self, op: Conv) -> str:
        """Add the bias that makes a sum's sign the comparison with its threshold, and return its name."""
        self.check_sums(op)
        name, thresholds = self.table(op.thresholds)
        bias: NDArray[Any] = (GAIN * (0.5 - thresholds)).astype(np.float32)
        return self.constant(f"{name}/bias", bias)

    def check_sums(self, op: Conv) -> None:
        """Refuse an op whose sums, less a threshold, float32 might not hold exactly."""
        low, high = self.program.bounds(op)
        _, thresholds = self.table(op.thresholds)
        self.require_exact(op, max(-low, high) + int(np.abs(thresholds.astype(np.int64)).max()) + 1, HALVES)

    def require_exact(self, op: WeightedOp, largest: int, bound: int) -> None:
        if largest > bound:
            raise BlrcError(
                f"target onnx: layer {op.name!r}: its sums reach {largest}, which float32 does not hold exactly (up to "
                f"{bound}); leave out --onnx-form float"
            )

"""Lower nets to a program by an ordered list of small passes. What follows them uses only NumPy and integers.

The passes are, in this order:

    translate       each layer to ops in H, W, C, with flips and thresholds (`blrc.lowering.fold`); flatten
                    disappears into the dense weights
    fuse_pools      max pooling into the convolution that feeds it
    join            members side by side, equal constants stored once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering import affine
from blrc.lowering.calibrate import folded
from blrc.net.bits import pack_signs
from blrc.net.encoding import InputEncoding
from blrc.net.net import Dense, Flatten, MaxPool, Net, Softmax, check_finite
from blrc.net.pieces import ScoreStage, Stage, pieces
from blrc.net.shapes import check_shapes
from blrc.net.window import Window
from blrc.program.head import SMALLEST_SCALE
from blrc.program.legal import check
from blrc.program.program import BinaryScores, Constant, Conv, Encode, Op, Pool, Program, Scores, Value


@dataclass(frozen=True, eq=False)
class Lowered:
    """Hold one op with its constants for one member."""

    op: Op
    tables: Mapping[str, NDArray[Any]]


def lower(nets: Sequence[Net], gate: int = 0) -> Program:
    """Return the program of calibrated nets that are members of one ensemble (same structure, other weights).

    Args:
        gate: see `Program.gate`.

    Raises:
        BlrcError: a network without an exact integer form (layer named), or values that are not finite.
    """
    if not nets:
        raise BlrcError("an ensemble needs at least one member")
    scale = score_scale(nets)
    members = [fuse_pools(translate(net, scale)) for net in nets]
    value = _input_value(nets[0])
    return check(replace(join(value, members, tuple(net.member for net in nets), scale), gate=gate))


def score_scale(nets: Sequence[Net]) -> float:
    """Return the real score of one integer unit, which all members share; the largest weight becomes 127.

    If all weights are 0 there are only biases, and the largest of them becomes 2^16. The scale is never below
    `SMALLEST_SCALE`. A binary last layer has its own rule (`blrc.lowering.affine.score_scale`).
    """
    binary = [last for net in nets if isinstance(last := pieces(net)[-1], ScoreStage)]
    if binary:
        return affine.score_scale(binary)
    peak = bias = 0.0
    for net in nets:
        for layer in net.layers:
            if isinstance(layer, Softmax):
                check_finite(layer.name, "weight", layer.weights)
                check_finite(layer.name, "bias", layer.bias)
                peak = max(peak, float(np.abs(layer.weights).max()))
                bias = max(bias, float(np.abs(layer.bias).max()))
    return max(peak / 127.0 or bias / 2**16 or 1.0, SMALLEST_SCALE)


def translate(net: Net, scale: float) -> list[Lowered]:
    """Translate each piece of the net to its ops."""
    check_shapes(net)
    x = _input_value(net)
    lowered: list[Lowered] = []
    if net.encoding.kind == "uint8":
        y = Value("codes", "int8", x.shape)
        table = "input.table"
        lowered.append(Lowered(Encode("input.encode", x, y, table), {table: net.encoding.table()}))
        x = y
    inverted = np.zeros(x.shape[2], dtype=bool)
    """The channels of x whose bits stand for their opposites."""
    for piece in pieces(net):
        if isinstance(piece, Flatten):
            continue  # The dense layer behind it reads the map as it lies.
        if isinstance(piece, Stage):
            item, inverted = _conv(piece, x, inverted, net.encoding)
            lowered.append(item)
            x = item.op.y
            for pool in piece.pools:
                lowered.append(_pool(pool, x))
                x = lowered[-1].op.y
        elif isinstance(piece, MaxPool):
            if inverted.any():
                lowered.append(_turned_back(piece, x, inverted))
                x, inverted = lowered[-1].op.y, np.zeros_like(inverted)
            lowered.append(_pool(piece, x))
            x = lowered[-1].op.y
        elif isinstance(piece, ScoreStage):
            lowered.append(_binary_scores(piece, x, inverted, scale))
        else:
            lowered.append(_scores(piece, x, inverted, scale))
    return lowered


def fuse_pools(lowered: Sequence[Lowered]) -> list[Lowered]:
    """Move max pooling into the convolution before it.

    After the flip, max pooling is an OR of bits and commutes with thresholds.
    """
    fused: list[Lowered] = []
    for item in lowered:
        last = fused[-1] if fused else None
        if isinstance(item.op, Pool) and last is not None and isinstance(last.op, Conv) and last.op.pool is None:
            y = replace(last.op.y, shape=item.op.y.shape)
            fused[-1] = Lowered(replace(last.op, y=y, pool=item.op.window), last.tables)
        else:
            x = fused[-1].op.y if fused else item.op.x
            fused.append(Lowered(replace(item.op, x=x), item.tables))
    return fused


def join(value: Value, members: Sequence[Sequence[Lowered]], names: tuple[str, ...], scale: float) -> Program:
    """Put members side by side in one program. Their ops must be equal, and equal tables are stored once."""
    ops = tuple(item.op for item in members[0])
    for other, name in zip(members, names, strict=True):
        if tuple(item.op for item in other) != ops:
            raise BlrcError(
                f"member {name!r} has another structure than {names[0]!r}; members come from one checkpoint"
            )
    constants: dict[str, Constant] = {}
    for position, item in enumerate(members[0]):
        for name in item.tables:
            constants[name] = _share([member[position].tables[name] for member in members])
    return Program(value, ops, constants, names, scale)


def _share(tables: Sequence[NDArray[Any]]) -> Constant:
    stored: dict[bytes, int] = {}
    kept: list[NDArray[Any]] = []
    index: list[int] = []
    for table in tables:
        key = table.tobytes()
        if key not in stored:
            stored[key] = len(kept)
            kept.append(table)
        index.append(stored[key])
    return Constant(tuple(kept), tuple(index))


def _input_value(net: Net) -> Value:
    return Value("input", net.encoding.kind, _device_shape(net.encoding.shape))


def _device_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    return (shape[1], shape[2], shape[0]) if len(shape) == 3 else (1, 1, shape[0])


def _conv(
    stage: Stage, x: Value, inverted: NDArray[np.bool_], encoding: InputEncoding
) -> tuple[Lowered, NDArray[np.bool_]]:
    """Return the op of a stage, and which channels of its output are inverted."""
    linear = stage.linear
    if isinstance(linear, Dense):
        window, groups = Window(x.shape[:2]), 1
        weights = _turn_rows(linear.weights, x.shape)
    else:
        window, groups = linear.window, linear.groups
        weights = linear.weights.transpose(0, 2, 3, 1)
    size = window.output(*x.shape[:2])
    y = Value(f"{linear.name}.bits", "bits", (*size, len(weights)))
    op = Conv(linear.name, x, y, f"{linear.name}.weights", f"{linear.name}.thresholds", window, groups)
    rule = folded(stage, encoding, x.dtype == "bits")
    seen = np.repeat(inverted.reshape(groups, -1), len(weights) // groups, axis=0)  # by each output
    negated = rule.flip[:, None, None, None] != seen[:, None, None, :]
    signs = np.where(negated, -weights, weights)
    return Lowered(op, {op.weights: pack_signs(signs), op.thresholds: rule.threshold}), rule.inverted


def _turned_back(pool: MaxPool, x: Value, inverted: NDArray[np.bool_]) -> Lowered:
    """Return an op that undoes inversions before a pool, which needs true bits: each channel is multiplied by +-1."""
    channels = x.shape[2]
    y = Value(f"{pool.name}.turned.bits", "bits", x.shape)
    op = Conv(
        f"{pool.name}.turned", x, y, f"{pool.name}.turned.weights", f"{pool.name}.turned.thresholds",
        Window((1, 1)), channels,
    )  # fmt: skip
    signs = np.where(inverted, np.int8(-1), np.int8(1)).reshape(channels, 1, 1, 1)
    return Lowered(op, {op.weights: pack_signs(signs), op.thresholds: np.zeros(channels, dtype=np.int32)})


def _pool(pool: MaxPool, x: Value) -> Lowered:
    y = Value(f"{pool.name}.bits", "bits", (*pool.window.output(*x.shape[:2]), x.shape[2]))
    return Lowered(Pool(pool.name, x, y, pool.window), {})


def _choice(layer: str, outputs: int) -> int:
    """Return the number of classes of the last layer, and refuse a single one, whose label would say nothing."""
    if outputs < 2:
        raise BlrcError(
            f"layer {layer!r}: one output is no choice: its label would always be 0; give an output for each answer"
        )
    return outputs


def _scores(softmax: Softmax, x: Value, inverted: NDArray[np.bool_], scale: float) -> Lowered:
    classes = _choice(softmax.name, len(softmax.weights))
    y = Value("scores", "int32", (1, 1, classes))
    op = Scores(softmax.name, x, y, f"{softmax.name}.weights", f"{softmax.name}.bias")
    rows = _turn_rows(softmax.weights, x.shape)
    weights = np.rint(np.where(inverted, -rows, rows) / scale).astype(np.int8)
    bias = np.rint(softmax.bias / scale)
    if np.abs(bias).max(initial=0.0) >= 2**30:
        raise BlrcError(
            f"layer {softmax.name!r}: its bias is over {2**30} times its largest weight's step; it would overflow"
        )
    return Lowered(op, {op.weights: weights, op.bias: bias.astype(np.int32)})


def _binary_scores(stage: ScoreStage, x: Value, inverted: NDArray[np.bool_], scale: float) -> Lowered:
    name = stage.linear.name
    y = Value("scores", "int32", (1, 1, _choice(name, len(stage.linear.weights))))
    op = BinaryScores(name, x, y, f"{name}.weights", f"{name}.multiplier", f"{name}.bias")
    scores = affine.affine(stage, Fraction(scale))
    rows = _turn_rows(stage.linear.weights, x.shape)
    tables = {
        op.weights: pack_signs(np.where(inverted, -rows, rows)),
        op.multiplier: scores.multiplier.astype(np.int32),
        op.bias: scores.bias.astype(np.int32),
    }
    return Lowered(op, tables)


def _turn_rows(rows: NDArray[Any], shape: tuple[int, int, int]) -> NDArray[Any]:
    """Turn rows over a flattened C, H, W map into an array (rows, H, W, C)."""
    height, width, channels = shape
    return np.ascontiguousarray(rows.reshape(len(rows), channels, height, width).transpose(0, 2, 3, 1))

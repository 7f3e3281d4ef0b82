"""Translate a net to ops in H, W, C, with flips and thresholds, for one member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering import affine
from blrc.lowering.calibrate import folded
from blrc.net import net as ir
from blrc.net.bits import pack_signs, pack_ternary
from blrc.net.elements import ELEMENTS, DType, code_type, sum_bits
from blrc.net.encoding import InputEncoding
from blrc.net.net import AveragePool, Dense, Levels, MaxPool, Net, Softmax
from blrc.net.pieces import Piece, ScoreStage, Stage, pieces
from blrc.net.shapes import check_shapes
from blrc.net.window import Window
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten, saves_words
from blrc.program.program import BinaryScores, Conv, Encode, Op, Pool, Scores, SumPool, Value

HEADS = "heads"
"""The name of the op that makes the scores of all heads, where there are several."""


@dataclass(frozen=True, eq=False)
class Lowered:
    """Hold one op with its constants for one member."""

    op: Op
    tables: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class _Here:
    """Describe the value that the next op reads.

    Attributes:
        x: the value.
        map: the shape of the map whose values it holds in the order H, W, C; it may be a vector of them.
        inverted: the channels of x whose bits stand for their opposites.
    """

    x: Value
    map: tuple[int, int, int]
    inverted: NDArray[np.bool_]

    @staticmethod
    def of(x: Value, inverted: NDArray[np.bool_] | None = None) -> _Here:
        return _Here(x, x.shape, np.zeros(x.shape[2], dtype=bool) if inverted is None else inverted)

    def rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Turn rows over the map, flattened in the order C, H, W, into an array (rows, *x.shape) for the bits held."""
        height, width, channels = self.map
        turned = (
            rows.reshape(len(rows), channels, height, width).transpose(0, 2, 3, 1).reshape(len(rows), *self.x.shape)
        )
        return np.ascontiguousarray(np.where(self.inverted, -turned, turned) if self.inverted.any() else turned)


def translate(net: Net, scales: Sequence[float]) -> list[Lowered]:
    """Translate each piece of the net to its ops.

    Args:
        scales: of each head, or of the only one, the real score of one integer unit
            (`blrc.lowering.lower.score_scale`).
    """
    check_shapes(net)
    found = pieces(net)
    here = _Here.of(input_value(net))
    lowered: list[Lowered] = []
    ends: list[Softmax | ScoreStage] = []
    if net.encoding.kind == "uint8":
        lowered.append(_input(net.encoding, here.x, _is_packed(found, here.x.shape)))
        here = _Here(lowered[-1].op.y, here.map, np.zeros(lowered[-1].op.y.shape[2], dtype=bool))
    for place, piece in enumerate(found):
        if isinstance(piece, ir.Flatten):
            if here.x.dtype == "bits" and here.x.shape == here.map and _is_packed(found[place:], here.map):
                lowered.append(_flatten(piece, here.x))
                inverted = np.tile(here.inverted, here.map[0] * here.map[1])
                here = _Here(lowered[-1].op.y, here.map, inverted)
        elif isinstance(piece, Stage):
            item, inverted = _conv(piece, here, net.encoding)
            lowered.append(item)
            here = _Here.of(item.op.y, inverted)
            for pool in piece.pools:
                lowered.append(_pool(pool, here.x))
                here = _Here.of(lowered[-1].op.y, inverted)
            if isinstance(piece.sign, Levels) and inverted.any():  # no weight undoes it where padding is code 0
                lowered.append(_turned_back(piece.sign.name, here))
                here = _Here.of(lowered[-1].op.y)
        elif isinstance(piece, MaxPool | AveragePool):
            if here.inverted.any():
                lowered.append(_turned_back(piece.name, here))
                here = _Here.of(lowered[-1].op.y)
            lowered.append(_pool(piece, here.x) if isinstance(piece, MaxPool) else _sums(piece, here.x))
            here = _Here.of(lowered[-1].op.y)
        else:
            ends.append(piece)
    if not net.values:
        for end in ends:
            _choice(end)
    lowered.append(_end(ends, here, scales, {item.op.name for item in lowered}))
    return lowered


def input_value(net: Net) -> Value:
    """Return the value that a net's raw input is."""
    shape = net.encoding.map_shape
    return Value("input", net.encoding.kind, (shape[1], shape[2], shape[0]) if len(shape) == 3 else (1, 1, shape[0]))


def _is_packed(rest: list[Piece], shape: tuple[int, int, int]) -> bool:
    """Return whether a flatten comes first, a binary dense layer next, and its rows take fewer words without gaps."""
    dense = len(rest) > 1 and isinstance(rest[0], ir.Flatten) and isinstance(rest[1], Stage | ScoreStage)
    return dense and saves_words(shape)


def _input(encoding: InputEncoding, x: Value, packed: bool) -> Lowered:
    """Return the op that makes codes or bits of raw uint8 input."""
    if encoding.at:
        shape = (1, 1, prod(x.shape)) if packed else x.shape
        op = Binarize("input.binarize", x, Value("input.bits", "bits", shape), "input.thresholds")
        return Lowered(op, {op.thresholds: np.array(encoding.at, dtype=np.int16)})
    encode = Encode("input.encode", x, Value("codes", "int8", x.shape), "input.table")
    return Lowered(encode, {encode.table: encoding.table()})


def _flatten(flatten: ir.Flatten, x: Value) -> Lowered:
    return Lowered(Flatten(flatten.name, x, Value(f"{flatten.name}.bits", "bits", (1, 1, prod(x.shape)))), {})


def _conv(stage: Stage, here: _Here, encoding: InputEncoding) -> tuple[Lowered, NDArray[np.bool_]]:
    """Return the op of a stage, and which channels of its output are inverted."""
    linear, x = stage.linear, here.x
    if isinstance(linear, Dense):
        window, groups = Window(x.shape[:2]), 1
        weights = here.rows(linear.weights)
    else:
        window, groups = linear.window, linear.groups
        seen = np.repeat(here.inverted.reshape(groups, -1), len(linear.weights) // groups, axis=0)  # by each output
        weights = linear.weights.transpose(0, 2, 3, 1)
        weights = np.where(seen[:, None, None, :], -weights, weights)
    size = window.output(*x.shape[:2])
    rule = folded(stage, encoding, x.dtype == "bits")  # levels that it reads are known to the stage
    dtype: DType = code_type(stage.sign.bits) if isinstance(stage.sign, Levels) else "bits"
    y = Value(f"{linear.name}.bits", dtype, (*size, len(weights)))
    names = f"{linear.name}.weights", f"{linear.name}.thresholds"
    held = np.where(rule.flip[:, None, None, None], -weights, weights)
    op = Conv(linear.name, x, y, *names, window, groups, ternary=linear.ternary)
    if linear.unit is not None:  # in as few bits as its weights take
        op = replace(op, ternary=bool(np.abs(held).max() <= 1 and not held.all()), whole=bool(np.abs(held).max() > 1))
    rows = np.ascontiguousarray(held) if op.whole else (pack_ternary if op.ternary else pack_signs)(held)
    return Lowered(op, {op.weights: rows, op.thresholds: rule.threshold}), rule.inverted


def _turned_back(layer: str, here: _Here) -> Lowered:
    """Return an op that undoes inversions: each channel is multiplied by +-1, and codes are counted from their largest.

    A pool needs true bits, and whoever reads codes true codes.
    """
    x, channels = here.x, here.x.shape[2]
    y = Value(f"{layer}.turned.bits", x.dtype, x.shape)
    op = Conv(
        f"{layer}.turned", x, y, f"{layer}.turned.weights", f"{layer}.turned.thresholds", Window((1, 1)), channels
    )
    signs = np.where(here.inverted, np.int8(-1), np.int8(1)).reshape(channels, 1, 1, 1)
    thresholds = np.zeros(channels, dtype=np.int32)
    if x.dtype != "bits":
        most = ELEMENTS[x.dtype].high
        thresholds = np.arange(1, most + 1, dtype=np.int32) - np.where(here.inverted, most, 0)[:, None].astype(np.int32)
    return Lowered(op, {op.weights: pack_signs(signs), op.thresholds: thresholds})


def _pool(pool: MaxPool, x: Value) -> Lowered:
    y = Value(f"{pool.name}.bits", x.dtype, (*pool.window.output(*x.shape[:2]), x.shape[2]))
    return Lowered(Pool(pool.name, x, y, pool.window), {})


def _sums(pool: AveragePool, x: Value) -> Lowered:
    assert pool.window is not None, "pieces gives it one"
    dtype = code_type(sum_bits(pool.window.taps, x.element.high))
    y = Value(f"{pool.name}.sums", dtype, (*pool.window.output(*x.shape[:2]), x.shape[2]))
    return Lowered(SumPool(pool.name, x, y, pool.window), {})


def _choice(end: Softmax | ScoreStage) -> None:
    """Refuse a last layer of a single class, whose label would say nothing."""
    layer, weights = (end.name, end.weights) if isinstance(end, Softmax) else (end.linear.name, end.linear.weights)
    if len(weights) < 2:
        raise BlrcError(
            f"layer {layer!r}: one output is no choice: its label would always be 0; give an output for each answer, "
            'or, if it is a value and no class, outputs="values" to blrc.save'
        )


def _end(ends: Sequence[Softmax | ScoreStage], here: _Here, scales: Sequence[float], taken: set[str]) -> Lowered:
    """Return the op that makes the scores: one layer, in which the rows of all heads lie side by side."""
    name = ends[0].linear.name if isinstance(ends[0], ScoreStage) else ends[0].name
    if len(ends) > 1:
        name = next(word for word in (HEADS + "_" * extra for extra in range(len(taken) + 1)) if word not in taken)
    ternary = any(isinstance(end, ScoreStage) and end.linear.ternary for end in ends)
    parts = [
        _binary_scores(end, here, scale, ternary) if isinstance(end, ScoreStage) else _scores(end, here, scale)
        for end, scale in zip(ends, scales, strict=True)
    ]
    tables = {f"{name}.{role}": np.concatenate([part[role] for part in parts]) for role in parts[0]}
    y = Value("scores", "int32", (1, 1, len(tables[f"{name}.bias"])))
    if not isinstance(ends[0], ScoreStage):
        return Lowered(Scores(name, here.x, y, *tables), tables)
    return Lowered(BinaryScores(name, here.x, y, *tables, ternary=ternary), tables)


def _scores(softmax: Softmax, here: _Here, scale: float) -> dict[str, NDArray[Any]]:
    weights = np.rint(here.rows(softmax.weights) / scale).astype(np.int8)
    bias = softmax.biases(weights.reshape(len(weights), -1).astype(np.int64), scale)
    if np.abs(bias).max(initial=0.0) >= 2**30:
        raise BlrcError(
            f"layer {softmax.name!r}: its bias is over {2**30} times its largest weight's step; it would overflow"
        )
    return {"weights": weights, "bias": bias.astype(np.int32)}


def _binary_scores(stage: ScoreStage, here: _Here, scale: float, ternary: bool) -> dict[str, NDArray[Any]]:
    scores = affine.affine(stage, Fraction(scale))
    return {
        "weights": (pack_ternary if ternary else pack_signs)(here.rows(stage.linear.weights)),
        "multiplier": scores.multiplier.astype(np.int32),
        "bias": scores.bias.astype(np.int32),
    }

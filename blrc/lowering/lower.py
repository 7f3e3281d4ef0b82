"""Lower nets to a program by an ordered list of small passes. What follows them uses only NumPy and integers.

The passes are, in this order:

    translate       each layer to ops in H, W, C, with flips and thresholds (`blrc.lowering.translate`); flatten
                    disappears into the dense weights, or packs bits without gaps
    fuse_pools      max pooling into the convolution that feeds it
    join            members side by side, equal constants stored once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering import affine
from blrc.lowering.translate import Lowered, input_value, translate
from blrc.net.net import LARGEST_WEIGHT, Net, Reals, Softmax, check_finite
from blrc.net.pieces import ScoreStage, pieces
from blrc.net.shapes import check_shapes
from blrc.program import values
from blrc.program.head import SMALLEST_SCALE
from blrc.program.heads import Head
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Pool, Program, Value

FEW = 64
"""Weights of a last layer that are looked at first."""
ROUNDED = 1e-12
"""Relative distance from whole numbers that products of floats may have."""


def lower(nets: Sequence[Net], gate: int = 0) -> Program:
    """Return the program of calibrated nets that are members of one ensemble (same structure, other weights).

    Args:
        gate: see `Program.gate`.

    Raises:
        BlrcError: a network without an exact integer form (layer named), or values that are not finite.
    """
    if not nets:
        raise BlrcError("an ensemble needs at least one member")
    ends = nets[0].heads
    scales = [score_scale([net.upto(layer) for net in nets]) for _, layer in ends] or [score_scale(nets)]
    members = [fuse_pools(translate(net, scales)) for net in nets]
    value = input_value(nets[0])
    program = join(value, members, tuple(net.member for net in nets), scales[0])
    shapes = check_shapes(nets[0])
    heads = [Head(name, shapes[layer][0], scale) for (name, layer), scale in zip(ends, scales, strict=False)]
    return check(replace(program, gate=gate, heads=tuple(heads), values=nets[0].values))


def score_scale(nets: Sequence[Net]) -> float:
    """Return the real score of one integer unit, which all members share; the largest weight becomes 127.

    Where all weights are whole numbers times one unit, as in networks that were quantised elsewhere, a part of that
    unit is taken, so that no weight is rounded.

    If all weights are 0 there are only biases, and the largest of them becomes 2^16. The scale is never below
    `SMALLEST_SCALE`, that of values, of which no softmax is taken, not below `values.SMALLEST_SCALE`. A binary last
    layer has its own rule (`blrc.lowering.affine.score_scale`).

    Raises:
        BlrcError: a weight or bias is not finite, or all weights are so small beside that scale that they would vanish.
    """
    binary = [last for net in nets if isinstance(last := pieces(net)[-1], ScoreStage)]
    gives_values = bool(nets[0].values)
    if binary:
        return affine.score_scale(binary, gives_values)
    smallest = values.SMALLEST_SCALE if gives_values else SMALLEST_SCALE
    peak, bias, name = 0.0, 0.0, ""
    ends: list[Softmax] = []
    for net in nets:
        last = pieces(net)[-1]
        if isinstance(last, Softmax) and isinstance(net.layers[-1], Softmax):
            check_finite(last.name, "weight", last.weights)
            check_finite(last.name, "bias", last.bias)
            peak = max(peak, float(np.abs(last.weights).max()))
            bias = max(bias, float(np.abs(last.bias).max()))
            name = last.name
            ends.append(last)
    if 0 < peak < smallest / 2:
        raise BlrcError(
            f"layer {name!r}: its weights (times the step of the levels that it reads) are at most {peak:.1e}, and "
            f"would all become 0, since the unit of scores is at least {smallest:.1e}; multiply weights and "
            "bias, or the step, by a power of two"
        )
    if peak and (unit := _whole_unit([last.weights for last in ends], peak)) >= smallest:
        return unit
    return max(peak / 127.0 or bias / 2**16 or 1.0, smallest)


def _whole_unit(weights: Sequence[Reals], peak: float) -> float:
    """Return the unit of which last layers' weights are whole numbers up to 127, as large ones as fit; 0 if none is."""
    few = [table.reshape(-1)[:FEW] for table in weights]  # which leave no unit in most networks
    for most in range(1, LARGEST_WEIGHT + 1):
        if all(_are_whole(each * (most / peak), most) for each in (*few, *weights)):
            return peak / (LARGEST_WEIGHT // most * most)
    return 0.0


def _are_whole(numbers: Reals, most: int) -> bool:
    return bool(np.abs(numbers - np.rint(numbers)).max(initial=0.0) <= ROUNDED * most)


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

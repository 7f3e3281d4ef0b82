"""Make programs of other sizes, to say what would fit: fewer members, shared layers, narrower layers.

Constants whose values do not matter for the size are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from blrc.net.window import Window
from blrc.program.ops.flatten import Flatten, saves_words
from blrc.program.program import BinaryScores, Constant, Conv, Op, Program, Value, WeightedOp


def first_members(program: Program, count: int) -> Program:
    """Return the program of the first `count` members alone; the gate stays if more than one is left."""

    def cut(constant: Constant) -> Constant:
        of_member = constant.of_member[:count]
        used = sorted(set(of_member))
        return Constant(tuple(constant.tables[i] for i in used), tuple(used.index(i) for i in of_member))

    return replace(
        program,
        constants={name: cut(constant) for name, constant in program.constants.items()},
        members=program.members[:count],
        gate=program.gate if count > 1 else 0,
    )


def shared_weights(program: Program, layers: Collection[str]) -> Program:
    """Return the program in which all members share one table of weights in each of these layers."""
    shared = {op.weights for op in program.ops if isinstance(op, WeightedOp) and op.packed and op.name in layers}

    def share(name: str, constant: Constant) -> Constant:
        return Constant(constant.tables[:1], (0,) * len(constant.of_member)) if name in shared else constant

    return replace(program, constants={name: share(name, constant) for name, constant in program.constants.items()})


def narrower(program: Program, width: Fraction) -> Program | None:
    """Return the program with `width` of the channels in every layer but the last, and with zeros as weights.

    Return None if a layer has groups of several channels, which cannot be divided in this way.
    """
    values = {program.input.name: program.input}
    ops: list[Op] = []
    flat: dict[str, Flatten] = {}
    constants: dict[str, Constant] = {}
    for op in program.ops:
        if isinstance(op, Flatten):
            flat[op.y.name], values[op.y.name] = op, values[op.x.name]
            continue
        x = values[op.x.name]
        if (packed := _packed(op, flat.get(op.x.name), x)) is not None:
            ops.append(packed)
            x = packed.y
        if isinstance(op, Conv) and _is_dense(op):
            op = replace(op, window=Window(x.shape[:2]))
        made: Op | None = op.resized(x, max(1, round(op.y.shape[2] * width)))
        if made is None:
            return None
        values[made.y.name] = made.y
        ops.append(made)
        for declared in made.tables():
            constant = program.constants[declared.constant]
            if made != op:
                zeros = tuple(np.zeros(declared.shape, table.dtype) for table in constant.tables)
                constant = Constant(zeros, constant.of_member)
            constants[declared.constant] = constant
    return replace(program, ops=tuple(ops), constants=constants)


def _packed(op: Op, flat: Flatten | None, x: Value) -> Flatten | None:
    """Return what packs the map `x` for an op of the narrower network, where it reads its bits without gaps.

    Args:
        op: the op in the whole network.
        flat: what packs the map for it there, or None if nothing does.
        x: the map in the narrower network.
    """
    dense, saves = _is_dense(op), saves_words(x.shape)
    if flat is not None:
        return flat.resized(x, x.shape[2]) if saves or not dense else None
    # A convolution over its whole map keeps the gaps that it reads in the whole network; a dense layer has none there.
    if not dense or not saves or saves_words(op.x.shape):
        return None
    name = f"{op.name}.flat"
    return Flatten(name, x, Value(f"{name}.bits", "bits", (1, 1, prod(x.shape))))


def _is_dense(op: Op) -> bool:
    """Return whether an op is a binary dense layer on bits."""
    if isinstance(op, Conv):
        return op.is_binary and op.is_dense and op.groups == 1 and not any(op.window.padding)
    return isinstance(op, BinaryScores)


def largest(low: int, high: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number from `low` to `high` that fits, or None if not even `low` does.

    Every number below one that fits must fit too.
    """
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low

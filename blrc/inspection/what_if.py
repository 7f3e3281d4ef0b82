"""Make programs of other sizes, to say what would fit: fewer members, shared layers, narrower layers.

Constants whose values do not matter for the size are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

import numpy as np

from blrc.net.bits import words
from blrc.program.program import BinaryScores, Constant, Conv, Encode, Op, Pool, Program, Scores, Value


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
    shared = {op.weights for op in program.ops if isinstance(op, Conv | BinaryScores) and op.name in layers}

    def share(name: str, constant: Constant) -> Constant:
        return Constant(constant.tables[:1], (0,) * len(constant.of_member)) if name in shared else constant

    return replace(program, constants={name: share(name, constant) for name, constant in program.constants.items()})


def narrower(program: Program, width: Fraction) -> Program | None:
    """Return the program with `width` of the channels in every layer but the last, and with zeros as weights.

    Return None if a layer has groups of several channels, which cannot be divided in this way.
    """
    values = {program.input.name: program.input}
    ops: list[Op] = []
    constants: dict[str, Constant] = {}

    def thin(value: Value) -> Value:
        height, channels = value.shape[:2], value.shape[2]
        values[value.name] = replace(value, shape=(*height, max(1, round(channels * width))))
        return values[value.name]

    def zeros(name: str, shape: tuple[int, ...]) -> None:
        constant = program.constants[name]
        tables = tuple(np.zeros(shape, table.dtype) for table in constant.tables)
        constants[name] = Constant(tables, constant.of_member)

    def keep(*names: str) -> None:
        constants.update({name: program.constants[name] for name in names})

    for op in program.ops:
        x = values[op.x.name]
        if isinstance(op, Encode):
            keep(op.table)
            values[op.y.name] = op.y
            ops.append(op)
        elif isinstance(op, Conv):
            groups, y = op.groups, thin(op.y)
            if groups > 1:
                if groups != op.x.shape[2]:
                    return None
                groups = x.shape[2]
                y = values[y.name] = replace(y, shape=(*y.shape[:2], groups * (op.y.shape[2] // op.groups)))
            zeros(op.weights, (y.shape[2], *op.window.kernel, words(x.shape[2] // groups)))
            zeros(op.thresholds, (y.shape[2],))
            ops.append(replace(op, x=x, y=y, groups=groups))
        elif isinstance(op, Pool):
            y = values[op.y.name] = replace(op.y, shape=(*op.y.shape[:2], x.shape[2]))
            ops.append(replace(op, x=x, y=y))
        elif isinstance(op, Scores):
            zeros(op.weights, (program.classes, *x.shape))
            keep(op.bias)
            ops.append(replace(op, x=x))
        elif isinstance(op, BinaryScores):
            zeros(op.weights, (program.classes, *x.shape[:2], words(x.shape[2])))
            keep(op.multiplier, op.bias)
            ops.append(replace(op, x=x))
        else:
            assert_never(op)
    return replace(program, ops=tuple(ops), constants=constants)


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

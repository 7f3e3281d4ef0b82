"""Make programs of other sizes, to say what would fit: fewer members, shared layers, narrower layers.

Constants whose values do not matter for the size are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction

import numpy as np

from blrc.program.program import Constant, Op, Program, WeightedOp


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
    constants: dict[str, Constant] = {}
    for op in program.ops:
        made: Op | None = op.resized(values[op.x.name], max(1, round(op.y.shape[2] * width)))
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

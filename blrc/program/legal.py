"""Define in code what is legal in a program; what is legal in an op its record says (`blrc.program.ops`)."""

from __future__ import annotations

from math import prod

import numpy as np

from blrc.errors import BlrcError
from blrc.net.heads import check_heads, check_units
from blrc.program import head, values
from blrc.program.ops.end import End
from blrc.program.ops.op import MOST_VALUES
from blrc.program.ops.registry import kind_of
from blrc.program.program import Program

MOST_TOGETHER = 1 << 25
"""Values of all maps of a program together, which `blrc verify` compares at once: 70 times those of the CIFAR-10
network at full width. Each map alone can be small, and there can be thousands of them in a small file."""

MOST_OPS = 1_000
"""Ops of a program: the deepest networks have some hundreds. Each becomes some kilobytes of C and ONNX."""


def check(program: Program) -> Program:
    """Return `program` if it is legal; otherwise raise a `BlrcError` that names the op and the rule it breaks."""
    if not program.members:
        raise BlrcError("program: it has no members")
    if len(program.members) > head.MAX_MEMBERS:
        raise BlrcError(f"program: {len(program.members)} members; sums of log-probabilities hold {head.MAX_MEMBERS}")
    for op in program.ops:
        kind_of(op)
    if not program.ops or not program.ops[-1].is_scores:
        raise BlrcError("program: the last op must be the scores")
    smallest = values.SMALLEST_SCALE if program.values else head.SMALLEST_SCALE
    for scale in (program.score_scale, *(each.score_scale for each in program.heads)):
        if not (np.isfinite(scale) and scale >= smallest):
            raise BlrcError(f"program: score_scale {scale} must be finite and at least {smallest}")
    if program.input.is_codes:
        raise BlrcError(f"program: its input is {program.input.dtype}, which only layers make; give raw values or bits")
    if len(program.ops) > MOST_OPS:
        raise BlrcError(f"program: {len(program.ops):,} ops; at most {MOST_OPS:,} are compiled")
    _check_gate(program)
    _check_heads(program)
    _check_units(program)
    known = {program.input.name: program.input}
    names: set[str] = set()
    for op in program.ops:
        op.require(op.name not in names, "its name is used twice")
        op.require(known.get(op.x.name) == op.x, f"its input {op.x.name!r} is not a value defined before it")
        op.require(op.y.name not in known, f"its output {op.y.name!r} is defined twice")
        op.require(min(op.y.shape) >= 1 and min(op.x.shape) >= 1, f"empty map {op.x.shape} -> {op.y.shape}")
        op.require(not op.is_scores or op is program.ops[-1], "scores must come last")
        op.check()
        op.check_tables(program)
        for value in (op.x, op.y):
            op.require(prod(value.shape) <= MOST_VALUES, f"a map {value.shape} has over {MOST_VALUES:,} values")
        names.add(op.name)
        known[op.y.name] = op.y
    together = prod(program.input.shape) + sum(prod(op.y.shape) for op in program.ops)
    if together > MOST_TOGETHER:
        raise BlrcError(
            f"program: its maps have {together:,} values together; at most {MOST_TOGETHER:,} are compiled: use fewer "
            "layers, or pool or stride earlier"
        )
    _check_sums(program)
    used = {name for op in program.ops for name in op.constants}
    if used != set(program.constants):
        raise BlrcError(
            f"program: constants {sorted(used ^ set(program.constants))} are not used by exactly the ops that exist"
        )
    return program


def _check_units(program: Program) -> None:
    """Refuse units that are no numbers once they are multiplied, or too many or too few, and gates of values."""
    if not program.values:
        return
    try:
        check_units(program.values, tuple((each.name, "") for each in program.heads))
        units = program.units
    except (BlrcError, OverflowError) as error:
        reason = "a scale beyond float64" if isinstance(error, OverflowError) else error
        raise BlrcError(f"program: its units: {reason}") from None
    if any(unit.scale < values.SMALLEST_SCALE for unit in units):
        raise BlrcError(f"program: the scale of its values is below {values.SMALLEST_SCALE}; give a larger one")
    if program.gate:
        raise BlrcError("program: a gate stops at a likely label, and a network of values has no labels")


def _check_sums(program: Program) -> None:
    """Refuse members whose values may add up to more than int32 holds."""
    if not program.values:
        return
    op, members = program.ops[-1], len(program.members)
    assert isinstance(op, End)
    largest = op.largest(program)
    op.require(
        members * largest < values.MOST_SUM,
        f"{members} members' values, of up to {largest} each, may add up to more than int32 holds; take at most "
        f"{(values.MOST_SUM - 1) // max(1, largest)} members",
    )
    most = max(largest * unit.scale + abs(unit.offset) for unit in program.units)
    op.require(
        most < values.MOST_REAL, f"its values reach {most:.1e} with their unit, beyond float32; give a smaller unit"
    )


def _check_heads(program: Program) -> None:
    if not program.heads:
        return
    try:
        check_heads([each.name for each in program.heads])
    except BlrcError as error:
        raise BlrcError(f"program: {error}") from None
    if any(each.classes < 1 for each in program.heads) or sum(e.classes for e in program.heads) != program.classes:
        raise BlrcError(f"program: its heads have other classes than the {program.classes} of its scores")
    if program.heads[0].score_scale != program.score_scale:
        raise BlrcError("program: score_scale is not that of the first head")


def _check_gate(program: Program) -> None:
    gate = program.gate
    if not isinstance(gate, int) or isinstance(gate, bool) or not 0 <= gate <= head.ONE:
        raise BlrcError(f"program: gate {gate!r} must be a whole number from 0 to {head.ONE}")
    if gate and (program.members[0] != "map" or len(program.members) < 2):
        raise BlrcError("program: a gate needs map as its first member, and others behind it")

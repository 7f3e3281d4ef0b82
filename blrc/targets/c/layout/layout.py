"""Turn a program into steps with tables as kernels read them, and into an arena.

A step is one call of a kernel. It is one op, except that an `Encode` whose only reader is a convolution is fused into
that convolution: codes are looked up where they are read, and their map is never stored. `blrc.targets.c.text` writes a
layout as C.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from blrc.errors import BlrcError
from blrc.program.ops.flatten import Flatten
from blrc.program.program import Conv, DType, Encode, Op, Pool, Program, Value
from blrc.targets.c.kernels.cpus import AARCH64, CORTEX_M55, CPUS, HOSTS, PORTABLE, X86_64
from blrc.targets.c.kernels.kernel import Step, Task
from blrc.targets.c.kernels.registry import cheapest
from blrc.targets.c.kernels.tables import Table
from blrc.targets.c.kernels.thresholds import threshold_bits
from blrc.targets.c.layout import strips
from blrc.targets.c.layout.arena import Arena

__all__ = ["AARCH64", "CORTEX_M55", "CPUS", "HOSTS", "PORTABLE", "X86_64", "Layout", "Step", "Table", "lay_out"]

ARENA_ALIGN = 4
CONV_INPUTS: tuple[DType, ...] = ("bits", "int8")
MOST_BYTES = 2**31 - 1
"""Bytes of a map: kernels index them in 32 bits."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Hold the steps in order, and the place in the arena of every value but the input.

    The scores have a place there for ensembles.

    Attributes:
        program: the program that is laid out.
        steps: the kernel calls, in order.
        groups: the first step of each group and the one after its last. The steps of a group of several run together
            row by row (`strips`).
        rows: how many rows the arena holds of each map between steps of a group, by the value's name.
        arena: the offsets of values and scratch memory.
        align: the bytes of which the arena's address and all offsets are multiples.
        thresholds: bits of a threshold (16 or 32) by the type of what convolutions read, ``bits`` and ``int8``.
        cpu: the CPU that the layout is for, one of `CPUS`.
    """

    program: Program
    steps: tuple[Step, ...]
    groups: tuple[tuple[int, int], ...]
    rows: Mapping[str, int]
    arena: Arena
    align: int
    thresholds: Mapping[DType, int]
    cpu: str = PORTABLE

    @property
    def arena_bytes(self) -> int:
        """Return the bytes that the caller gives; they are never 0, so that an array of that size may be declared."""
        return max(self.arena.size, self.align)

    def slot_bytes(self, value: Value) -> int:
        """Return the bytes of the arena that hold a value, or the rows that are kept of it."""
        return value.nbytes // value.shape[0] * self.rows.get(value.name, value.shape[0])

    @property
    def sliced(self) -> frozenset[str]:
        """Return the names of the ops whose kernels trade memory for speed."""
        return frozenset(step.op.name for step in self.steps if step.record.takes_ram)

    @property
    def has_strips_anyway(self) -> bool:
        """Return whether strips were laid out although they save so little that they had to be asked for."""
        return bool(self.rows) and not strips.plan(list(map(_work, self.steps)), self.align).rows

    def step(self, op: str, name: str) -> Step:
        """Return the step that computes `op` in the C of model `name`.

        Raises:
            BlrcError: there is no such step; a fused encoding has none of its own.
        """
        for step in self.steps:
            if step.op.name == op:
                return step
        raise BlrcError(f"{name}: no step {op!r} in the C; there are {[s.op.name for s in self.steps]}")

    def in_strips(self, step: Step) -> bool:
        """Return whether a step runs row by row, together with others."""
        at = self.steps.index(step)
        return any(first <= at < end and end - first > 1 for first, end in self.groups)


def lay_out(
    program: Program,
    sliced: Collection[str] = (),
    pays: int | None = None,
    cpu: str = PORTABLE,
    made: dict[tuple[str, str], Step] | None = None,
) -> Layout:
    """Choose kernels, lay out tables and plan the arena.

    Args:
        sliced: names of ops that take the cheapest kernel which trades memory for speed; the others take none that
            does.
        pays: see `strips.plan`.
        cpu: one of `CPUS`. For `HOSTS` no maps are kept in strips, since memory is plentiful and whole maps are faster.
        made: steps by op and kernel, which are kept here for the next layout of the same program and CPU.

    Raises:
        BlrcError: a map is too large for the kernels' 32-bit indices, or no kernel computes an op.
    """
    for op in program.ops:
        if max(op.x.nbytes, op.y.nbytes) > MOST_BYTES:
            raise BlrcError(f"layer {op.name!r}: a map of 2 GiB or more cannot be indexed; use smaller input")
    made = {} if made is None else made
    steps = []
    for task in tasks(program, cpu):
        kernel = cheapest(task, takes_ram=task.op.name in sliced)
        if (task.op.name, kernel.name) not in made:
            made[task.op.name, kernel.name] = kernel.step(task)
        steps.append(made[task.op.name, kernel.name])
    work = [_work(step) for step in steps]
    if cpu in HOSTS:
        planned = strips.placed(work, [(i, i + 1) for i in range(len(work))], ARENA_ALIGN)
    else:
        planned = strips.plan(work, ARENA_ALIGN, pays)
    thresholds = {dtype: threshold_bits(program, dtype) for dtype in CONV_INPUTS}
    return Layout(program, tuple(steps), planned.groups, planned.rows, planned.arena, ARENA_ALIGN, thresholds, cpu)


def tasks(program: Program, cpu: str) -> list[Task[Op]]:
    """Return the ops that become steps on a CPU, in order."""
    fused = _fused(program)
    encodes = {op.y.name: op for op in program.ops if isinstance(op, Encode)}
    return [
        Task(program, op, CPUS[cpu], encodes[op.x.name] if op.x.name in fused else None)
        for op in program.ops
        if op.y.name not in fused
    ]


def _fused(program: Program) -> frozenset[str]:
    """Return the names of values that are never stored: codes whose only reader is a convolution."""
    fused = set()
    for op in program.ops:
        readers = [other for other in program.ops if other.x == op.y]
        if isinstance(op, Encode) and len(readers) == 1 and isinstance(readers[0], Conv):
            fused.add(op.y.name)
    return frozenset(fused)


def _work(step: Step) -> strips.Work:
    in_place = isinstance(step.op, Flatten) or (isinstance(step.op, Pool) and step.op.window.padding[:2] == (0, 0))
    by_rows = step.op if isinstance(step.op, Conv) and step.record.strips else None
    return strips.Work(step.x, step.y, by_rows, in_place, step.scratch)

"""The record of a kernel: all that Python knows of a function of the runtime which computes an op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from blrc.program.program import Conv, Encode, Op, Program, Value
from blrc.targets.c.kernels.cpus import Cpu
from blrc.targets.c.kernels.tables import Table

T = TypeVar("T", bound=Op)

NOT_WORTH_IT = math.inf
"""The cost of a kernel that loses against every other one which fits, and is taken where there is none."""


@dataclass(frozen=True, eq=False)
class Task(Generic[T]):
    """An op that needs a kernel on a CPU; `encode` is the table look-up to fuse into it, if any."""

    program: Program
    op: T
    cpu: Cpu
    encode: Encode | None = None


@dataclass(frozen=True, eq=False)
class Laid:
    """What a kernel makes of a task.

    Attributes:
        tables: in the order in which the kernel takes them.
        why: this kernel and not another.
        rows: of a block of its weights (binary convolutions), or outputs that share taps (`slices`).
    """

    tables: tuple[Table, ...]
    why: str
    rows: int = 1


@dataclass(frozen=True, eq=False)
class Kernel(Generic[T]):
    """One function of the runtime that computes an op.

    Attributes:
        name: the function's name, without prefix; its source is called like it.
        op: the type of the ops that it computes.
        about: what it does, in a sentence for docs/kernels.md.
        needs: for which ops it exists, likewise; `fits` says it in code.
        chosen: where it is the cheapest, likewise; `cost` says it in code.
        on: whether it is made for a CPU.
        fits: whether it can compute an op on a CPU that it is made for.
        cost: about how many instructions it takes, or `NOT_WORTH_IT`. Only costs of kernels for one op are compared.
        lay: makes its tables.
        arguments: of its call, from the step, the expression for its geometry, and those for its tables.
        geometry: the struct that describes the op to it, or "": its arguments do.
        strips: it can compute a part of its rows, for `blrc.targets.c.layout.strips`.
        takes_ram: it trades memory for speed, which has to be asked for and may have to fit a budget.
        scratch: bytes of the arena that it needs while it runs, besides its maps.
        buffers: bytes of arrays on its stack, from the values of the runtime's macros that size them.
        asks: what an op needs of these macros.
        companions: other sources that it calls, without prefix and ending.
        inner: families of inner loops, a source for each level of a host's instruction set.
    """

    name: str
    op: type[T]
    about: str
    needs: str
    fits: Callable[[Task[T]], bool]
    cost: Callable[[Task[T]], float]
    lay: Callable[[Task[T]], Laid]
    arguments: Callable[[Step, str, Sequence[str]], Sequence[str]]
    chosen: str = "the first that fits"
    on: Callable[[Cpu], bool] = lambda _: True
    geometry: Literal["conv", "pool", ""] = ""
    strips: bool = False
    takes_ram: bool = False
    scratch: Callable[[Task[T]], int] = lambda _: 0
    buffers: Callable[[Mapping[str, int]], int] = lambda _: 0
    asks: Callable[[T], Mapping[str, int]] = lambda _: {}
    companions: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def exists_on(self, cpu: Cpu) -> bool:
        """Return whether the kernel is made for a CPU, and the runtime has its inner loops for it."""
        return self.on(cpu) and all(cpu.inner_loops(family) for family in self.inner)

    def step(self, task: Task[T]) -> Step:
        """Return the call that computes a task which fits."""
        laid = self.lay(task)
        return Step(self, task.op, task.encode, laid.why, laid.rows, laid.tables, self.scratch(task))

    def sources(self, cpu: Cpu) -> tuple[str, ...]:
        """Return the runtime's sources that it needs on a CPU, without prefix and ending."""
        loops = [source for family in self.inner for source in cpu.inner_loops(family)]
        return (self.name, *self.companions, *loops, *([f"tier_{cpu.files}"] if self.inner else []))


@dataclass(frozen=True, eq=False)
class Step:
    """One kernel call.

    Attributes:
        record: the kernel.
        op: what it computes.
        encode: the table look-up that is fused into it, if any.
        why, rows, tables: see `Laid`.
        scratch: bytes of the arena that it needs while it runs, besides its maps.
    """

    record: Kernel[Any]
    op: Op
    encode: Encode | None
    why: str
    rows: int
    tables: tuple[Table, ...]
    scratch: int = 0

    @property
    def kernel(self) -> str:
        """Return the name of its kernel: that of the runtime's function, without prefix."""
        return self.record.name

    @property
    def x(self) -> Value:
        """Return what it reads in memory."""
        return self.op.x if self.encode is None else self.encode.x

    @property
    def y(self) -> Value:
        """Return what it writes."""
        return self.op.y

    @property
    def flash(self) -> int:
        """Return the bytes of its tables."""
        return sum(table.nbytes for table in self.tables)


def pixels(op: Conv) -> int:
    """Return the pre-activations of an output that decide something: all that lie under the pool."""
    return op.y.shape[0] * op.y.shape[1] * (1 if op.pool is None else op.pool.taps)


def by_geometry(step: Step, geometry: str, tables: Sequence[str]) -> list[str]:
    """Return the arguments that most kernels have: geometry, input, tables, memory where they need any, output."""
    return [geometry, "x", *tables, *(["scratch"] if step.scratch else []), "y"]

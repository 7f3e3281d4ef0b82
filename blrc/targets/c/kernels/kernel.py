"""Define the record of a kernel: all that Python knows of a runtime function that computes an op."""

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
    """Hold an op that needs a kernel on a CPU, and in `encode` the table look-up to fuse into it, if any."""

    program: Program
    op: T
    cpu: Cpu
    encode: Encode | None = None


@dataclass(frozen=True, eq=False)
class Laid:
    """Hold what a kernel makes of a task.

    Attributes:
        tables: the tables, in the order in which the kernel takes them.
        why: the reason for this kernel, for comments in the C and the manifest.
        rows: rows of a block of the weights (binary convolutions), or outputs that share taps (`slices`).
    """

    tables: tuple[Table, ...]
    why: str
    rows: int = 1


@dataclass(frozen=True)
class Number:
    """Hold an argument of a kernel's call that is a number, and the name that generated C gives it."""

    name: str
    value: int


Arguments = Sequence[str | Number]
"""The arguments of a kernel's call: numbers, and C expressions for all else."""


@dataclass(frozen=True, eq=False)
class Kernel(Generic[T]):
    """Describe one function of the runtime that computes an op.

    Attributes:
        name: the function's name without prefix; its source has the same name.
        op: the type of the ops that the function computes.
        about: what the function does, in a sentence for docs/kernels.md.
        needs: for which ops the kernel exists, for docs/kernels.md; `fits` is the same in code.
        chosen: where the kernel is the cheapest, for docs/kernels.md; `cost` is the same in code.
        on: whether the kernel is made for a CPU.
        fits: whether the kernel can compute an op on a CPU that it is made for.
        cost: about how many instructions the kernel takes, or `NOT_WORTH_IT`. Only costs for the same op are compared.
        lay: makes the kernel's tables.
        arguments: makes the arguments of the call from the step, the C expression for its geometry, and those for its
            tables.
        geometry: the struct that describes the op to the kernel, or "" if the arguments describe it.
        strips: whether the kernel can compute a part of its rows, for `blrc.targets.c.layout.strips`.
        levels: whether the kernel is for ops that read or write codes of several thresholds; others are for the rest.
        ternary: whether the kernel is for ops with weights of -1, 0 and +1, whatever they read and write.
        whole: whether the kernel is for ops with weights of 8 bits, whatever they read and write.
        takes_ram: whether the kernel trades memory for speed. The user has to ask for this, and may set a budget for
            it.
        scratch: bytes of the arena that the kernel needs while it runs, besides its maps.
        buffers: bytes of arrays on the kernel's stack, from the values of the runtime's macros that size them.
        asks: the values that an op needs of these macros.
        frame: bytes that a call of the kernel adds to its caller's frame where it has more arguments than others.
        companions: other sources that the kernel calls, without prefix and ending.
        inner: families of inner loops, which have a source for each level of a host's instruction set.
    """

    name: str
    op: type[T]
    about: str
    needs: str
    fits: Callable[[Task[T]], bool]
    cost: Callable[[Task[T]], float]
    lay: Callable[[Task[T]], Laid]
    arguments: Callable[[Step, str, Sequence[str]], Arguments]
    chosen: str = "the first that fits"
    on: Callable[[Cpu], bool] = lambda _: True
    geometry: Literal["conv", "pool", ""] = ""
    strips: bool = False
    levels: bool = False
    ternary: bool = False
    whole: bool = False
    takes_ram: bool = False
    scratch: Callable[[Task[T]], int] = lambda _: 0
    buffers: Callable[[Mapping[str, int]], int] = lambda _: 0
    asks: Callable[[T], Mapping[str, int]] = lambda _: {}
    frame: int = 0
    companions: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def exists_on(self, cpu: Cpu) -> bool:
        """Return whether the kernel is made for a CPU and the runtime has its inner loops for that CPU."""
        return self.on(cpu) and all(cpu.inner_loops(family) for family in self.inner)

    def step(self, task: Task[T]) -> Step:
        """Return the call that computes a task, which has to fit the kernel."""
        laid = self.lay(task)
        return Step(self, task.op, task.encode, laid.why, laid.rows, laid.tables, self.scratch(task))

    def sources(self, cpu: Cpu) -> tuple[str, ...]:
        """Return the runtime's sources that the kernel needs on a CPU, without prefix and ending."""
        loops = [source for family in self.inner for source in cpu.inner_loops(family)]
        return (self.name, *self.companions, *loops, *([f"tier_{cpu.files}"] if self.inner else []))


@dataclass(frozen=True, eq=False)
class Step:
    """Hold one call of a kernel.

    Attributes:
        record: the kernel.
        op: the op that it computes.
        encode: the table look-up that is fused into it, if any.
        why, rows, tables: see `Laid`.
        scratch: bytes of the arena that the kernel needs while it runs, besides its maps.
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
        """Return the name of the kernel, which is that of the runtime's function without prefix."""
        return self.record.name

    @property
    def x(self) -> Value:
        """Return the value that the step reads from memory."""
        return self.op.x if self.encode is None else self.encode.x

    @property
    def y(self) -> Value:
        """Return the value that the step writes."""
        return self.op.y

    @property
    def flash(self) -> int:
        """Return the bytes of the step's tables."""
        return sum(table.nbytes for table in self.tables)


def pixels(op: Conv) -> int:
    """Return how many pre-activations of one output decide its bits: all those that lie under the pool."""
    return op.y.shape[0] * op.y.shape[1] * (1 if op.pool is None else op.pool.taps)


def by_geometry(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    """Return the arguments that most kernels take: geometry, input, tables, scratch memory if needed, output."""
    return [geometry, "x", *tables, *(["scratch"] if step.scratch else []), "y"]

"""Steps of a network in C: kernel calls, and the tables that kernels read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.program import Constant, Encode, Op, Program, Value


@dataclass(frozen=True, eq=False)
class Table:
    """A constant of one step as the kernel reads it: flat arrays, `of_member[k]` says which is member k's."""

    role: str
    arrays: tuple[NDArray[Any], ...]
    of_member: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


@dataclass(frozen=True, eq=False)
class Step:
    """One kernel call.

    Attributes:
        op: what it computes.
        encode: the table look-up that is fused into it, if any.
        kernel: the runtime's function, without prefix.
        source: the runtime's source file that holds it.
        why: this kernel and not another.
        rows: rows of a block of its weights (binary convolutions), or outputs that share taps (`slices`).
        tables: in the order in which the kernel takes them.
        scratch: bytes of the arena that it needs while it runs, besides its maps.
    """

    op: Op
    encode: Encode | None
    kernel: str
    why: str
    rows: int
    tables: tuple[Table, ...]
    scratch: int = 0

    @property
    def x(self) -> Value:
        """What it reads in memory."""
        return self.op.x if self.encode is None else self.encode.x

    @property
    def y(self) -> Value:
        return self.op.y

    @property
    def source(self) -> str:
        return f"blrc_{self.kernel}.c"

    @property
    def flash(self) -> int:
        """Bytes of its tables."""
        return sum(table.nbytes for table in self.tables)


def plain(program: Program, role: str, name: str) -> Table:
    """A constant of the program as it is."""
    return mapped(role, program.constants[name], lambda table: table)


def mapped(role: str, constant: Constant, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Table:
    """A constant of the program, each of its tables laid out by `change`."""
    arrays = tuple(np.ascontiguousarray(change(table)).reshape(-1) for table in constant.tables)
    return Table(role, arrays, constant.of_member)


def paired(
    role: str, one: Constant, other: Constant, change: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
) -> Table:
    """What `change` makes of the tables of two constants, for every pair of them that a member has."""
    of_members = list(zip(one.of_member, other.of_member, strict=True))
    pairs = sorted(set(of_members))
    arrays = tuple(np.ascontiguousarray(change(one.tables[a], other.tables[b])).reshape(-1) for a, b in pairs)
    return Table(role, arrays, tuple(map(pairs.index, of_members)))

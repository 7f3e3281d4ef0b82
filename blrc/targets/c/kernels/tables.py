"""Constants of a step as its kernel reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.program import Constant, Program


@dataclass(frozen=True, eq=False)
class Table:
    """A constant of one step as the kernel reads it: flat arrays, `of_member[k]` says which is member k's."""

    role: str
    arrays: tuple[NDArray[Any], ...]
    of_member: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


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

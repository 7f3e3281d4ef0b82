"""Hold the constants of a step in the form in which its kernel reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.program import Constant, Program


@dataclass(frozen=True, eq=False)
class Table:
    """Hold one constant of a step as flat arrays that its kernel reads.

    The array of member k is that with index `of_member[k]`.
    """

    role: str
    arrays: tuple[NDArray[Any], ...]
    of_member: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


def plain(program: Program, role: str, name: str) -> Table:
    """Return a constant of the program as a table, unchanged."""
    return mapped(role, program.constants[name], lambda table: table)


def mapped(role: str, constant: Constant, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Table:
    """Return a constant of the program as a table, after `change` has laid out each of its arrays."""
    arrays = tuple(np.ascontiguousarray(change(table)).reshape(-1) for table in constant.tables)
    return Table(role, arrays, constant.of_member)


def paired(
    role: str, one: Constant, other: Constant, change: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
) -> Table:
    """Return a table that `change` makes of two constants.

    It has one array for each distinct pair of the two constants' arrays that some member has.
    """
    of_members = list(zip(one.of_member, other.of_member, strict=True))
    pairs = sorted(set(of_members))
    arrays = tuple(np.ascontiguousarray(change(one.tables[a], other.tables[b])).reshape(-1) for a, b in pairs)
    return Table(role, arrays, tuple(map(pairs.index, of_members)))

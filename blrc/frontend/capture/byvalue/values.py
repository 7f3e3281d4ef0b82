"""Define what a tensor that depends on the network's input stands for.

An `Atom` is what one layer computes. A `Table` is a function of the sign of an atom, such as ``(x >= 0) * 2 - 1``: it
has one value where the atom is negative, one where it is 0, and one where it is positive. A `Sum` adds several of these
as they are, until all but one cancel each other, as in ``x + (sign(x) - x).detach()``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Reals = NDArray[np.float64]
OPAQUE = "opaque"
"""The kind of an atom that no layer computes; its `what` says why."""
LABELS = "labels"
"""The kind of an atom that keeps the order of the scores, such as a softmax at the end."""
PIXELS = "pixels"
"""The kind of an atom that is bits of pixels, which the input gives."""
AVERAGES = ("average_pool1d", "average_pool2d")
"""Kinds of atoms that average +-1."""
_PASSES = ("flatten", "plain_pool1d", "plain_pool2d")
"""Kinds of atoms whose values are among those that they read."""


@dataclass(frozen=True, eq=False)
class Tap:
    """Hold the values of an atom that the module computed, and say where to find them in another run.

    Attributes:
        number: which of a run's operations gives them, counted from 0.
        values: (samples, *shape), in float64.
        offset, factor: (channels,) or (1,): value = (result - offset) / factor.
    """

    number: int
    values: Reals
    offset: Reals
    factor: Reals

    @classmethod
    def of(
        cls, number: int, result: torch.Tensor, shape: tuple[int, ...], offset: Reals | None = None,
        factor: Reals | None = None,
    ) -> Tap:  # fmt: skip
        """Take the values of an atom, whose samples are of `shape`, from the result of an operation."""
        offset, factor = np.zeros(1) if offset is None else offset, np.ones(1) if factor is None else factor
        return cls(number, _rescaled(result, shape, offset, factor), offset, factor)

    def again(self, result: torch.Tensor) -> Reals:
        """Return the values of the same atom for the same operation's result in another run."""
        return _rescaled(result, self.values.shape[1:], self.offset, self.factor)


def _rescaled(result: torch.Tensor, shape: tuple[int, ...], offset: Reals, factor: Reals) -> Reals:
    column = (-1, *[1] * (len(shape) - 1))
    numbers = result.detach().double().numpy().reshape(len(result), *shape)
    values: Reals = (numbers - offset.reshape(column)) / factor.reshape(column)
    return values


@dataclass(frozen=True, eq=False)
class Atom:
    """Describe what one layer computes.

    Attributes:
        number: which of all atoms of its network this is.
        kind: the kind of layer, `OPAQUE` or `LABELS`.
        path: path of the module whose forward computes it; empty for the network itself.
        shape: shape of one sample.
        x: what the layer reads; None for the network's input, and for what reads several values.
        options, tensors: those of the layer (`blrc.frontend.kinds.node.Node`).
        bits: whether all values are +-1.
        tap: the values that the module computed; None where it does not compute them as they are.
        off: how far the +-1 input of a linear map is from +-1, and its weights from those of the layer, relative to 1:
            straight-through estimators round.
        odd: whether an opaque atom has the sign of `x`.
        what: why no layer computes an opaque atom, or why a last layer stands nowhere else, and what to do.
    """

    number: int
    kind: str
    path: str
    shape: tuple[int, ...]
    x: Atom | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    bits: bool = False
    tap: Tap | None = None
    off: float = 0.0
    odd: bool = False
    what: str = ""

    @property
    def channels(self) -> int:
        return self.shape[0]


@dataclass(frozen=True, eq=False)
class Table:
    """Hold a function of the sign of an atom.

    Attributes:
        base: the atom.
        rows: the values (3, channels) where the atom is below, at and above 0.
        path: path of the module that computed them last.
    """

    base: Atom
    rows: torch.Tensor
    path: str

    @property
    def key(self) -> tuple[int, bytes]:
        return self.base.number, self.rows.double().numpy().tobytes()

    @property
    def two(self) -> tuple[Reals, Reals]:
        """Return half the distance of the values above and below 0, and their middle; each (channels,)."""
        below, above = self.rows[0].double().numpy(), self.rows[2].double().numpy()
        return (above - below) / 2, (above + below) / 2


@dataclass(frozen=True, eq=False)
class Sum:
    """Hold atoms, each with the whole number of times that it is added, and tables, each once."""

    atoms: tuple[tuple[Atom, float], ...]
    tables: tuple[Table, ...]


Value = Atom | Table | Sum


@dataclass(frozen=True, eq=False)
class Held:
    """Say what a tensor stands for.

    Attributes:
        value: what it is.
        shape: shape of one sample of the value.
        flat: whether the tensor is a map that was flattened; this is deferred, since it commutes with all but a dense
            layer.
        row: whether the tensor is a line ``(C, L)`` that is seen as a map of one row, ``(C, 1, L)``, as pools see it.
        at: path of the module that flattened it.
        number: which of the run's operations gave the tensor; -1 of what no operation gave.
    """

    value: Value
    shape: tuple[int, ...]
    flat: bool = False
    row: bool = False
    at: str | None = None
    number: int = -1

    @property
    def seen(self) -> tuple[int, ...]:
        """Return the shape of one sample of the tensor itself."""
        if self.row:
            return self.shape[0], 1, self.shape[1]
        return (math.prod(self.shape),) if self.flat else self.shape


def origin(value: Value) -> Atom | None:
    """Return the atom that a value is, or whose signs it is made of."""
    return value if isinstance(value, Atom) else value.base if isinstance(value, Table) else None


def taps_of(atom: Atom) -> int | None:
    """Return of how many +-1 each value of an atom is the average, or None if an atom is none of averages.

    It may be averages of averages, the largest of several, or a vector of them.
    """
    if atom.kind in AVERAGES and atom.x is not None:
        return int(math.prod(atom.options["kernel_size"])) * (taps_of(atom.x) or 1)
    return taps_of(atom.x) if atom.kind in _PASSES and atom.x is not None else None


def averages_under(atom: Atom) -> Atom | None:
    """Return the averages that an atom is, or that it is made of by multiplying, adding and flattening; else None."""
    while taps_of(atom) is None:
        if atom.kind not in ("scale", "shift", "flatten") or atom.x is None:
            return None
        atom = atom.x
    return atom


def off_grid(values: Reals, taps: int) -> float:
    """Return how far values are at most from averages of so many +-1, where a module computed them with rounding."""
    counts = (values + 1) * (taps / 2)
    return float(np.abs(counts - np.rint(counts)).max(initial=0.0)) * 2 / taps


def table_of_bits(atom: Atom) -> Table:
    """Return +-1 values as a table of their own signs; they are never 0."""
    column = torch.tensor([[-1.0], [1.0], [1.0]], dtype=torch.float64)
    return Table(atom, column.expand(3, atom.channels).clone(), atom.path)


def added(a: Value, b: Value, times: float) -> Value:
    """Return a + times b, in which what cancels is left out."""
    atoms: dict[int, tuple[Atom, float]] = {}
    tables: dict[int, Table] = {}
    for value, factor in ((a, 1.0), (b, times)):
        parts = value if isinstance(value, Sum) else as_sum(value)
        for atom, count in parts.atoms:
            before = atoms[atom.number][1] if atom.number in atoms else 0.0
            atoms[atom.number] = (atom, before + factor * count)
        for table in parts.tables:
            rows = factor * table.rows.double()
            if table.base.number in tables:
                rows = rows + tables[table.base.number].rows
            tables[table.base.number] = Table(table.base, rows, table.path)
    left = tuple(pair for pair in atoms.values() if pair[1])
    kept = tuple(table for table in tables.values() if table.rows.any())
    if len(left) == 1 and not kept and left[0][1] == 1.0:
        return left[0][0]
    if not left and len(kept) == 1:
        return kept[0]
    return Sum(left, kept)


def as_sum(value: Atom | Table) -> Sum:
    """Return an atom or a table as a sum of one."""
    return Sum(((value, 1.0),), ()) if isinstance(value, Atom) else Sum((), (value,))


def by_channel(values: torch.Tensor, held: Held) -> Reals | None:
    """Return a constant that is combined with a tensor as one number for each channel, or None if it is none."""
    values = values.detach()
    if values.ndim == len(held.seen) + 1 and len(values) > 1:
        if not bool((values == values[:1]).all()):
            return None
        values = values[:1]
    try:
        full = values.expand(1, *held.seen)
    except RuntimeError:
        return None
    rows = full.reshape(held.shape[0], -1).double()
    return rows[:, 0].numpy().copy() if bool((rows == rows[:, :1]).all()) else None

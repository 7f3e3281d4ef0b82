"""Define what the record of every op has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.bits import WORD_BITS, unpack_signs, unpack_ternary, words
from blrc.net.elements import ELEMENTS, DType, Element

Shape = tuple[int, int, int]

INT32_MAX = 2**31 - 1

MOST_VALUES = 1 << 24
"""Values of the largest map, its padding included: a grey image of 4,096 x 4,096. A program of a few bytes could
otherwise ask for any memory."""


@dataclass(frozen=True)
class Value:
    """Describe a named feature map of one sample; ``shape`` is (height, width, channels)."""

    name: str
    dtype: DType
    shape: Shape

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory; bits, and those of short codes, are packed, each pixel in whole uint32 words."""
        height, width, channels = self.shape
        return height * width * self.elements_of(channels) * self.element.stored.itemsize

    @property
    def element(self) -> Element:
        """Return how the value's numbers are held."""
        return ELEMENTS[self.dtype]

    @property
    def is_codes(self) -> bool:
        """Return whether the numbers are codes that a layer made by several thresholds."""
        return self.element.code_bits > 0

    def elements_of(self, channels: int) -> int:
        """Return how many numbers of the type in memory hold a pixel of so many channels."""
        return self.element.planes * words(channels) or channels


@dataclass(frozen=True, eq=False)
class Constant:
    """Hold a constant of an op for every member: `tables[of_member[k]]` is member k's; equal tables are stored once."""

    tables: tuple[NDArray[Any], ...]
    of_member: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)


@dataclass(frozen=True)
class Table:
    """Declare what the tables of a constant are like.

    Attributes:
        constant: name of the constant.
        dtypes: the types that its elements may have.
        shape: the tables' shape.
        packed: how many signs each row of words holds, with 0 as the unused bits; 0 for a table of numbers.
        one_row: whether one row may stand for all.
        ternary: whether rows of words come in twos: signs, and what is not 0. A sign is not set where the weight is 0.
    """

    constant: str
    dtypes: tuple[str, ...]
    shape: tuple[int, ...]
    packed: int = 0
    one_row: bool = False
    ternary: bool = False


class Context(Protocol):
    """Say what an op may ask of the program that it stands in."""

    @property
    def constants(self) -> Mapping[str, Constant]: ...

    @property
    def members(self) -> tuple[str, ...]: ...

    def constant(self, name: str, member: int = 0) -> NDArray[Any]:
        """Return the table of constant `name` that `member` uses."""

    def peak(self, value: Value) -> int:
        """Return the largest magnitude that occurs in a value."""


@dataclass(frozen=True)
class BaseOp(ABC):
    """Define the record of an op; fields that are texts name constants, apart from the op's own name.

    Attributes:
        name: the op's name, which is that of the layer it was made of.
        x: the value that it reads.
        y: the value that it writes.
        kind: the kind's name in program files.
        title: what reports call it.
        format: the first format of program files that knows it.
        is_scores: whether it makes the scores, as the last op of a program does.
        random_inputs: on how many random inputs at most `blrc verify` compares the op alone.
    """

    name: str
    x: Value
    y: Value

    kind: ClassVar[str]
    title: ClassVar[str]
    format: ClassVar[int] = 1
    is_scores: ClassVar[bool] = False
    random_inputs: ClassVar[int] = 64

    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """Declare the op's constants, once `check` has found the op legal."""

    @abstractmethod
    def check(self) -> None:
        """Refuse types and shapes that do not go together.

        Raises:
            BlrcError: they break a rule, which the message names together with the op.
        """

    @abstractmethod
    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        """Compute what the op means on a batch ``(N, H, W, C)`` of its input; bits are booleans."""

    @abstractmethod
    def resized(self, x: Value, outputs: int) -> Self | None:
        """Return the op on an input of other channels and with `outputs` channels, if it can choose their number.

        Return None if the op cannot be divided in this way.
        """

    def check_tables(self, program: Context) -> None:
        """Refuse tables that are not as declared; a record that has rules for numbers checks them afterwards.

        Raises:
            BlrcError: a table breaks a rule, which the message names together with the op.
        """
        for table in self.tables():
            _check_table(self, table, program)

    def extremes(self, program: Context, member: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield inputs at the limits of what the op computes, each with its description."""
        yield from ()

    def peak(self, program: Context) -> int:
        """Return the largest magnitude that the op can write."""
        return largest_magnitude(self.y)

    @property
    def constants(self) -> tuple[str, ...]:
        """Return the names of the constants that the op refers to."""
        return tuple(table.constant for table in self.tables())

    @property
    def fan_in(self) -> int:
        """Return how many weighted inputs each output sums; 0 where the op has no weights."""
        return 0

    @property
    def macs(self) -> int:
        """Return the multiply-adds of one inference."""
        return self.fan_in * self.y.shape[2]

    @property
    def largest_map(self) -> int:
        """Return the number of values of the largest map that the op reads (padded), computes in between or writes."""
        return max(prod(self.x.shape), prod(self.y.shape))

    def require(self, holds: bool, what: str) -> None:
        """Raise an error that names the op and says `what` is wrong, unless it `holds`."""
        if not holds:
            raise BlrcError(f"program: op {self.name!r}: {what}")


@dataclass(frozen=True)
class WeightedOp(BaseOp):
    """Define the record of an op whose outputs sum weighted inputs.

    Attributes:
        weights: the constant ``(out, kernel height, kernel width, channels)``, of numbers or of packed signs.
    """

    weights: str

    @property
    @abstractmethod
    def packed(self) -> int:
        """Return how many signs each row of the weights packs in words; 0 where the weights are numbers."""

    @property
    def has_zeros(self) -> bool:
        """Return whether packed weights are -1, 0 or +1 and not +-1."""
        return False

    @property
    def is_binary(self) -> bool:
        """Return whether weights are packed and inputs are +-1, so that sums are counts of bits."""
        return self.packed > 0 and self.x.dtype == "bits"

    def packed_table(self, *rows: int) -> Table:
        """Declare packed weights of so many rows."""
        planes = (2,) if self.has_zeros else ()
        shape = (*rows, *planes, words(self.packed))
        return Table(self.weights, ("uint32",), shape, self.packed, ternary=self.has_zeros)

    def numbers(self, program: Context, member: int = 0) -> NDArray[Any]:
        """Return a member's weights as numbers."""
        weights = program.constant(self.weights, member)
        if not self.packed:
            return weights
        return unpack_ternary(weights, self.packed) if self.has_zeros else unpack_signs(weights, self.packed)


def largest_magnitude(value: Value) -> int:
    """Return the largest magnitude of a number of a value's type; bits are +-1."""
    element = ELEMENTS[value.dtype]
    return max(-element.low, element.high)


def sum_magnitudes(table: NDArray[Any]) -> NDArray[np.int64]:
    """Sum the magnitudes of each output's weights.

    Outputs are summed one at a time, because all together would take eight times the memory of the file.
    """
    return np.array([np.abs(weights.astype(np.int64)).sum() for weights in table])


def signs(bits: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return +1 for each bit that is set and -1 for each that is not."""
    return 2 * bits.astype(np.int8) - np.int8(1)


def numbers_of(value: Value, x: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers that a layer with weights sums: +-1 for bits, and codes as they are."""
    return signs(x) if value.dtype == "bits" else x


def _check_table(op: BaseOp, declared: Table, program: Context) -> None:
    name, constant = declared.constant, program.constants.get(declared.constant)
    op.require(constant is not None, f"constant {name!r} is missing")
    assert constant is not None
    op.require(len(constant.of_member) == len(program.members), f"constant {name!r} is not given for every member")
    used = set(constant.of_member) == set(range(len(constant.tables)))
    op.require(used, f"constant {name!r} has unused or missing tables")
    first = constant.tables[0]
    same = all(t.dtype == first.dtype and t.shape == first.shape for t in constant.tables)
    op.require(same, f"constant {name!r} differs in type or shape between members")
    shape = declared.shape
    if declared.one_row:
        rows = len(np.atleast_1d(first))
        op.require(rows in (1, shape[0]), f"its table has {rows} rows for {shape[0]} channels")
        shape = (rows, *shape[1:])
    found = f"constant {name!r} is {first.dtype.name} {first.shape}"
    good = first.dtype.name in declared.dtypes and first.shape == shape
    op.require(good, f"{found}, expected {' or '.join(declared.dtypes)} {shape}")
    if declared.packed:
        clear = not any(_has_tail_bits(table, declared.packed) for table in constant.tables)
        op.require(clear, "a tail bit of its weights is set")
    if declared.ternary:
        clear = not any((table[..., 0, :] & ~table[..., 1, :]).any() for table in constant.tables)
        op.require(clear, "a sign of its weights is set where the weight is 0")


def _has_tail_bits(table: NDArray[Any], channels: int) -> bool:
    """Return whether a bit behind the last channel of a row of words is set."""
    unused = words(channels) * WORD_BITS - channels
    tail = np.uint32(((1 << unused) - 1) << (WORD_BITS - unused))
    return bool((table[..., -1] & tail).any())

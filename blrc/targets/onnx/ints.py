"""Compute with int32 tensors whose ranges are known, so that every runtime is exact.

Some runtimes compute int64 as int32, and OpenVINO computes quotients, remainders, sums along an axis and comparisons of
int32 in float32. Therefore no tensor here is wider than int32, and

* `Add`, `Sub`, `Mul`, `Clip`, `Gather`, `GatherElements` and `ArgMax` work on all of int32;
* `Div`, `Mod`, `CumSum` and `GreaterOrEqual` see only numbers from 0 to 2^24, and float32 holds every one of these.

A sum along an axis is the last of its running sums. `ReduceSum` is not used, because OpenVINO 2026.4 joins it with the
node behind it, and the two together round where a quotient has to be cut, or leave all samples but the first at 0.

A quotient of such numbers is exact in float32, too: where a / b is no integer, it is at least 1 / b away from the next
one, which is more than half a unit in the last place of a quotient of a < 2^24.

Every method asserts these limits from the ranges of its operands, when the file is made. `Arithmetic.known` states a
range that is narrower than the operands' ranges tell; its caller has to know why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from blrc.targets.onnx.nodes import Graph

INT32 = (-(2**31), 2**31 - 1)
EXACT = 2**24  # float32 holds all integers up to here
ROOM = EXACT // 2  # of a digit to which a remainder is added


@dataclass(frozen=True)
class Int:
    """Name an int32 tensor and give the range of its elements, from `low` to `high`."""

    name: str
    low: int
    high: int


Digits = Sequence[tuple[Int, int]]
"""A number in parts, the highest first: the sum of ``digit x 2^shift``."""


class Arithmetic:
    """Add nodes that compute with `Int` to `graph`; the last argument of most methods names the node's output."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def add(self, x: Int, y: Int | int, name: str) -> Int:
        low, high = (y, y) if isinstance(y, int) else (y.low, y.high)
        return self._made("Add", x, y, name, x.low + low, x.high + high)

    def subtract(self, x: Int, y: Int | int, name: str) -> Int:
        low, high = (y, y) if isinstance(y, int) else (y.low, y.high)
        return self._made("Sub", x, y, name, x.low - high, x.high - low)

    def multiply(self, x: Int, y: Int | int, name: str) -> Int:
        edges = (y,) if isinstance(y, int) else (y.low, y.high)
        ends = [a * b for a in (x.low, x.high) for b in edges]
        return self._made("Mul", x, y, name, min(ends), max(ends))

    def divide(self, x: Int, y: Int | int, name: str) -> Int:
        """Return the quotient, rounded down."""
        low, high = (y, y) if isinstance(y, int) else (y.low, y.high)
        _require(x.low >= 0 and x.high <= EXACT and low >= 1 and high <= EXACT, name)
        return self._made("Div", x, y, name, x.low // high, x.high // low)

    def remainder(self, x: Int, y: Int | int, name: str) -> Int:
        low, high = (y, y) if isinstance(y, int) else (y.low, y.high)
        _require(x.low >= 0 and x.high <= EXACT and low >= 1 and high <= EXACT, name)
        return self._made("Mod", x, y, name, 0, min(high - 1, x.high))

    def clip(self, x: Int, low: int, high: int, name: str) -> Int:
        numbers = [self.graph.scalar("int32", number) for number in (low, high)]
        self.graph.node("Clip", [x.name, *numbers], name)
        return Int(name, min(max(x.low, low), high), max(min(x.high, high), low))

    def at_least(self, x: Int, limits: NDArray[np.int64], name: str) -> str:
        """Return booleans that tell where x >= limits."""
        _require(x.low >= 0 and x.high <= EXACT and limits.min() >= 0 and limits.max() <= EXACT, name)
        return self.graph.node("GreaterOrEqual", [x.name, self._table(f"{name}/limits", limits)], name)

    def from_booleans(self, x: str, name: str) -> Int:
        return Int(self.graph.node("Cast", [x], name, to=TensorProto.INT32), 0, 1)

    def look_up(self, table: NDArray[np.int64], index: Int, key: str, name: str) -> Int:
        """Return the entries of a table at `index`; `key` names the table, which is stored once."""
        _require(index.low >= 0 and index.high < len(table), name)
        used = table[index.low : index.high + 1]
        self.graph.node("Gather", [self._table(key, table), index.name], name)
        return Int(name, int(used.min()), int(used.max()))

    def known(self, x: Int, low: int, high: int) -> Int:
        """Return `x` with a narrower range that the caller knows."""
        return replace(x, low=max(x.low, low), high=min(x.high, high))

    def total(self, x: Int, axis: int, count: int, name: str, keepdims: bool = True, limit: int = EXACT) -> Digits:
        """Return the sum along `axis`, which has `count` elements.

        It has two digits or more where one could exceed `limit`.
        """
        _require(x.low >= 0, name)
        if count * x.high > limit:
            half = x.high.bit_length() // 2
            upper = self.divide(x, 1 << half, f"{name}/upper")
            lower = self.remainder(x, 1 << half, f"{name}/lower")
            return [
                *(
                    (digit, shift + half)
                    for digit, shift in self.total(upper, axis, count, f"{name}/1", keepdims, limit)
                ),
                *self.total(lower, axis, count, f"{name}/0", keepdims, limit),
            ]
        running = self.graph.node("CumSum", [x.name, self.graph.scalar("int32", axis)], f"{name}/running")
        last = np.array([count - 1] if keepdims else count - 1, dtype=np.int32)
        self.graph.node(
            "Gather", [running, self.graph.constant(f"int32/last{list(last.shape)}/{last}", last)], name, axis=axis
        )
        return [(Int(name, count * x.low, count * x.high), 0)]

    def joined(self, digits: Digits, high: int, name: str) -> Int:
        """Join digits into one number, of which the caller knows that it is at most `high`."""
        number, at = digits[0]
        for place, (digit, shift) in enumerate(digits[1:]):
            _require(number.low >= 0 and digit.low >= 0 and high <= INT32[1], name)
            number = self.multiply(self.known(number, 0, high >> at), 1 << (at - shift), f"{name}/shifted{place}")
            # No digit is negative, so no partial sum exceeds the number.
            self.graph.node("Add", [number.name, digit.name], f"{name}/{place}")
            number, at = Int(f"{name}/{place}", 0, min(number.high + digit.high, high >> shift)), shift
        _require(at == 0, name)
        return self.known(number, 0, high)

    def carried(self, digits: Digits, bits: int, name: str) -> tuple[Int, Int]:
        """Return the number's bits from `bits` on, and the bits below."""
        carry: Int | None = None
        rests: list[tuple[Int, int]] = []
        ends = [bits, *(shift for _, shift in digits)]
        for place in reversed(range(len(digits))):
            digit, shift = digits[place]
            own = f"{name}/{place}"
            if carry is not None:
                digit = self.add(digit, carry, f"{own}/carried")
            carry = self.divide(digit, 1 << (ends[place] - shift), f"{own}/over")
            rests.insert(0, (self.remainder(digit, 1 << (ends[place] - shift), f"{own}/rest"), shift))
        assert carry is not None
        return carry, self.joined(rests, (1 << bits) - 1, f"{name}/rest")

    def quotient(self, digits: Digits, divisor: int, high: int, name: str) -> tuple[Int, Int]:
        """Divide a number by `divisor` in long division, and return the quotient and the remainder.

        The caller knows that the quotient is at most `high`.
        """
        parts: list[tuple[Int, int]] = []
        rest: Int | None = None
        for place, (digit, shift) in enumerate(digits):
            own = f"{name}/{place}"
            if rest is not None:
                rest = self.multiply(rest, 1 << (digits[place - 1][1] - shift), f"{own}/above")
                digit = self.add(digit, rest, f"{own}/all")
            part = self.divide(digit, divisor, f"{own}/part")
            taken = self.multiply(part, divisor, f"{own}/taken")
            rest = self.known(self.subtract(digit, taken, f"{own}/left"), 0, divisor - 1)
            parts.append((part, shift))
        assert rest is not None
        return self.joined(parts, high, f"{name}/quotient"), rest

    def _made(self, kind: str, x: Int, y: Int | int, name: str, low: int, high: int) -> Int:
        _require(INT32[0] <= low and high <= INT32[1], name)
        other = self.graph.scalar("int32", y) if isinstance(y, int) else y.name
        return Int(self.graph.node(kind, [x.name, other], name), low, high)

    def _table(self, key: str, table: NDArray[Any]) -> str:
        _require(INT32[0] <= table.min() and table.max() <= INT32[1], key)
        return self.graph.constant(key, table.astype(np.int32))


def _require(holds: bool | np.bool_, name: str) -> None:
    assert holds, f"{name}: a number may lie outside the range in which every runtime is exact"

"""Define the record of a distribution of weights, and the weights of a layer that it describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.weights.logits import WORD_BITS

WORD = 2**WORD_BITS
Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Coding:
    """Describe how the weights of a distribution are held and drawn.

    Attributes:
        name: name of the distribution (`blrc.nn.weights.table`), with which the kinds of its layers begin.
        values: the values that a weight can take, in ascending order.
        tensors: names of its tensors of logits, in the order of codes in every table.
        encode: returns the codes of such tensors; the likeliest value of each weight stays the same.
        likeliest: returns the likeliest value for all codes, each plus 128.
        thresholds: returns for all codes, each plus 128, integers in ascending order, one less than there are values. A
            weight takes value number n where n of them are at most 32 random bits.
        logarithms: returns ln p of each value, along a last dimension, for real logits; large ones cancel nothing.
    """

    name: str
    values: tuple[int, ...]
    tensors: tuple[str, ...]
    encode: Callable[..., tuple[Codes, ...]]
    likeliest: Callable[[], NDArray[np.int8]]
    thresholds: Callable[[], NDArray[np.uint32]]
    logarithms: Callable[..., NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Coded:
    """Hold the weights of a layer as codes, one array for each tensor of the distribution."""

    coding: Coding
    codes: tuple[Codes, ...]

    def likeliest(self) -> NDArray[np.int8]:
        """Return the likeliest value of each weight."""
        return np.asarray(self.coding.likeliest()[self._places()])

    def sampled(self, seed: int, member: int, layer: int) -> NDArray[np.int8]:
        """Draw each weight, from the counter-based generator Philox keyed by (seed, member, layer).

        The result is the same on every machine, and a member does not depend on how many members are drawn.
        """
        words = random_words(self.codes[0].size, seed, member, layer).reshape(self.codes[0].shape)
        thresholds = self.coding.thresholds()[self._places()]
        values = np.array(self.coding.values, dtype=np.int8)
        return np.asarray(values[(words[..., None] >= thresholds).sum(axis=-1)])

    def counts(self) -> NDArray[np.int64]:
        """Return how many of the 2^32 words give each value: an array with one more dimension, of the values."""
        ends = self.coding.thresholds()[self._places()].astype(np.int64)
        return np.diff(ends, axis=-1, prepend=0, append=WORD)

    def frozen(self, freeze: Fraction) -> NDArray[np.bool_]:
        """Return which weights take another value than the likeliest with a probability below `freeze`.

        It is decided in integers: others x denominator < numerator x 2^32.
        """
        others = WORD - self.counts().max(axis=-1)
        return np.asarray(others < -(-freeze.numerator * WORD // freeze.denominator))

    def _places(self) -> tuple[NDArray[np.int16], ...]:
        return tuple(codes.astype(np.int16) + np.int16(128) for codes in self.codes)


def random_words(count: int, seed: int, member: int, layer: int) -> NDArray[np.uint32]:
    """Return the first random words of a layer of a member; each number of Philox gives two, the lower half first."""
    key = np.array([seed, (member << 32) | layer], dtype=np.uint64)
    raw = np.random.Philox(key=key).random_raw(-(-count // 2))
    random = np.empty((raw.size, 2), dtype=np.uint32)
    random[:, 0] = raw & np.uint64(0xFFFFFFFF)
    random[:, 1] = raw >> np.uint64(32)
    return random.reshape(-1)[:count]

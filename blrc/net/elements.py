"""List the types of the numbers in maps, each with its form in NumPy, C and ONNX and its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

DType = Literal[
    "uint8", "int8", "int32", "bits",
    "codes1", "codes2", "codes3", "codes4", "codes5", "codes6", "codes7", "codes8",
]  # fmt: skip
"""``codesK`` are whole numbers from 0 to 2^K - 1, which a layer writes by several thresholds for one sum."""

MOST_PLANES = 4
"""Bits of a code up to which its bits lie apart, 32 channels in a word; longer codes take a byte each."""


@dataclass(frozen=True)
class Element:
    """Describe how numbers of one type are held.

    Attributes:
        value: NumPy's type of one number, as the reference computes with it.
        given: the type of inputs in files, in calls of `blrc` and in ONNX.
        stored: the type in memory, in C; 32 channels share a word where numbers are bits.
        low, high: the smallest and the largest number.
        code_bits: bits of a code; 0 where numbers are no codes of a layer.
    """

    value: np.dtype[Any]
    given: np.dtype[Any]
    stored: np.dtype[Any]
    low: int
    high: int
    code_bits: int = 0

    @property
    def planes(self) -> int:
        """Return how many words hold 32 channels of a pixel, one for each bit of a number; 0 where each lies alone."""
        if self.code_bits:
            return self.code_bits if self.code_bits <= MOST_PLANES else 0
        return 1 if self.value == np.bool_ else 0

    @property
    def c_type(self) -> str:
        """Return the C name of the type in memory."""
        return f"{self.stored.name}_t"


def _same(name: str) -> Element:
    dtype = np.dtype(name)
    return Element(dtype, dtype, dtype, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _codes(bits: int) -> Element:
    byte = np.dtype(np.uint8)
    return Element(byte, byte, np.dtype(np.uint32) if bits <= MOST_PLANES else byte, 0, 2**bits - 1, bits)


def code_type(bits: int) -> DType:
    """Return the type of codes of 1 to 8 bits."""
    return next(dtype for dtype, element in ELEMENTS.items() if element.code_bits == bits)


ELEMENTS: Mapping[DType, Element] = {
    "uint8": _same("uint8"),
    "int8": _same("int8"),
    "int32": _same("int32"),
    "bits": Element(np.dtype(bool), np.dtype(np.uint8), np.dtype(np.uint32), 0, 1),
    "codes1": _codes(1),
    "codes2": _codes(2),
    "codes3": _codes(3),
    "codes4": _codes(4),
    "codes5": _codes(5),
    "codes6": _codes(6),
    "codes7": _codes(7),
    "codes8": _codes(8),
}


def sum_bits(taps: int, most: int) -> int:
    """Return the bits of the sum of so many codes, each of which is at most `most`."""
    return (taps * most).bit_length()


@dataclass(frozen=True)
class Codes:
    """Describe the codes that a layer reads: code c stands for the real number step c - below.

    Attributes:
        name: the layer that makes them.
        most: the largest code of their type.
        step, below: see above; of averages of -1 and +1 `below` is 1, of levels it is not 0 where
            some stand for less than 0.
    """

    name: str
    most: int
    step: Fraction
    below: Fraction = Fraction(0)

    @property
    def middle(self) -> Fraction:
        """Return the code, perhaps between two, that stands for 0."""
        return self.below / self.step

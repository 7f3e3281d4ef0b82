"""List the types of the numbers in maps, each with its form in NumPy, C and ONNX and its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

DType = Literal["uint8", "int8", "int32", "bits"]


@dataclass(frozen=True)
class Element:
    """Describe how numbers of one type are held.

    Attributes:
        value: NumPy's type of one number, as the reference computes with it.
        given: the type of inputs in files, in calls of `blrc` and in ONNX.
        stored: the type in memory, in C; 32 channels share a word where numbers are bits.
        low, high: the smallest and the largest number.
    """

    value: np.dtype[Any]
    given: np.dtype[Any]
    stored: np.dtype[Any]
    low: int
    high: int

    @property
    def c_type(self) -> str:
        """Return the C name of the type in memory."""
        return f"{self.stored.name}_t"


def _same(name: str) -> Element:
    dtype = np.dtype(name)
    return Element(dtype, dtype, dtype, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


ELEMENTS: Mapping[DType, Element] = {
    "uint8": _same("uint8"),
    "int8": _same("int8"),
    "int32": _same("int32"),
    "bits": Element(np.dtype(bool), np.dtype(np.uint8), np.dtype(np.uint32), 0, 1),
}

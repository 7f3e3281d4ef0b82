"""Define QONNX's quantisers, BipolarQuant and Quant: their codes, their roundings, and their values of constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.file import Op
from blrc.importing.numbers import Reals
from blrc.importing.refusal import RefusalError

Arrays = Sequence[NDArray[Any] | None]
"""Inputs of a node that are constants; None is one that is left out."""


def given(arrays: Arrays, index: int = 0) -> NDArray[Any]:
    """Return an input of a node.

    Raises:
        RefusalError: it is left out.
    """
    held = arrays[index] if index < len(arrays) else None
    if held is None:
        raise RefusalError(f"its input {index} is left out", "export the network again")
    return held


def bipolar(values: Reals, scale: NDArray[Any]) -> NDArray[Any]:
    """Return what QONNX's BipolarQuant gives: +scale from 0 on, else -scale."""
    return np.where(values >= 0, scale, -scale)


def bipolar_quant(op: Op, arrays: Arrays) -> NDArray[Any]:
    """Return what BipolarQuant makes of constants."""
    held = given(arrays)
    return bipolar(held, given(arrays, 1)).astype(held.dtype)


ROUNDINGS: Mapping[str, Callable[[Any], Any]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
}
"""Rounding modes of QONNX's Quant that are taken."""


def steps_of(op: Op, width: NDArray[Any]) -> tuple[int, int]:
    """Return the least and the largest code of QONNX's Quant.

    Raises:
        RefusalError: its width is no whole number from 1 to 32.
    """
    bits = float(width.reshape(-1)[0]) if width.size == 1 else 0.0
    if bits != int(bits) or not 1 <= bits <= 32:
        raise RefusalError("its bit width is no whole number from 1 to 32", "export the network again")
    signed, narrow = bool(op.attributes.get("signed", 1)), bool(op.attributes.get("narrow", 1))
    if signed and bits == 1:
        return -1, 1
    if signed:
        half = 2 ** (int(bits) - 1)
        return (1 - half if narrow else -half), half - 1
    return 0, 2 ** int(bits) - (2 if narrow else 1)


def rounding_of(op: Op) -> str:
    """Return the rounding mode of a Quant.

    Raises:
        RefusalError: it is not taken.
    """
    mode = str(op.attributes.get("rounding_mode", "ROUND")).upper()
    if mode not in ROUNDINGS:
        raise RefusalError(f"its rounding mode {mode[:20]!r} is not taken", f"use one of {', '.join(ROUNDINGS)}")
    return mode


def quant(op: Op, arrays: Arrays) -> NDArray[Any]:
    """Return what Quant makes of constants."""
    held, scale, zero, width = (given(arrays, i) for i in range(4))
    low, high = steps_of(op, width)
    codes = held / scale + zero
    if (low, high) == (-1, 1) and width.reshape(-1)[0] == 1:
        codes = np.where(codes >= 0, np.float32(1), np.float32(-1))
    else:
        codes = ROUNDINGS[rounding_of(op)](np.clip(codes, low, high))
    return np.asarray((codes - zero) * scale).astype(held.dtype)

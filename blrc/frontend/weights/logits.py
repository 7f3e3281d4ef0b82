"""Encode logits in 8 bits.

A shipped checkpoint holds each logit W as a mid-rise code, W ~ (code + 1/2) / 12 with code in -128..127. W = 0 lies in
the code below (-1), so what is decided by W <= 0 never changes.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS_PER_UNIT = 12
CODES = range(-128, 128)
WORD_BITS = 32
"""Number of random bits that a weight takes."""
PRECISION = 120
"""Number of binary digits of probabilities, which are rounded to `WORD_BITS` after all else."""
_DIGITS = 40  # decimal ones, which are more than those
_SATURATED = 11.0  # beyond 128 / 12; clipped before it is multiplied, as float64 ends somewhere


def to_codes(logits: NDArray[Any]) -> NDArray[np.int8]:
    """Return the code of every logit: ``ceil(12 W) - 1``, confined to -128..127.

    A logit of |W| beyond 10.6 saturates; the probability of its rarer value is below 3e-5.
    """
    codes = np.ceil(np.clip(logits.astype(np.float64), -_SATURATED, _SATURATED) * STEPS_PER_UNIT) - 1
    return np.asarray(np.clip(codes, -128, 127), dtype=np.int8)


def from_codes(codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the logit in the middle of each code's interval."""
    return ((codes.astype(np.float64) + 0.5) / STEPS_PER_UNIT).astype(np.float32)


def log_sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(1 / (1 + e^-x)), without overflow or loss of digits."""
    return np.asarray(-np.logaddexp(0.0, -x))


@cache
def sigmoids() -> tuple[int, ...]:
    """Return 2^`PRECISION` sigmoid(W) for the middle of every code's interval, from code -128 on, as integers.

    Decimal arithmetic is correctly rounded, so they are the same on every machine. The opposite code of number n is
    number ~n.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        halves = (Decimal(2 * code + 1) / (2 * STEPS_PER_UNIT) for code in CODES)
        return tuple(round(Decimal(2**PRECISION) / (1 + (-half).exp())) for half in halves)


def rounded(number: int, bits: int) -> int:
    """Return ``number / 2^bits`` to the nearest integer."""
    return (number + (1 << (bits - 1))) >> bits

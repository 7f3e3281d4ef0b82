"""Encode logits in 8 bits, and sample from these codes in integers.

A shipped checkpoint holds each logit W as a mid-rise code, W ~ (code + 1/2) / 12 with code in -128..127. W = 0 lies in
the code below (-1), so the MAP, which is +1 where W <= 0, never changes. Sampling is in integers: p(B = -1) =
sigmoid(W) becomes one 32-bit threshold for each code, which is compared with 32 random bits.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS_PER_UNIT = 12
_SATURATED = 11.0  # beyond 128 / 12; clipped before it is multiplied, as float64 ends somewhere


def to_codes(logits: NDArray[Any]) -> NDArray[np.int8]:
    """Return the code of every logit: ``ceil(12 W) - 1``, confined to -128..127.

    A logit of |W| beyond 10.6 saturates; the probability of its rarer sign is below 3e-5.
    """
    codes = np.ceil(np.clip(logits.astype(np.float64), -_SATURATED, _SATURATED) * STEPS_PER_UNIT) - 1
    return np.asarray(np.clip(codes, -128, 127), dtype=np.int8)


def from_codes(codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the logit in the middle of each code's interval."""
    return ((codes.astype(np.float64) + 0.5) / STEPS_PER_UNIT).astype(np.float32)


def map_signs(codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return the likeliest sign of every code: +1 where the code is below 0."""
    return np.where(codes < 0, np.int8(1), np.int8(-1))


@cache
def thresholds() -> NDArray[np.uint32]:
    """Return the integer round(2^32 sigmoid(W)) at index code + 128; B = -1 where 32 random bits are below it.

    It is computed in decimal arithmetic, which is correctly rounded, so the table is the same on every machine.
    """
    with localcontext() as context:
        context.prec = 40
        odd = [Decimal(2 * code + 1) / (2 * STEPS_PER_UNIT) for code in range(-128, 128)]
        table = [int((Decimal(2**32) / (1 + (-w).exp())).to_integral_value()) for w in odd]
    return np.array(table, dtype=np.uint32)


@cache
def frozen(freeze: Fraction) -> NDArray[np.bool_]:
    """Return at index code + 128 whether min(p, 1-p) < `freeze`, where p = t / 2^32 is the probability of sampling -1.

    It is decided in integers: min(t, 2^32 - t) x denominator < numerator x 2^32.
    """
    rarer = [min(t, 2**32 - t) for t in thresholds().tolist()]
    return np.array([t * freeze.denominator < freeze.numerator * 2**32 for t in rarer])


def sample_signs(codes: NDArray[np.int8], seed: int, member: int, layer: int) -> NDArray[np.int8]:
    """Draw +-1 for every code, from the counter-based generator Philox keyed by (seed, member, layer).

    The result is the same on every machine, and a member does not depend on how many members are drawn.
    """
    key = np.array([seed, (member << 32) | layer], dtype=np.uint64)
    count = codes.size
    raw = np.random.Philox(key=key).random_raw(-(-count // 2))
    random = np.empty((raw.size, 2), dtype=np.uint32)
    random[:, 0] = raw & np.uint64(0xFFFFFFFF)
    random[:, 1] = raw >> np.uint64(32)
    below = random.reshape(-1)[:count].reshape(codes.shape) < thresholds()[codes.astype(np.int16) + 128]
    return np.where(below, np.int8(-1), np.int8(1))

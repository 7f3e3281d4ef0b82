"""Record how binary weights are held and drawn: p(B = -1) = sigmoid(W) becomes one threshold for each code."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.weights.logits import CODES, PRECISION, WORD_BITS, log_sigmoid, rounded, sigmoids, to_codes
from blrc.frontend.weights.record import Coding


def _encode(logits: NDArray[Any]) -> tuple[NDArray[np.int8]]:
    return (to_codes(logits),)


@cache
def likeliest() -> NDArray[np.int8]:
    """Return +1 for every code below 0, else -1, at index code + 128."""
    return np.array([1 if code < 0 else -1 for code in CODES], dtype=np.int8)


@cache
def thresholds() -> NDArray[np.uint32]:
    """Return the integer round(2^32 sigmoid(W)) at index code + 128; B = -1 where 32 random bits are below it."""
    return np.array([[rounded(p, PRECISION - WORD_BITS)] for p in sigmoids()], dtype=np.uint32)


def _logarithms(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([log_sigmoid(logits), log_sigmoid(-logits)], axis=-1)


BINARY = Coding("binary", (-1, 1), ("logits",), _encode, likeliest, thresholds, _logarithms)

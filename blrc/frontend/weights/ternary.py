"""Record how ternary weights are held and drawn: codes of C and A, with P(0) = sigmoid(C), P(+1 | not 0) = sigmoid(A).

Two thresholds for each pair of codes cut the 32-bit words: P(-1), and P(-1) + P(0), times 2^32, correctly rounded. The
likeliest value of a pair is decided exactly; there are no ties among pairs of codes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.weights.logits import CODES, PRECISION, WORD_BITS, log_sigmoid, rounded, sigmoids, to_codes
from blrc.frontend.weights.record import WORD, Coding


def _encode(zero: NDArray[Any], sign: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return the codes of C and A.

    A = 0, where +1 is the likelier sign, lies in the code above, which is 0. Where rounding would make another value
    the likeliest, the code of C is the next one, which is always enough: rounding moves C by 1/24 at most and the place
    where 0 becomes the likeliest by 1/48.
    """
    zero, sign = zero.astype(np.float64), sign.astype(np.float64)
    is_zero = zero + np.log1p(np.exp(-np.abs(sign))) >= 0
    of_sign = ~to_codes(-sign)
    of_zero = to_codes(zero).astype(np.int16)
    would_be = likeliest()[of_zero + 128, of_sign.astype(np.int16) + 128] == 0
    of_zero += is_zero.astype(np.int16) - would_be.astype(np.int16)
    return of_zero.astype(np.int8), of_sign


@cache
def likeliest() -> NDArray[np.int8]:
    """Return the likeliest of -1, 0 and +1 at index (code of C + 128, code of A + 128)."""
    p = sigmoids()
    every = range(len(CODES))
    signs = [1 if p[a] > p[~a] else -1 for a in every]
    rows = [[0 if p[c] << PRECISION > p[~c] * max(p[a], p[~a]) else signs[a] for a in every] for c in every]
    return np.array(rows, dtype=np.int8)


@cache
def thresholds() -> NDArray[np.uint32]:
    """Return the integers round(2^32 P(-1)) and round(2^32 (P(-1) + P(0))) at index (code of C + 128, code of A + 128).

    The second is 2^32 - round(2^32 P(+1)), and P(+1) of a code of A is P(-1) of the opposite one.
    """
    p = sigmoids()
    every = range(len(CODES))
    plus = [[rounded(p[~c] * p[a], 2 * PRECISION - WORD_BITS) for a in every] for c in every]
    table = np.array(plus, dtype=np.int64)
    return np.asarray(np.stack([table[:, ::-1], WORD - table], axis=-1), dtype=np.uint32)


def _logarithms(zero: NDArray[np.float64], sign: NDArray[np.float64]) -> NDArray[np.float64]:
    other = log_sigmoid(-zero)
    return np.stack([other + log_sigmoid(-sign), log_sigmoid(zero), other + log_sigmoid(sign)], axis=-1)


TERNARY = Coding("ternary", (-1, 0, 1), ("zero_logits", "sign_logits"), _encode, likeliest, thresholds, _logarithms)

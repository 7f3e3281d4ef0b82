"""Compute log softmax and ensemble statistics in integers; no other module knows how.

Everything is base 2 and in units of 2^-16 (Q16). For the integer scores s_c of one member, real score = s_c x scale,

    d_c      = (max s - s_c) x scale x log2(e)              bits by which class c lies behind, rounded, at most 31
    S        = sum_c 2^-d_c                                 in Q30; 2^-f for a fraction f from a table of 257 entries
    log2 p_c = -(d_c + log2 S), floored at -24 bits         log2 of the mantissa from a second table of 257 entries
    p_c      = 2^(log2 p_c)                                 in Q16

Both tables are interpolated linearly. All divisions and shifts are of non-negative 64-bit integers, because ONNX
shifts only those. The floor bounds what one member can say against a class, which makes early stopping sound
(`Answer`, `Sums.settled`).

**Error.** |log2 p_c - exact| < 2^-12 where the exact value is above the floor. In units of 2^-16 (2^-12 is 16 of them)
the parts of the error are:

* d_c: the multiplier is off by at most 2^-31 of itself, which is 24 x 2^16 x 2^-31 < 0.001; rounding adds 0.5. An error
  of every d moves log2 S by no more than the largest of them, so both together contribute at most 2 x 0.501.
* 2^-f: rounded entries add 2^-31, and interpolation adds (ln 2 / 256)^2 / 8 = 9.2e-7 of the value. Rounding twice and
  shifting lose at most 3 x 2^-30 for each class of a sum that is at least 1. With C classes this is at most
  1.45 x (9.2e-7 + 3 C 2^-30) bits, which is 0.09 + 2.7e-4 C units. Classes capped at 31 bits add at most C 2^-31.
* log2 of the mantissa: interpolation adds log2(e) / (8 x 256^2) = 2.8e-6 bits, which is 0.18 units; rounding adds
  0.5 + 2^-8.

The sum is below 1.8 + 3e-4 C units. `blrc.program.legal.check` refuses programs of more than 4,096 classes, so it stays
below 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief

Int64s = NDArray[np.int64]

FRACTION_BITS = 16
ONE = 1 << FRACTION_BITS
FLOOR = 24 * ONE  # log-probabilities are at least -FLOOR
CAP = 31 * ONE  # of d
EXP_BITS = 30
LOG_BITS = 24
MAX_SHIFT = 46
MAX_CLASSES = 4096
# A unit of the scores is at least a unit of d then (2^-16 x log2(e) > 2^-16 bits), so the first largest log-probability
# of one member is the first largest score.
SMALLEST_SCALE = 2.0**-FRACTION_BITS
# Sums of log-probabilities fit int32 in C.
MAX_MEMBERS = (2**31 - 1) // FLOOR


@dataclass(frozen=True)
class Scale:
    """Describe the factor from scores to d: d = (max - score) x multiplier >> shift, rounded.

    The multiplier is below 2^31, and 0 <= shift <= 46.
    """

    multiplier: int
    shift: int


def scale_of(score_scale: float) -> Scale:
    """Return the multiplier round(scale x log2(e) x 2^(16 + shift)) and the largest shift with which it fits 31 bits.

    The integers are the same on every machine. If the scale is so large that one unit is more than 31 bits, the
    multiplier saturates; the cap of d hides the difference.
    """
    exact = Fraction(score_scale) * _log2_e() * ONE
    shift = MAX_SHIFT
    while shift > 0 and exact * 2**shift >= 2**31 - 1:
        shift -= 1
    return Scale(min(round(exact * 2**shift), 2**31 - 1), shift)


@cache
def exp2_table() -> Int64s:
    """Return round(2^30 x 2^(-j/256)) for j = 0..256."""
    return _table(lambda j: (-(Decimal(j) / 256) * Decimal(2).ln()).exp() * 2**EXP_BITS)


@cache
def log2_table() -> Int64s:
    """Return round(2^24 x log2(1 + j/256)) for j = 0..256."""
    return _table(lambda j: (1 + Decimal(j) / 256).ln() / Decimal(2).ln() * 2**LOG_BITS)


def log_probabilities(scores: NDArray[Any], scale: Scale) -> Int64s:
    """Return log2 p in Q16, from -FLOOR to 0: int64 ``(N, classes)`` for integer scores ``(N, classes)``."""
    s = scores.astype(np.int64)
    behind = s.max(axis=1, keepdims=True) - s
    half = (1 << scale.shift) >> 1
    d = np.minimum((behind * scale.multiplier + half) >> scale.shift, CAP)
    total = exp2(d).sum(axis=1, keepdims=True)
    return np.asarray(-np.minimum(d + log2(total), FLOOR))


def probabilities(log_p: Int64s) -> Int64s:
    """Return p in Q16, 0 to 2^16, for log-probabilities in Q16."""
    return (exp2(-log_p) + (1 << (EXP_BITS - FRACTION_BITS - 1))) >> (EXP_BITS - FRACTION_BITS)


def exp2(d: Int64s) -> Int64s:
    """Return 2^-d in Q30 for d >= 0 in Q16."""
    table = exp2_table()
    whole, j, rest = d >> FRACTION_BITS, (d >> 8) & 255, d & 255
    value = table[j] - (((table[j] - table[j + 1]) * rest + 128) >> 8)
    return np.asarray(value >> whole)


def log2(total: Int64s) -> Int64s:
    """Return log2(total / 2^30) in Q16 for total >= 2^30."""
    table = log2_table()
    power = np.zeros_like(total)
    for k in range(1, 33):
        power += total >= (1 << (EXP_BITS + k))
    mantissa = (total >> power) - (1 << EXP_BITS)
    j, rest = mantissa >> (EXP_BITS - 8), (mantissa >> 6) & 0xFFFF
    fraction = table[j] + (((table[j + 1] - table[j]) * rest) >> 16)
    return np.asarray((power << FRACTION_BITS) + ((fraction + 128) >> 8))


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Brief):
    """Hold what an ensemble says of N inputs after some members.

    Attributes:
        label: int64 ``(N,)``: the first maximum of `log_p`. Of a network with several heads, labels, means and
            variances are ``(N, heads)``, and `log_p` holds those of all heads side by side (`blrc.program.heads`).
        log_p: int64 ``(N, classes)``: sum over members of log2 p, Q16.
        mean: int64 ``(N,)``: mean probability of the label, Q16, rounded down.
        variance: int64 ``(N,)``: population variance of the label's probability over members, Q32, rounded down (the
            paper's measure of certainty, section 5.2).
        members: int64 ``(N,)``: how many members were used.

    Of a network of values (`blrc.program.values`), `label` is ``(N, 0)``, `log_p` holds the sums of the values over
    members, and `mean` and `variance` are those of the values, ``(N, values)``.
    """

    label: Int64s
    log_p: Int64s
    mean: Int64s
    variance: Int64s
    members: Int64s


@dataclass(frozen=True, eq=False)
class Sums:
    """Hold the running sums of an ensemble, int64 ``(N, classes)`` each: log p in Q16, p in Q16, p^2 in Q32."""

    log_p: Int64s
    p: Int64s
    p_squared: Int64s
    members: int

    @staticmethod
    def start(count: int, classes: int) -> Sums:
        zeros = np.zeros((count, classes), dtype=np.int64)
        return Sums(zeros, zeros, zeros, 0)

    def add(self, scores: NDArray[Any], scale: Scale) -> Sums:
        """Return the sums with one more member, which has these scores."""
        log_p = log_probabilities(scores, scale)
        p = probabilities(log_p)
        return Sums(self.log_p + log_p, self.p + p, self.p_squared + p * p, self.members + 1)

    def answer(self) -> Answer:
        """Return what the members so far say; there must be at least one."""
        n = self.members
        label = self.log_p.argmax(axis=1)
        rows = np.arange(len(label))
        p, squared = self.p[rows, label], self.p_squared[rows, label]
        return Answer(label, self.log_p, p // n, (n * squared - p * p) // (n * n), np.full_like(label, n))

    def settled(self, remaining: int) -> NDArray[np.bool_]:
        """Return where `remaining` further members cannot change the label, bool ``(N,)``.

        A member moves log p of two classes apart by at most FLOOR. So the lead must be at least that for each further
        member, and larger over an earlier class, because the first maximum wins.
        """
        label = self.log_p.argmax(axis=1)
        lead = self.log_p[np.arange(len(label)), label][:, None] - self.log_p
        before = np.arange(self.log_p.shape[1]) < label[:, None]
        same = np.arange(self.log_p.shape[1]) == label[:, None]
        return np.asarray((same | (lead >= remaining * FLOOR + before)).all(axis=1))


def ensemble(scores: Sequence[NDArray[Any]], scale: Scale, gate: int = 0) -> Answer:
    """Return the answer of all members, from the scores ``(N, classes)`` of each.

    Args:
        gate: in Q16; where the first member's probability of its label is at least this, the answer is that of this
            member alone; 0 is no gate.
    """
    sums = Sums.start(*scores[0].shape).add(scores[0], scale)
    first = sums.answer()
    for member in scores[1:]:
        sums = sums.add(member, scale)
    return gated(first, sums.answer(), gate)


def gated(first: Answer, whole: Answer, gate: int) -> Answer:
    """Return `first` (one member's answer) where its probability is at least `gate`, for every head, else `whole`.

    The gate is in Q16, and 0 is no gate.
    """
    if not gate:
        return whole
    alone = every(first.mean >= gate)

    def chosen(name: str) -> Int64s:
        ours, theirs = getattr(first, name), getattr(whole, name)
        return np.asarray(np.where(alone if ours.ndim == 1 else alone[:, None], ours, theirs))

    return Answer(*map(chosen, ("label", "log_p", "mean", "variance", "members")))


def every(holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where something holds for every head, ``(N,)``, from ``(N,)`` or ``(N, heads)``."""
    return holds if holds.ndim == 1 else np.asarray(holds.all(axis=1))


def gate_of(probability: Fraction) -> int:
    """Return the gate in Q16 that p reaches exactly where p / 2^16 >= `probability`, which is above 0 and at most 1."""
    return math.ceil(probability * ONE)


def _log2_e() -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(1 / Decimal(2).ln())


def _table(entry: Any) -> Int64s:
    # Decimal arithmetic is specified exactly, so the tables are the same on every machine.
    with localcontext() as context:
        context.prec = 40
        return np.array([int(entry(j).to_integral_value()) for j in range(257)], dtype=np.int64)

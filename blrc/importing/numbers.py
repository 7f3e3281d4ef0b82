"""Keep numbers exact: constants as float64 or rationals, and rationals as quotients of floats.

A float is a rational number, and products of them are as well. A checkpoint holds floats, so a rational goes into it as
a factor and a divisor, or as several layers one after the other. Nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.kinds.linear import counted, unheld
from blrc.importing.refusal import RefusalError

Reals = NDArray[np.float64]
DIGITS = 53
"""Bits of a whole number that a float64 holds."""
REACH = 500
"""Powers of two, up and down, that a factor may have: the product of two stays a float64."""
CLOSE = 1e-5
"""Relative distance below which weights are +-s but for rounding, which the message then says."""
WHOLE = "are whole numbers of 8 bits times s for each channel"


def reals(what: str, held: NDArray[Any]) -> Reals:
    """Return a constant as float64, which holds it exactly.

    Raises:
        RefusalError: it holds NaN, infinities, or integers beyond 2^53.
    """
    if held.dtype.kind not in "fiub" and held.dtype.name != "bfloat16":
        raise RefusalError(f"{what} is of type {held.dtype.name}", "store it as float32")
    found = np.asarray(held, dtype=np.float64)
    if not np.isfinite(found).all():
        raise RefusalError(f"{what} holds NaN or infinite values", "use a network whose training did not diverge")
    if held.dtype.kind in "iu" and held.size and int(np.abs(found).max()) >= 2**DIGITS:
        raise RefusalError(f"{what} holds integers beyond 2^{DIGITS}", "store smaller ones")
    return found


def quotient(number: Fraction) -> tuple[float, float] | None:
    """Return floats whose quotient is exactly `number`, or None if there are none within reach."""
    if number == 0:
        return 0.0, 1.0
    top, up = _odd(number.numerator)
    bottom, down = _odd(number.denominator)
    if max(top.bit_length(), bottom.bit_length()) > DIGITS or abs(up - down) > REACH:
        return None
    return float(Fraction(top) * Fraction(2) ** (up - down)), float(bottom)


def _odd(n: int) -> tuple[int, int]:
    zeros = (n & -n).bit_length() - 1
    return n >> zeros, zeros


@dataclass(frozen=True, eq=False)
class Discrete:
    """Hold weights by value: whole ``numbers``, int8, times the positive ``scales`` of each output channel.

    Attributes:
        kind: how the kinds of layers with such numbers begin: ``ste`` where all are -1 or +1, else ``whole``.
    """

    kind: str
    numbers: NDArray[np.int8]
    scales: Reals

    def said(self, what: str) -> str:
        """Return what a layer of these weights is called."""
        if self.kind == "ste":
            return f"a binary {what}"
        most = int(np.abs(self.numbers.astype(np.int64)).max())
        return f"a ternary {what}" if most <= 1 else f"a {what} with weights from {-most} to {most}"


def weights_of(weights: NDArray[Any]) -> Discrete | str:
    """Recognise weights: -s and +s, or whole numbers of 8 bits times s, for each channel; or say what they are."""
    found = signs_of(weights)
    if not isinstance(found, str):
        return found
    whole = whole_of(weights)
    return found if isinstance(whole, str) and "rounding" in found else whole or found


def whole_of(weights: NDArray[Any]) -> Discrete | str | None:
    """Recognise whole numbers of 8 bits times one float for each channel, as `blrc.frontend.kinds.linear.counted` does.

    Returns:
        the numbers; what they are where one of them is -128 or 128, or where rounding left them off; None if they are
            others.
    """
    found = counted(weights)
    if found is None:
        return None if counted(weights, CLOSE) is None else f"{WHOLE} only up to rounding"
    numbers, scales = found
    if (why := unheld(numbers)) is not None:
        return why
    return Discrete("whole", numbers.astype(np.int8), scales)


def signs_of(weights: NDArray[Any]) -> Discrete | str:
    """Recognise weights (channels first) of which each channel holds only -s and +s; otherwise say what they hold."""
    rows = weights.reshape(len(weights), -1)
    if not rows.size:
        return "are empty"
    if not np.isfinite(rows).all():
        return "hold NaN or infinite values"
    sizes = np.abs(rows)
    scales = sizes.max(axis=1).astype(np.float64)
    same = sizes == sizes[:, :1]
    if same.all() and (scales > 0).all():
        return Discrete("ste", np.where(weights > 0, np.int8(1), np.int8(-1)), scales)
    near = np.abs(sizes - scales[:, None]) <= CLOSE * scales[:, None]
    if near.all() and (scales > 0).all():
        return "are -s and +s for each channel only up to rounding"
    zero = sizes == 0
    if (near | zero).all():
        return "are -s, 0 and +s (ternary)"
    return f"are real numbers: they are not -s and +s for each channel, nor {WHOLE.removeprefix('are ')}"


def fractions(values: Sequence[float] | Reals) -> list[Fraction]:
    """Return floats as rationals."""
    return [Fraction(float(value)) for value in values]

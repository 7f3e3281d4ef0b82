"""Fold what stands between a binary layer and its sign into a flip and integer thresholds for each channel.

No other module knows how. For an integer pre-activation z a network decides f(z) >= t, where f is the chain of norms,
scales, PReLUs, clips and pools (`blrc.lowering.chain`). With a norm alone that is

    gamma (z - m) / sqrt(v + eps) + beta >= 0.                                                               (1)

f is monotone. Where it falls, the row is *flipped*: z' = -z. So the decision means z' >= t for one integer t, which a
bisection finds with f itself as the predicate. All numbers are exact, because floats are rationals and roots are kept
(`blrc.lowering.surds`). A factor of 0 gives a constant: always or never.

The maximum of a pool becomes an OR of bits. Where f falls behind the pool, the maximum is a minimum of what f makes of
it: NOT(OR(f(z) < t)). The OR is what is computed. Its bits are *inverted*, and whoever reads them negates the weights
of that channel.

An activation of levels (`blrc.net.net.Levels`) decides f(z) >= s (t - 1/2) for t = 1, 2, ..., and its code is how many
of these hold. Each has a threshold of its own by the same law, and they never decrease. The maximum of a pool is that
of codes. Where f falls behind the pool, the code is the largest one less how many f(z) < s (t - 1/2) hold.

Thresholds are confined to [low, high + 1], where [low, high] is the reachable range: low means always, high + 1 means
never.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering.chain import (
    Step,
    channel_steps,
    check_step,
    direction,
    norm_moments,
    pick,
    signs,
)
from blrc.net.encoding import InputEncoding
from blrc.net.net import Conv, Dense, Leak, Levels, Norm, Pointwise, Reals, Scale, Shift, Sign, Threshold, check_finite
from blrc.net.pieces import ScoreStage, Stage

TIE = 1e-12
"""Relative size of what float64's rounding may have done to a value; smaller values are ties."""


@dataclass(frozen=True)
class Inputs:
    """Describe the integers that a layer reads.

    Attributes:
        peak: their largest magnitude.
        scale: how many make one unit of the real values that they stand for.
        binary: whether they are +-1.
    """

    peak: int
    scale: Fraction
    binary: bool


def inputs_of(stage: Stage | ScoreStage, encoding: InputEncoding, behind: bool) -> Inputs:
    """Return what the binary layer of a stage reads.

    Args:
        encoding: the network's input.
        behind: whether the layer reads what another stage gives, or bits, and not the input's codes.
    """
    if stage.reads is not None:
        return Inputs(stage.reads.most, 1 / stage.reads.step, False)
    return Inputs(1, Fraction(1), True) if behind else Inputs(encoding.peak, Fraction(encoding.scale), False)


@dataclass(frozen=True, eq=False)
class Folded:
    """Hold ``flip`` (bool), ``threshold`` (int32) and ``inverted`` (bool), each (channels,).

    A bit is 1 if and only if (-z if flip else z) >= threshold. Bits of a window are pooled by OR. Where ``inverted``,
    the result stands for -1 if it is 1, and for +1 if it is 0.

    Of levels the thresholds are (channels, levels), each row in order, and a code is the number of those that are
    reached. Codes are pooled by their maximum, and where ``inverted`` a result c stands for the largest code less c.
    """

    flip: NDArray[np.bool_]
    threshold: NDArray[np.int32]
    inverted: NDArray[np.bool_]


def fold_stage(stage: Stage, scale: Fraction | float, low: int, high: int, binary: bool) -> Folded:
    """Fold all that follows the binary layer of a stage.

    Args:
        scale: codes per real unit of the layer's input (1 for +-1); eps, bias and running moments are real, z is in
            codes.
        low, high: range of z that can occur.
        binary: whether the layer's inputs are +-1, so that z has the parity of their number if no weight is 0.

    Raises:
        BlrcError: parameters without an exact form, such as one that is not finite, or a norm without statistics or
            with v + eps = 0 (layer and channel named), a strict sign of a value that can be 0,
            or pools with a step between them that turns the order of values round.
    """
    if stage.linear.bias is not None:
        check_finite(stage.linear.name, "bias", stage.linear.bias)
    for step in stage.steps:
        check_step(step)
    channels = len(stage.linear.weights)
    flip, inverted = np.zeros(channels, dtype=bool), np.zeros(channels, dtype=bool)
    limits = np.empty((channels, stage.sign.most if isinstance(stage.sign, Levels) else 1), dtype=np.int32)
    for c in range(channels):
        steps = channel_steps(stage.linear, stage.chain, Fraction(scale), c)
        below, inverted[c] = _orientation(stage, steps, c)
        flip[c] = (direction(steps) < 0) != below
        lowest, highest = (-high, -low) if flip[c] else (low, high)
        strict = _strict(stage.sign)
        for t, at in enumerate(_at(stage.sign, c, below)):
            if at is None:
                limits[c, t] = lowest if below else highest + 1
                continue
            above = partial(_strictly, signs(steps, at)) if t in strict else signs(steps, at)
            reaches = partial(_reaches, above, below, -1 if flip[c] else 1)
            if t == 0:
                limits[c, t] = least(lowest, highest, reaches)
            else:  # as far behind the one before it as that lies behind its own
                guess = 2 * int(limits[c, t - 1]) - int(limits[c, max(0, t - 2)])
                limits[c, t] = least_near(lowest, highest, reaches, guess)
        if isinstance(stage.sign, Sign) and stage.sign.strict:
            _check_strict(stage, steps, c, (low, high), binary)
    return Folded(flip, limits if isinstance(stage.sign, Levels) else limits[:, 0].copy(), inverted)


def _at(sign: Sign | Threshold | Levels, c: int, below: bool) -> list[Fraction | None]:
    """Return what the values of channel c are compared with, in the order in which growing sums reach it.

    None stands for what no value reaches: codes that do not occur.
    """
    if not isinstance(sign, Levels):
        return [pick(sign.at, c) if isinstance(sign, Threshold) else Fraction(0)]
    found: list[Fraction | None] = [
        Fraction(sign.step) * (sign.low + Fraction(2 * t - 1, 2)) if t <= sign.top else None
        for t in range(1, sign.most + 1)
    ]
    return found[::-1] if below else found


def _orientation(stage: Stage, steps: list[Step | None], c: int) -> tuple[bool, bool]:
    """Return whether the bit of channel c is f(z) < t instead of f(z) >= t, and whether it is inverted after pools."""
    turns = (direction(steps[i + 1 :]) for i, step in enumerate(steps) if step is None)
    behind = {turn < 0 for turn in turns if turn}  # a constant is the same whatever was pooled
    if len(behind) > 1:
        raise BlrcError(
            f"layer {stage.pools[-1].name!r}: pools channel {c} again after it was turned round by a negative factor, "
            "which mixes maxima and minima; use one pooling between a binary layer and its sign"
        )
    turned = isinstance(stage.sign, Threshold) and bool(stage.sign.inverted[c if len(stage.sign.inverted) > 1 else 0])
    if not behind:
        return turned, False
    least_of_window = behind == {True}
    return least_of_window, turned != least_of_window


def _strict(sign: Sign | Threshold | Levels) -> range:
    """Return the places of thresholds that a value has to exceed, in the order of `_at` and in the opposite one.

    A tie goes to the even number: s (n - 1/2) itself becomes s (n - 1) where n is odd. The last of 2^k - 1 places is
    even, so that these places are the same in both orders.
    """
    return range(sign.low % 2, sign.most, 2) if isinstance(sign, Levels) and sign.ends is not None else range(0)


def _strictly(above: Callable[[int], int], z: int) -> int:
    return above(z) or -1


def _reaches(above: Callable[[int], int], below: bool, factor: int, z: int) -> bool:
    return (above(factor * z) < 0) == below


def _check_strict(stage: Stage, steps: list[Step | None], c: int, ends: tuple[int, int], binary: bool) -> None:
    """Refuse a sign with sign(0) = 0 where the value of channel c is 0 for a sum that can occur."""

    def at_least(bound: int, z: int) -> bool:
        return above(turn * z) >= bound

    above = signs(steps, Fraction(0))
    turn = 1 if direction(steps) >= 0 else -1
    lowest, highest = ends if turn > 0 else (-ends[1], -ends[0])
    first, after = (least(lowest, highest, partial(at_least, bound)) for bound in (0, 1))
    if any(z % 2 in parities(stage.linear, binary) for z in range(first, min(after, first + 2))):
        raise BlrcError(
            f"layer {stage.sign.name!r}: channel {c} can be exactly 0, whose sign is 0 here and neither -1 nor +1; "
            "make it a sign that gives +1 from 0 on, or move its thresholds off the integers"
        )


def parities(linear: Conv | Dense, binary: bool) -> set[int]:
    """Return the remainders of z modulo 2 that can occur."""
    if not binary or linear.ternary or linear.unit is not None:
        return {0, 1}
    each = linear.weights.shape[1]  # inputs of one tap
    padded = isinstance(linear, Conv) and any(linear.window.padding)
    return {each * (int(np.prod(linear.weights.shape[2:])) - out) % 2 for out in ((0, 1) if padded else (0,))}


def least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the least z in [low, high] for which the monotone predicate holds, or high + 1 if there is none."""
    first, last = low, high + 1
    while first < last:
        middle = (first + last) // 2
        if holds(middle):
            last = middle
        else:
            first = middle + 1
    return first


def least_near(low: int, high: int, holds: Callable[[int], bool], guess: int) -> int:
    """Return what `least` does, in few steps where it is near the `guess`."""
    first, last, probe, step = low, high + 1, min(max(guess, low), high), 1
    reached = holds(probe)
    while first <= probe < last:  # away from the guess in steps that double, until the answer was passed
        if holds(probe) != reached:
            first, last = (probe + 1, last) if reached else (first, probe)
            break
        first, last = (first, probe) if reached else (probe + 1, last)
        probe += -step if reached else step
        step *= 2
    return least(first, last - 1, holds)


def float64_decision(
    stage: Stage, scale: Fraction | float, z: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Decide a stage's bits or codes directly in float64, to compare with the exact decision.

    Pooling is left out: each z is decided by itself.

    Args:
        z: integers ``(..., channels)``.

    Returns:
        whether the output is +1, or the code; and where that is a tie to within float64's rounding (the only place
        where it may differ from the exact decision).
    """
    linear, sign, unit, scale = stage.linear, stage.sign, Fraction(scale), float(scale)
    x = z / scale * (1.0 if linear.unit is None else linear.unit)
    size = np.abs(x) + (0.0 if linear.bias is None else np.abs(linear.bias))
    x = x + (0.0 if linear.bias is None else linear.bias)
    for step in stage.steps:
        x, size = _in_float64(stage, step, unit, x, size)
    if isinstance(sign, Levels):
        u = x / sign.step + 0.5
        tie = np.abs(u - np.rint(u)) * sign.step <= TIE * (size + sign.step * np.abs(u))
        return (np.floor(u) - sign.low).clip(0, sign.top).astype(np.uint8), tie
    at = sign.at if isinstance(sign, Threshold) else np.zeros(1)
    plus = x >= at
    return plus != (sign.inverted if isinstance(sign, Threshold) else False), np.abs(x - at) <= TIE * (size + abs(at))


def _in_float64(stage: Stage, step: Pointwise, scale: Fraction, x: Reals, size: Reals) -> tuple[Reals, Reals]:
    """Return what a step makes of values, and of the magnitudes that were added up to them."""
    if isinstance(step, Norm):
        pairs = [norm_moments(stage.linear, stage.chain, step, scale, c) for c in range(len(step.gamma))]
        mean, spread = np.array([float(m) for m, _ in pairs]), np.sqrt(np.array([float(v) for _, v in pairs]))
        slope = step.gamma / spread
        return slope * (x - mean) + step.beta, np.abs(slope) * (size + np.abs(mean)) + np.abs(step.beta)
    if isinstance(step, Scale):
        return x * step.factor / step.divisor, size * np.abs(step.factor / step.divisor)
    if isinstance(step, Shift):
        return x + step.by, size + np.abs(step.by)
    if isinstance(step, Leak):
        return np.where(x >= 0, x, step.slope * x), size * np.maximum(1.0, step.slope)
    low, high = -np.inf if step.low is None else step.low, np.inf if step.high is None else step.high
    return np.clip(x, low, high), size

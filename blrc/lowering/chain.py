"""Evaluate the chain between a binary layer and its sign exactly: one monotone function of z for each channel.

A chain is made of norms, scales, shifts, PReLUs and clips (`blrc.net.net.Pointwise`), with max pooling between them.
For one channel each step either keeps the order of values, or turns it round, or gives a constant. So the whole chain
does one of the three, and so does what follows a pool. All numbers are exact (`blrc.lowering.surds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blrc.errors import BlrcError
from blrc.lowering.surds import Real, add, multiply, over_root, sign
from blrc.net.net import (
    Clip,
    Conv,
    Dense,
    Leak,
    MaxPool,
    Norm,
    Pointwise,
    Reals,
    Scale,
    Shift,
    Sums,
    check_finite,
    unit_of,
)

MOST_ROOTS = 4
"""Norms with a square root of their own in one chain; each doubles the digits of exact numbers, and their time."""


@dataclass(frozen=True)
class Affine:
    """Hold y = (a x + b) / sqrt(d) + c, exact."""

    a: Fraction
    b: Fraction = Fraction(0)
    d: Fraction = Fraction(1)
    c: Fraction = Fraction(0)

    @property
    def direction(self) -> int:
        return sign(self.a)

    def __call__(self, x: Real) -> Real:
        inner = add(multiply(x, self.a), self.b)
        return inner if self.d == 1 and not self.c else add(over_root(inner, self.d), self.c)

    def then(self, other: Affine) -> Affine | None:
        """Return this map and another one behind it as one map, or None where both have a root."""
        if other.d == 1:
            return Affine(other.a * self.a, other.a * self.b, self.d, other.a * self.c + other.b + other.c)
        if self.d == 1:
            return Affine(other.a * self.a, other.a * (self.b + self.c) + other.b, other.d, other.c)
        return None

    def slope(self, x: Real) -> Real:
        """Return a x / sqrt(d)."""
        return multiply(x, self.a) if self.d == 1 else over_root(multiply(x, self.a), self.d)


@dataclass(frozen=True)
class Bend:
    """Hold a PReLU or a clip: values below ``low`` become low + slope (x - low), those above ``high`` become high."""

    low: Fraction | None
    high: Fraction | None
    slope: Fraction

    @property
    def direction(self) -> int:
        return 1

    def __call__(self, x: Real) -> Real:
        if self.low is not None and sign(add(x, -self.low)) < 0:
            return add(multiply(add(x, -self.low), self.slope), self.low)
        if self.high is not None and sign(add(x, -self.high)) > 0:
            return self.high
        return x


Step = Affine | Bend


def channel_steps(
    linear: Conv | Dense, chain: Sequence[Pointwise | MaxPool], scale: Fraction, c: int
) -> list[Step | None]:
    """Return the steps of channel c, from the integer z on; the first adds the bias in real units, None is a pool.

    Affine maps that follow each other become one, except for roots of two norms.

    Args:
        scale: integers per real unit of z.

    Raises:
        BlrcError: parameters that are not finite, a norm without statistics or with v + eps = 0, a divisor of 0, or a
            PReLU with a negative slope, which is not monotone (layer and channel named).
    """
    bias = Fraction(0) if linear.bias is None else Fraction(linear.bias[c])
    unit = unit_of(linear, c) / scale
    line: tuple[Fraction, Fraction] | None = (unit, bias)
    """Slope and offset of what was computed so far, where it is rational and affine in z."""
    steps: list[Step | None] = [Affine(unit, bias)]
    for step in chain:
        if isinstance(step, MaxPool):
            steps.append(None)
            continue
        done = _norm(step, line, c) if isinstance(step, Norm) else _simple(step, c)
        last = steps[-1]
        joined = last.then(done) if isinstance(last, Affine) and isinstance(done, Affine) else None
        steps[len(steps) - (joined is not None) :] = [joined or done]
        if sum(isinstance(other, Affine) and other.d != 1 for other in steps) > MOST_ROOTS:
            raise BlrcError(
                f"layer {step.name!r}: more than {MOST_ROOTS} norms between a binary layer and its sign, whose exact "
                "threshold would take too long to find; merge norms that follow each other"
            )
        if isinstance(done, Affine) and done.d == 1 and not done.c and line is not None:
            line = (done.a * line[0], done.a * line[1] + done.b)
        else:
            line = None
    return steps


def check_step(step: Pointwise) -> None:
    """Raise a `BlrcError` that names the layer if a parameter is not finite, or the step has no exact form."""
    if isinstance(step, Norm):
        check_norm(step)
    elif isinstance(step, Scale):
        check_finite(step.name, "factor", step.factor)
        check_finite(step.name, "divisor", step.divisor)
        if not step.divisor.all():
            raise BlrcError(f"layer {step.name!r}: divides channel {int(np.argmin(step.divisor != 0))} by 0")
    elif isinstance(step, Shift):
        check_finite(step.name, "shift", step.by)
    elif isinstance(step, Leak):
        check_finite(step.name, "slope", step.slope)
        if (step.slope < 0).any():
            raise BlrcError(
                f"layer {step.name!r}: the slope of channel {int(np.argmax(step.slope < 0))} is negative, so one bit "
                "cannot say on which side of its threshold a value lies; train with slopes of at least 0"
            )
    elif isinstance(step, Clip):
        for bound in (step.low, step.high):
            if bound is not None and not math.isfinite(bound):
                raise BlrcError(f"layer {step.name!r}: the bound {bound} of its clip is not finite; leave it out")
        if step.low is not None and step.high is not None and step.low > step.high:
            raise BlrcError(f"layer {step.name!r}: clips to [{step.low}, {step.high}], which is empty")


def check_norm(norm: Norm) -> None:
    """Raise a `BlrcError` that names the norm if its eps, gamma or beta is not finite, or its eps is negative."""
    if not (math.isfinite(norm.eps) and norm.eps >= 0):
        raise BlrcError(f"layer {norm.name!r}: eps {norm.eps}: must be finite and not negative; train with 1e-5, say")
    check_finite(norm.name, "gamma", norm.gamma)
    check_finite(norm.name, "beta", norm.beta)


def direction(steps: Sequence[Step | None]) -> int:
    """Return 1 where the steps keep the order of values, -1 where they turn it round, 0 where they give a constant."""
    return math.prod(step.direction for step in steps if step is not None)


def evaluate(steps: Sequence[Step | None], z: int) -> Real:
    """Return the value of the chain for one pre-activation."""
    x: Real = Fraction(z)
    for step in steps:
        x = x if step is None else step(x)
    return x


def signs(steps: Sequence[Step | None], at: Fraction) -> Callable[[int], int]:
    """Return the function that tells the sign, -1, 0 or 1, of the chain's value minus `at` for one pre-activation."""
    only = [step for step in steps if step is not None]
    if len(only) == 1 and isinstance(only[0], Affine):
        return _signs_of_line(only[0], at)
    return lambda z: sign(add(evaluate(only, z), -at))


def _signs_of_line(line: Affine, at: Fraction) -> Callable[[int], int]:
    """Do the same for a single map, the commonest chain, in integers: the sign of p z + q + r sqrt(d)."""
    offset = line.c - at
    unit = math.lcm(line.a.denominator, line.b.denominator, offset.denominator)
    p, q, r = (number.numerator * (unit // number.denominator) for number in (line.a, line.b, offset))
    side, square, den = sign(offset), r * r * line.d.numerator, line.d.denominator

    def above(z: int) -> int:
        rational = p * z + q
        own = (rational > 0) - (rational < 0)
        if own == side or own * side == 0:
            return own or side
        distance = rational * rational * den - square
        return own * ((distance > 0) - (distance < 0))

    return above


def has_affine_prefix(chain: Sequence[Pointwise | MaxPool], norm: Norm) -> bool:
    """Return whether only scales, shifts and pools precede the norm, so that its statistics follow from those of z."""
    before = chain[: [step.name for step in chain].index(norm.name)]
    return all(isinstance(step, Scale | Shift | MaxPool) for step in before)


def pick(values: Reals, c: int) -> Fraction:
    """Return the value of channel c, of one for each channel or one for all."""
    return Fraction(values[c if len(values) > 1 else 0])


def real(norm: Norm, what: str, values: Reals, c: int) -> Fraction:
    """Return one channel's statistic. Raise a `BlrcError` that names norm and channel if it is not finite."""
    if not np.isfinite(values[c]):
        check_finite(norm.name, what, values)
    return Fraction(values[c])


def positive(norm: Norm, v_plus_eps: Fraction, c: int) -> Fraction:
    """Return v + eps. Raise a `BlrcError` that names norm and channel if it is not positive."""
    if v_plus_eps <= 0:
        raise BlrcError(
            f"layer {norm.name!r}: variance + eps of channel {c} is not positive, so its norm divides by zero; "
            "train with eps > 0"
        )
    return v_plus_eps


def norm_moments(
    linear: Conv | Dense, chain: Sequence[Pointwise | MaxPool], norm: Norm, scale: Fraction, c: int
) -> tuple[Fraction, Fraction]:
    """Return (m, v + eps) of channel c of a norm of the chain, in the units of what it normalises."""
    before = chain[: [step.name for step in chain].index(norm.name)]
    if not isinstance(norm.statistics, Sums):
        return _moments(norm, None, c)
    line = (Fraction(1), Fraction(0))
    for step in channel_steps(linear, before, scale, c):
        assert step is None or isinstance(step, Affine)
        line = line if step is None else (step.a * line[0], step.a * line[1] + step.b + step.c)
    return _moments(norm, line, c)


def _moments(norm: Norm, line: tuple[Fraction, Fraction] | None, c: int) -> tuple[Fraction, Fraction]:
    statistics = norm.statistics
    if statistics is None:
        raise BlrcError(f"layer {norm.name!r}: its norm has no statistics; calibrate the network first")
    if isinstance(statistics, Sums):
        assert line is not None, "calibration takes no statistics of what is not affine in z"
        slope, offset = line
        mean, variance = slope * statistics.mean(c) + offset, slope**2 * statistics.variance(c)
    else:
        mean = real(norm, "running mean", statistics.means, c)
        variance = real(norm, "running variance", statistics.variances, c)
    return mean, positive(norm, variance + Fraction(norm.eps), c)


def _norm(norm: Norm, line: tuple[Fraction, Fraction] | None, c: int) -> Affine:
    mean, d = _moments(norm, line, c)
    gamma, beta = Fraction(norm.gamma[c]), Fraction(norm.beta[c])
    above, below = math.isqrt(d.numerator), math.isqrt(d.denominator)
    if above**2 == d.numerator and below**2 == d.denominator:
        root = Fraction(above, below)
        return Affine(gamma / root, beta - gamma * mean / root)
    return Affine(gamma, -gamma * mean, d, beta)


def _simple(step: Scale | Shift | Leak | Clip, c: int) -> Step:
    if isinstance(step, Scale):
        return Affine(pick(step.factor, c) / pick(step.divisor, c))
    if isinstance(step, Shift):
        return Affine(Fraction(1), pick(step.by, c))
    if isinstance(step, Leak):
        return Bend(Fraction(0), None, pick(step.slope, c))
    low, high = (None if bound is None else Fraction(bound) for bound in (step.low, step.high))
    return Bend(low, high, Fraction(0))

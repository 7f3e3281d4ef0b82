"""Turn the norm behind the last binary layer into integer scores, `multiplier` z + `bias`.

No other module knows how. For an integer pre-activation z of +-1 inputs the real score of a class is, with V = v + eps,

    gamma (z - m) / sqrt(V) + beta = slope z + offset,    slope = gamma / sqrt(V),    offset = beta - slope m,

or z + (the layer's bias) where it has no norm; scales, shifts and more norms compose. Where the layer reads codes
of levels, or averages, z counts their steps. The integer score counts units
of `scale`:

    multiplier = round(slope / scale),    bias = round(offset / scale).                                         (2)

**Scale.** It is the smallest power of two, from `head.SMALLEST_SCALE` (2^-16) upwards, for which no score of any member
can overflow int32: 2 (|multiplier| n + |bias|) < 2^31 - 1, where n is the number of inputs. The integer softmax in
`blrc.program.head` needs that lower limit.

Of values, no softmax is taken. There the scale is the smallest power of two for which no value reaches 2^24, so that
float32 holds all of them.

**Accuracy.** Each rounding is off by at most half a unit, so |score x scale - real score| <= (n + 1) scale / 2. This is
0.004 for 512 inputs at 2^-16. A multiplier has as many bits as slope x 2^16: 10 to 12 for gamma near 1 and 512 inputs.

All numbers are taken as exact rationals, and (2) is rounded exactly, halves up, by comparing squares in integers
(`blrc.lowering.surds`). So the integers are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering.chain import Affine, channel_steps, check_step, norm_moments
from blrc.lowering.fold import least
from blrc.lowering.surds import Real, add, sign
from blrc.net.net import Norm, Scale, check_finite
from blrc.net.pieces import ScoreStage
from blrc.program import values
from blrc.program.head import SMALLEST_SCALE

INT32_MAX = 2**31 - 1
MOST_VALUE = 2**24
"""Values stay below it: float32 holds every integer up to it."""
_REACH = 2**33  # of twice what is rounded; anything beyond does not fit int32 and is cut there
_LARGEST = Fraction(2) ** 1000


@dataclass(frozen=True, eq=False)
class ScoreNumbers:
    """Hold ``multiplier`` and ``bias`` of every class, int64 ``(classes,)``: integer score = multiplier z + bias."""

    multiplier: NDArray[np.int64]
    bias: NDArray[np.int64]

    def fits(self, inputs: int, limit: int = INT32_MAX) -> bool:
        """Return whether all scores fit int32, even as bias + multiplier (n - 2 count), where `inputs` is n.

        Inputs that are codes count as often as the largest code says. Twice every score is below `limit`.
        """
        return all(
            2 * (abs(int(m)) * inputs + abs(int(b))) < limit for m, b in zip(self.multiplier, self.bias, strict=True)
        )


def score_scale(stages: Sequence[ScoreStage], gives_values: bool = False) -> float:
    """Return the scale that the last layers of all members share.

    Args:
        gives_values: whether the scores are values, of which no softmax is taken.

    Raises:
        BlrcError: parameters that are not finite, no statistics, v + eps = 0 (layer and channel named), or scores that
            no scale brings into int32.
    """
    scale, limit = Fraction(SMALLEST_SCALE), 2 * MOST_VALUE if gives_values else INT32_MAX

    def fits(stage: ScoreStage, scale: Fraction) -> bool:
        peak = 1 if stage.reads is None else stage.reads.most
        return affine(stage, scale).fits(stage.linear.weights.shape[1] * peak, limit)

    for stage in stages:
        while not fits(stage, scale):
            scale *= 2
            if scale > _LARGEST:
                raise BlrcError(f"layer {stage.linear.name!r}: its scores are too large for any scale; train it again")
    if gives_values:
        while scale / 2 >= values.SMALLEST_SCALE and all(fits(stage, scale / 2) for stage in stages):
            scale /= 2
    return float(scale)


def affine(stage: ScoreStage, scale: Fraction) -> ScoreNumbers:
    """Compute multiplier and bias of every class by equation (2) of this module.

    Numbers of more than 32 bits are cut there, and `ScoreNumbers.fits` refuses them.
    """
    parts = [_class(stage, scale / 2, c) for c in range(len(stage.linear.weights))]
    return ScoreNumbers(
        np.array([m for m, _ in parts], dtype=np.int64), np.array([b for _, b in parts], dtype=np.int64)
    )


def real_scores(stage: ScoreStage, z: NDArray[Any]) -> NDArray[np.float64]:
    """Return the real scores in float64, computed directly, for comparison; z is ``(N, classes)``."""
    linear = stage.linear
    unit = _unit(stage)
    x = np.asarray(z / float(unit) + (0.0 if linear.bias is None else linear.bias), dtype=np.float64)
    for step in stage.chain:
        if isinstance(step, Norm):
            pairs = [norm_moments(linear, stage.chain, step, unit, c) for c in range(len(step.gamma))]
            mean, spread = np.array([float(m) for m, _ in pairs]), np.sqrt(np.array([float(v) for _, v in pairs]))
            x = step.gamma * (x - mean) / spread + step.beta
        elif isinstance(step, Scale):
            x = x * step.factor / step.divisor
        else:
            x = x + step.by
    return x


def _class(stage: ScoreStage, half: Fraction, c: int) -> tuple[int, int]:
    """Return multiplier and bias of class c.

    Where all weights are 0, so is z, and the multiplier: the slope of its norm, whose variance is 0, may be huge and
    would make the scale that all classes share coarse.
    """
    linear = stage.linear
    if linear.bias is not None:
        check_finite(linear.name, "bias", linear.bias)
    for step in stage.chain:
        check_step(step)
    slope: Real = Fraction(1)
    offset: Real = Fraction(0)
    for line in channel_steps(linear, stage.chain, _unit(stage), c):
        assert isinstance(line, Affine)
        slope, offset = line.slope(slope), line(offset)
    multiplier = _rounded(partial(_below, slope, half)) if linear.weights[c].any() else 0
    return multiplier, _rounded(partial(_below, offset, half))


def _unit(stage: ScoreStage) -> Fraction:
    """Return how many units of z make a real one."""
    return Fraction(1) if stage.reads is None else 1 / stage.reads.step


def _below(value: Real, half: Fraction, halves: int) -> bool:
    return sign(add(value, -halves * half)) < 0


def _rounded(below: partial[bool]) -> int:
    """Round a real number to whole units, halves up; `below` tells whether it is below h half units."""
    return least(-_REACH, _REACH, below) // 2

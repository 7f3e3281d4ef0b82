"""Turn the norm behind the last binary layer into integer scores, `multiplier` z + `bias`.

No other module knows how. For an integer pre-activation z of +-1 inputs the real score of a class is, with V = v + eps,

    gamma (z - m) / sqrt(V) + beta = slope z + offset,    slope = gamma / sqrt(V),    offset = beta - slope m,

or z + (the layer's bias) where it has no norm. The integer score counts units of `scale`:

    multiplier = round(slope / scale),    bias = round(offset / scale).                                         (2)

**Scale.** It is the smallest power of two, from `head.SMALLEST_SCALE` (2^-16) upwards, for which no score of any member
can overflow int32: 2 (|multiplier| n + |bias|) < 2^31 - 1, where n is the number of inputs. The integer softmax in
`blrc.program.head` needs that lower limit.

**Accuracy.** Each rounding is off by at most half a unit, so |score x scale - real score| <= (n + 1) scale / 2. This is
0.004 for 512 inputs at 2^-16. A multiplier has as many bits as slope x 2^16: 10 to 12 for gamma near 1 and 512 inputs.

All numbers are taken as exact rationals, and (2) is rounded exactly, halves up, by comparing squares in integers
(`fold.decides_plus`). So the integers are the same on every machine.
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
from blrc.lowering.fold import check_norm, decides_plus, least, moments
from blrc.net.net import ScoreStage, check_finite
from blrc.program.head import SMALLEST_SCALE

INT32_MAX = 2**31 - 1
_REACH = 2**33  # of twice what is rounded; anything beyond does not fit int32 and is cut there
_LARGEST = Fraction(2) ** 1000


@dataclass(frozen=True, eq=False)
class Affine:
    """Hold ``multiplier`` and ``bias`` of every class, int64 ``(classes,)``: integer score = multiplier z + bias."""

    multiplier: NDArray[np.int64]
    bias: NDArray[np.int64]

    def fits(self, inputs: int) -> bool:
        """Return whether all scores of `inputs` +-1 inputs fit int32, even as bias + multiplier (n - 2 count)."""
        return all(
            2 * (abs(int(m)) * inputs + abs(int(b))) < INT32_MAX
            for m, b in zip(self.multiplier, self.bias, strict=True)
        )


def score_scale(stages: Sequence[ScoreStage]) -> float:
    """Return the scale that the last layers of all members share.

    Raises:
        BlrcError: parameters that are not finite, no statistics, v + eps = 0 (layer and channel named), or scores that
            no scale brings into int32.
    """
    scale = Fraction(SMALLEST_SCALE)
    for stage in stages:
        while not affine(stage, scale).fits(stage.linear.weights.shape[1]):
            scale *= 2
            if scale > _LARGEST:
                raise BlrcError(f"layer {stage.linear.name!r}: its scores are too large for any scale; train it again")
    return float(scale)


def affine(stage: ScoreStage, scale: Fraction) -> Affine:
    """Compute multiplier and bias of every class by equation (2) of this module.

    Numbers of more than 32 bits are cut there, and `Affine.fits` refuses them.
    """
    parts = [_class(stage, scale / 2, c) for c in range(len(stage.linear.weights))]
    return Affine(np.array([m for m, _ in parts], dtype=np.int64), np.array([b for _, b in parts], dtype=np.int64))


def real_scores(stage: ScoreStage, z: NDArray[Any]) -> NDArray[np.float64]:
    """Return the real scores in float64, computed directly, for comparison; z is ``(N, classes)``."""
    norm, bias = stage.norm, stage.linear.bias
    if norm is None:
        return np.asarray(z + (0.0 if bias is None else bias), dtype=np.float64)
    pairs = [moments(stage.linear, norm, Fraction(1), c) for c in range(len(norm.gamma))]
    mean, spread = np.array([float(m) for m, _ in pairs]), np.sqrt(np.array([float(v) for _, v in pairs]))
    return np.asarray(norm.gamma * (z - mean) / spread + norm.beta)


def _class(stage: ScoreStage, half: Fraction, c: int) -> tuple[int, int]:
    gamma, mean, beta, variance = _parameters(stage, c)
    slope = _rounded(partial(_slope_below, gamma, variance, half))
    return slope, _rounded(partial(_offset_below, gamma, mean, beta, variance, half))


def _parameters(stage: ScoreStage, c: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Return gamma, m, beta and V of class c."""
    linear, norm = stage.linear, stage.norm
    if linear.bias is not None:
        check_finite(linear.name, "bias", linear.bias)
    if norm is None:
        return Fraction(1), Fraction(0), Fraction(0 if linear.bias is None else linear.bias[c]), Fraction(1)
    check_norm(norm)
    mean, variance = moments(linear, norm, Fraction(1), c)
    return Fraction(norm.gamma[c]), mean, Fraction(norm.beta[c]), variance


def _slope_below(gamma: Fraction, variance: Fraction, half: Fraction, halves: int) -> bool:
    return not decides_plus(gamma, Fraction(1), -halves * half, variance)


def _offset_below(
    gamma: Fraction, mean: Fraction, beta: Fraction, variance: Fraction, half: Fraction, halves: int
) -> bool:
    return not decides_plus(gamma, -mean, beta - halves * half, variance)


def _rounded(below: partial[bool]) -> int:
    """Round a real number to whole units, halves up; `below` tells whether it is below h half units."""
    return least(-_REACH, _REACH, below) // 2

"""Say where floating point may decide otherwise than exact rationals: where a value is almost that of its threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.net import Leak, MaxPool, Moments, Norm, Scale, Shift, Threshold
from blrc.net.pieces import Stage

SINGLE, HALF = 2.0**-24, 2.0**-11
"""Relative error of one operation in float32, and in float16."""
ROUNDINGS = 8
"""Operations that a step of a chain has at most, in whichever order they are written."""

Reals = NDArray[np.float64]


def may_differ(stage: Stage, scale: float, z: NDArray[Any], unit: float, off: float = 0.0) -> NDArray[np.bool_]:
    """Return for sums `z`, (n, 1) or (n, channels), whether rounding may decide the bit, as (n, channels).

    The chain is computed in float64, with a bound on how far an evaluation may be off of which each operation has the
    relative error `unit`. Pools are left out.

    Args:
        scale: integers per real unit of z.
        off: how far the sums may be off themselves, in real units.
    """
    linear = stage.linear
    with np.errstate(all="ignore"):
        x = np.broadcast_to(z / np.float64(scale), (len(z), len(linear.weights)))
        far: Any = off + np.abs(x) * unit
        if linear.bias is not None:
            far = far + ROUNDINGS * unit * (np.abs(x) + np.abs(linear.bias))
            x = x + linear.bias
        for step in stage.chain:
            if not isinstance(step, MaxPool):
                x, size, gain = _step(step, x)
                far = far * gain + ROUNDINGS * unit * size
        at = stage.sign.at if isinstance(stage.sign, Threshold) else 0.0
        return np.asarray(~(np.abs(x - at) > far))  # what is no number may be anything


def _step(step: Any, x: Reals) -> tuple[Reals, Reals, Any]:
    """Return the value behind a step, the size of what it adds up, and by what the step multiplies its input."""
    if isinstance(step, Norm):
        assert isinstance(step.statistics, Moments)
        means, variances = step.statistics.means, step.statistics.variances
        gain = step.gamma / np.sqrt(variances + step.eps)
        size = np.abs(gain) * (np.abs(x) + np.abs(means)) + np.abs(step.beta)
        return gain * (x - means) + step.beta, size, np.abs(gain)
    if isinstance(step, Scale):
        value = x * step.factor / step.divisor
        return value, np.abs(value), np.abs(step.factor / step.divisor)
    if isinstance(step, Shift):
        return x + step.by, np.abs(x) + np.abs(step.by), 1.0
    if isinstance(step, Leak):
        value = np.where(x >= 0, x, x * step.slope)
        return value, np.abs(value), np.maximum(1.0, np.abs(step.slope))
    low, high = (-np.inf if step.low is None else step.low), (np.inf if step.high is None else step.high)
    value = np.clip(x, low, high)
    return value, np.abs(value), 1.0

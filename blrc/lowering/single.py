"""Evaluate the chain between a binary layer and its sign in float32, as frameworks do, to compare with exact rationals.

`blrc.lowering.fold` decides by exact rationals. A network that was trained and judged in float32 rounds after every
step, and so may decide otherwise where a value is almost 0. This module computes what float32 says of every sum z that
can occur, in the order of ONNX and PyTorch:

    the layer      z as real number, rounded once, + bias
    norm           a = gamma (1 / sqrt(v + eps)),  b = beta - mean a,  x a + b     (each operation rounded)
    scale, shift   x factor / divisor, x + by
    PReLU, clip    slope x below 0, bounds

Every operation is computed in float64 and rounded to float32. This is the correctly rounded float32 result, because
float64 has more than twice the digits. Sums over the inputs of a layer are taken as exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering.fold import Folded, parities
from blrc.net.net import Clip, Conv, Dense, Leak, Levels, MaxPool, Moments, Norm, Pointwise, Scale, Shift, Threshold
from blrc.net.pieces import Stage

Single = NDArray[np.float32]
AT_ONCE = 2**22
"""Values of z and channels together that are evaluated at once."""


def values(linear: Conv | Dense, chain: Sequence[Pointwise | MaxPool], scale: float, z: NDArray[Any]) -> Single:
    """Return what float32 makes of sums `z`, (n, 1) or (n, channels), as (n, channels); pools are left out.

    Args:
        scale: integers per real unit of z.

    Raises:
        BlrcError: a norm has no statistics in real units.
    """
    with np.errstate(all="ignore"):
        x = np.broadcast_to(_rounded(z / np.float64(scale)), (len(z), len(linear.weights)))
        if linear.bias is not None:
            x = _rounded(_wide(x) + linear.bias)
        for step in chain:
            x = x if isinstance(step, MaxPool) else _step(step, x)
    return x


def decides(stage: Stage, scale: float, z: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether float32 gives +1 for sums `z`, as (n, channels)."""
    x, sign = values(stage.linear, stage.chain, scale, z), stage.sign
    if isinstance(sign, Threshold):
        return np.asarray((x >= sign.at) != sign.inverted)
    return x >= 0


def reachable(linear: Conv | Dense, low: int, high: int, binary: bool) -> NDArray[np.int64]:
    """Return every sum from `low` to `high` that has a parity which can occur."""
    z = np.arange(low, high + 1, dtype=np.int64)
    return z[np.isin(z % 2, [*parities(linear, binary)])]


def rounded(stage: Stage, rule: Folded, scale: float, low: int, high: int, binary: bool) -> Folded:
    """Return a stage's rule with thresholds moved to where float32 decides, if that differs for a sum that can occur.

    Raises:
        BlrcError: float32 decides no channel by one threshold (layer and channel named), or norms were estimated, or
            the stage gives levels, reads codes or has 8-bit weights, whose float32 sums are not exact.
    """
    if stage.linear.unit is not None:
        raise BlrcError(
            f"layer {stage.linear.name!r}: --rounding float32 is for networks of +-1 alone; export layers with 8-bit "
            "weights with --rounding exact"
        )
    if isinstance(stage.sign, Levels) or stage.reads is not None:
        name = stage.sign.name if stage.reads is None else stage.reads.name
        raise BlrcError(
            f"layer {name!r}: --rounding float32 is for networks of +-1 alone; export levels and averages with "
            "--rounding exact"
        )
    z = reachable(stage.linear, low, high, binary)
    threshold = rule.threshold.copy()
    step = max(1, AT_ONCE // len(rule.flip))
    plus = np.concatenate([decides(stage, scale, z[i : i + step, None]) for i in range(0, len(z), step)])
    for c in range(len(threshold)):
        at = moved(z, plus[:, c], rule, c, low, high)
        if at is None:
            raise BlrcError(
                f"layer {stage.linear.name!r}: float32 decides channel {c} by more than one threshold, since its "
                "values overflow; export it with --rounding exact"
            )
        threshold[c] = at
    return Folded(rule.flip, threshold, rule.inverted)


def moved(z: NDArray[np.int64], plus: NDArray[np.bool_], rule: Folded, c: int, low: int, high: int) -> int | None:
    """Return the threshold of channel c that decides as `plus` says for each z; None if no threshold does.

    It is the rule's own wherever that decides alike.
    """
    passes = plus != rule.inverted[c]
    turned = z
    if rule.flip[c]:
        turned, passes, low, high = -z[::-1], passes[::-1], -high, -low
    own = int(rule.threshold[c])
    if np.array_equal(turned >= own, passes):
        return own
    first = int(np.argmax(passes)) if passes.any() else len(passes)
    if not passes[first:].all():
        return None
    return low if first == 0 else high + 1 if first == len(passes) else int(turned[first])


def _step(step: Pointwise, x: Single) -> Single:
    if isinstance(step, Norm):
        return _norm(step, x)
    if isinstance(step, Scale):
        return _rounded(_wide(x) * step.factor / step.divisor)
    if isinstance(step, Shift):
        return _rounded(_wide(x) + step.by)
    if isinstance(step, Leak):
        return np.where(x >= 0, x, _rounded(_wide(x) * step.slope))
    assert isinstance(step, Clip)
    low, high = (-np.inf if step.low is None else step.low), (np.inf if step.high is None else step.high)
    return np.clip(x, np.float32(low), np.float32(high))


def _norm(norm: Norm, x: Single) -> Single:
    if not isinstance(norm.statistics, Moments):
        raise BlrcError(
            f"layer {norm.name!r}: --rounding float32 means the network as it was saved, but this norm's statistics "
            "are estimated; export with --norms given"
        )
    means, variances = norm.statistics.means, norm.statistics.variances
    spread = _rounded(np.sqrt(_wide(_rounded(_wide(_rounded(variances)) + _wide(_rounded(np.float64(norm.eps)))))))
    inverse = _rounded(1.0 / _wide(spread))
    slope = _rounded(_wide(inverse) * _wide(_rounded(norm.gamma)))
    offset = _rounded(_wide(_rounded(norm.beta)) - _wide(_rounded(_wide(_rounded(means)) * _wide(slope))))
    return _rounded(_wide(_rounded(_wide(x) * _wide(slope))) + _wide(offset))


def _rounded(values: Any) -> Single:
    return np.asarray(values, dtype=np.float32)


def _wide(values: Single) -> NDArray[np.float64]:
    return values.astype(np.float64)

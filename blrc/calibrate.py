"""Re-estimate norm statistics, exactly, layer by layer.

The paper's "directly computing the batch statistics" (section 5): each layer's statistics are taken over the
calibration samples as they arrive through the already calibrated, already folded layers before it, so they are those
that the device will see. They are integer sums (sum z, sum z^2), and do not depend on batch order, threads or machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.fold import Folded, fold
from blrc.forward import CHUNK, max_pool, preactivation
from blrc.net import Conv, Dense, Flatten, Layer, MaxPool, Net, Norm, ScoreStage, Stage, Sums, pieces
from blrc.shapes import check_shapes


def calibrate(net: Net, samples: NDArray[Any]) -> Net:
    """The net with norm statistics re-estimated on raw `samples`, ``(N, *encoding.shape)``, N >= 2.

    Raises:
        BlrcError: samples of the wrong type or shape; layers in an order that has no exact integer form.
    """
    net.encoding.check(samples, "calibration samples")
    if len(samples) < 2:
        raise BlrcError(f"calibration needs at least 2 samples, got {len(samples)}; a few hundred are better")
    check_shapes(net)
    x: NDArray[np.int8] = net.encoding.codes(samples)
    scale = net.encoding.scale
    binary = net.encoding.kind == "bits"
    calibrated: dict[str, Norm] = {}
    for piece in pieces(net):
        if isinstance(piece, Stage):
            peak = 1 if binary else net.encoding.peak
            z = preactivation(piece.linear, x, peak)
            norm = piece.norm
            if norm is not None:
                norm = calibrated[norm.name] = replace(norm, statistics=sums(z))
            x = decide(piece, folded(piece, norm, 1.0 if binary else scale, peak), z)
            binary = True
        elif isinstance(piece, MaxPool):
            x = max_pool(x, piece.window)
        elif isinstance(piece, Flatten):
            x = x.reshape(len(x), -1)
        elif isinstance(piece, ScoreStage) and piece.norm is not None:
            statistics = sums(preactivation(piece.linear, x, 1))
            calibrated[piece.norm.name] = replace(piece.norm, statistics=statistics)
    layers: tuple[Layer, ...] = tuple(calibrated.get(layer.name, layer) for layer in net.layers)
    return replace(net, layers=layers)


def sums(z: NDArray[Any]) -> Sums:
    """Exact sums over all axes but the channels' (axis 1)."""
    channels = z.shape[1]
    count = z.size // channels
    peak = max(int(z.max(initial=0)), -int(z.min(initial=0)))
    if count * peak * peak >= 2**63:
        raise BlrcError(f"calibration: {count} pre-activations up to {peak} overflow 64-bit sums; use fewer samples")
    total = np.zeros(channels, dtype=np.int64)
    squares = np.zeros(channels, dtype=np.int64)
    for i in range(0, len(z), CHUNK):
        wide = np.moveaxis(z[i : i + CHUNK].astype(np.int64), 1, -1).reshape(-1, channels)
        total += wide.sum(axis=0)
        squares += np.einsum("mc,mc->c", wide, wide)
    return Sums(count, tuple(map(int, total)), tuple(map(int, squares)))


def folded(stage: Stage, norm: Norm | None, scale: float, peak: int) -> Folded:
    """Flips and thresholds of a stage whose input has `scale` codes a unit and magnitudes up to `peak`."""
    bound = fan_in(stage.linear) * peak
    return fold(stage.linear, norm, scale, -bound, bound)


def decide(stage: Stage, rule: Folded, z: NDArray[Any]) -> NDArray[np.int8]:
    """The +-1 output of a stage for pre-activations `z` (channels on axis 1), as the folded threshold decides it."""
    parts = []
    for i in range(0, len(z), CHUNK):
        x = 2 * passes(rule, z[i : i + CHUNK]).view(np.int8) - np.int8(1)
        for pool in stage.pools:
            x = max_pool(x, pool.window)
        parts.append(np.moveaxis(x, 1, -1))  # in the order in which it lies in memory
    return np.moveaxis(np.concatenate(parts), -1, 1)


def passes(rule: Folded, z: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each z, channels on axis 1, reaches its threshold after the flip."""
    per_channel = (1, -1, *[1] * (z.ndim - 2))
    sign = np.where(rule.flip, -1, 1).astype(z.dtype).reshape(per_channel)
    return np.asarray(sign * z >= rule.threshold.astype(z.dtype).reshape(per_channel))


def fan_in(linear: Conv | Dense) -> int:
    """Taps x channels that one output sees away from the border."""
    return int(np.prod(linear.weights.shape[1:]))

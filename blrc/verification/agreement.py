"""Agreement with the torch network: +-1 weights, float64 norms written out, real softmax weights, on the same input
codes.

Integers are equal everywhere, but the torch network decides in floating point. Each decision is compared on the sums
that it is taken from; the only difference allowed is a tie, where gamma (z - m) / sqrt(v + eps) + beta is 0 up to
float64's rounding. Labels may also differ through the rounding of the softmax weights to integers, which is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.calibrate import decide
from blrc.fold import float64_decision
from blrc.forward import max_pool, preactivation
from blrc.net import Flatten, MaxPool, Net, Softmax, Stage, pieces

CHUNK = 512


@dataclass(frozen=True)
class Agreement:
    """Counts over all inputs.

    Attributes:
        decisions: binarised values compared (layers with a norm).
        ties: decisions where float64 and the exact threshold differ on a tie.
        differences: decisions that differ elsewhere; must be 0.
        labels: inputs compared.
        same_labels: inputs to which the torch network gives the same label.
    """

    decisions: int
    ties: int
    differences: int
    labels: int
    same_labels: int


def torch_agreement(net: Net, raw: NDArray[Any], labels: NDArray[np.int64]) -> Agreement:
    """Compare a calibrated net, in torch and float64, with the program's `labels` for `raw` ``(N, *shape)``."""
    counts = np.zeros(4, dtype=np.int64)
    for i in range(0, len(raw), CHUNK):
        counts += _chunk(net, raw[i : i + CHUNK], labels[i : i + CHUNK])
    decisions, ties, differences, same = map(int, counts)
    return Agreement(decisions, ties, differences, len(raw), same)


def _chunk(net: Net, raw: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    x: NDArray[np.int8] = net.encoding.codes(raw)
    binary = net.encoding.kind == "bits"
    decisions = ties = differences = same = 0
    for piece in pieces(net):
        if isinstance(piece, Stage):
            peak, scale = (1, 1.0) if binary else (net.encoding.peak, net.encoding.scale)
            z = preactivation(piece.linear, x, peak)
            if piece.norm is not None:
                # Channels last, for float64_decision.
                sums = np.moveaxis(z, 1, -1).astype(np.int64)
                ours = (
                    np.moveaxis(decide(Stage(piece.linear, piece.norm, (), ""), piece.norm, z, scale, peak), 1, -1) > 0
                )
                theirs, tie = float64_decision(piece.linear, piece.norm, scale, sums)
                wrong = ours != theirs
                decisions += wrong.size
                ties += int((wrong & tie).sum())
                differences += int((wrong & ~tie).sum())
            x = decide(piece, piece.norm, z, scale, peak)
            binary = True
        elif isinstance(piece, MaxPool):
            x = max_pool(x, piece.window)
        elif isinstance(piece, Flatten):
            x = x.reshape(len(x), -1)
        elif isinstance(piece, Softmax):
            scores = x.reshape(len(x), -1).astype(np.float64) @ piece.weights.T + piece.bias
            same = int((scores.argmax(axis=1) == labels).sum())
    return np.array([decisions, ties, differences, same])

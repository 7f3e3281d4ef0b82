"""Measure agreement with the torch network: +-1 weights, norms written out in float64, and real softmax weights.

Both networks get the same input codes. Integers are equal everywhere, but the torch network decides in floating point.
Each decision is compared on the sums from which it is taken. The only difference allowed is a tie, where gamma (z - m)
/ sqrt(v + eps) + beta is 0 up to float64's rounding. Labels may also differ through the rounding of the scores to
integers, which is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.lowering.affine import real_scores
from blrc.lowering.calibrate import decide, folded, passes, turned
from blrc.lowering.fold import float64_decision, inputs_of
from blrc.lowering.preactivations import max_pool, preactivation, sum_pool
from blrc.lowering.single import decides
from blrc.net.encoding import InputEncoding
from blrc.net.net import AveragePool, Flatten, MaxPool, Net, Softmax, reach
from blrc.net.pieces import ScoreStage, Stage, pieces

CHUNK = 512  # inputs, and rows of sums
AT_ONCE = 2**19  # values compared at once


@dataclass(frozen=True)
class Agreement:
    """Hold counts over all inputs.

    Attributes:
        decisions: the number of bits and codes that were compared (layers with a norm).
        ties: the number of decisions in which float64 and the exact threshold differ on a tie.
        differences: the number of decisions that differ elsewhere; it must be 0.
        labels: the number of inputs whose labels were compared; 0 of a network that gives values.
        same_labels: the number of inputs to which the torch network gives the same label, for every head.
    """

    decisions: int
    ties: int
    differences: int
    labels: int
    same_labels: int


def torch_agreement(net: Net, raw: NDArray[Any], labels: NDArray[np.int64]) -> Agreement:
    """Compare a calibrated net, computed with torch and in float64, with the program's labels.

    Args:
        raw: the inputs, ``(N, *shape)``.
        labels: the program's labels for them, ``(N,)``, or ``(N, heads)``; ``(N, 0)`` of a network that gives values,
            of which only the decisions are compared (`blrc.verification.oracles.lowered` compares the values).
    """
    stages: dict[str, _Decisions] = {}
    behind = net.encoding.is_binary
    for piece in pieces(net):
        if isinstance(piece, Stage):
            stages[piece.linear.name] = _Decisions(piece, net.encoding, behind)
            behind = True
    same = 0
    for i in range(0, len(raw), CHUNK):
        same += _same_labels(
            net, stages, raw[i : i + CHUNK], labels[i : i + CHUNK].reshape(len(raw[i : i + CHUNK]), -1)
        )
    counts = sum((stage.compare() for stage in stages.values()), np.zeros(3, dtype=np.int64))
    decisions, ties, differences = map(int, counts)
    return Agreement(decisions, ties, differences, 0 if net.values else len(raw), same)


class _Decisions:
    """Hold one stage with its folded rule, and the decisions compared so far.

    A decision depends only on the sum z and the channel. If a batch has more values than there are such pairs, as maps
    have, each pair is counted and decided once in float64, however often it occurs. Elsewhere, as in dense layers of
    raw input, a table of the pairs would take gigabytes, so every value is decided by itself. In this way the memory
    stays that of a batch.
    """

    def __init__(self, stage: Stage, encoding: InputEncoding, behind: bool) -> None:
        self.stage = stage
        inputs = inputs_of(stage, encoding, behind)
        self.peak, self.scale = inputs.peak, inputs.scale
        self.rule = folded(stage, encoding, behind)
        self.lowest = -reach(stage.linear) * self.peak
        self.channels = len(stage.linear.weights)
        self.pairs = (1 - 2 * self.lowest) * self.channels
        self.seen: NDArray[np.int64] | None = None
        self.counts = np.zeros(3, dtype=np.int64)

    def run(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the stage's output for a batch, and count or compare its sums."""
        z = preactivation(self.stage.linear, x, self.peak)
        if self.stage.steps:
            if self.pairs <= z.size:
                self._count(z)
            else:
                for part in np.array_split(z, min(len(z), 1 + z.size // AT_ONCE)):
                    rows = np.moveaxis(part, 1, -1).reshape(-1, self.channels).astype(np.int64)
                    self.counts += self._compared(rows, np.broadcast_to(np.int64(1), rows.shape))
        return decide(self.stage, self.rule, z)

    def _count(self, z: NDArray[Any]) -> None:
        if self.seen is None:
            self.seen = np.zeros(self.pairs, dtype=np.int64)
        channel = np.arange(self.channels).reshape(1, -1, *[1] * (z.ndim - 2))
        for part in np.array_split(z, max(1, len(z) // 32)):
            cell = (part.astype(np.int64) - self.lowest) * self.channels + channel
            self.seen += np.bincount(cell.ravel(order="K"), minlength=self.pairs)

    def compare(self) -> NDArray[np.int64]:
        """Return the numbers of decisions, of differences on ties, and of other differences."""
        counts = self.counts.copy()
        if self.seen is None:
            return counts
        seen = self.seen.reshape(-1, self.channels)
        for i in range(0, len(seen), CHUNK):
            times = seen[i : i + CHUNK]
            z = np.arange(self.lowest + i, self.lowest + i + len(times))[:, None] + np.zeros_like(times)
            counts += self._compared(z, times)
        return counts

    def _compared(self, z: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of `compare` for sums z ``(n, channels)``, each of which occurs `times` times."""
        theirs, tie = float64_decision(self.stage, self.scale, z)
        if self.stage.rounding == "float32":
            theirs = decides(self.stage, float(self.scale), z)
        ours = passes(self.rule, z.astype(np.int32))
        wrong = (
            turned(self.stage, self.rule, ours) if ours.dtype == np.uint8 else ours != self.rule.inverted
        ) != theirs
        return np.array([times.sum(), times[wrong & tie].sum(), times[wrong & ~tie].sum()], dtype=np.int64)


def _same_labels(net: Net, stages: Mapping[str, _Decisions], raw: NDArray[Any], labels: NDArray[np.int64]) -> int:
    """Run a batch through all stages, and return on how many inputs the labels of all heads are the program's."""
    x: NDArray[Any] = net.encoding.maps(raw)
    same: list[NDArray[np.bool_]] = []
    for piece in pieces(net):
        if isinstance(piece, Stage):
            x = stages[piece.linear.name].run(x)
        elif isinstance(piece, MaxPool):
            x = max_pool(x, piece.window)
        elif isinstance(piece, AveragePool):
            assert piece.window is not None, "pieces gives it one"
            x = sum_pool(x, piece.window)
        elif isinstance(piece, Flatten):
            x = x.reshape(len(x), -1)
        elif net.values:
            return 0  # the outputs, of which none is a label
        elif isinstance(piece, Softmax):
            scores = (x.reshape(len(x), -1) - float(piece.middle)) @ piece.weights.T + piece.bias
            same.append(scores.argmax(axis=1) == labels[:, len(same)])
        elif isinstance(piece, ScoreStage):
            scores = real_scores(piece, preactivation(piece.linear, x, 1 if piece.reads is None else piece.reads.most))
            same.append(scores.argmax(axis=1) == labels[:, len(same)])
    return int(np.all(same, axis=0).sum())

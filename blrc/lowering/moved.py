"""Say how far thresholds moved when norms were estimated anew, against the statistics that training left."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, binary_layers, sample
from blrc.lowering.calibrate import folded
from blrc.net.net import Moments, Net, Norm
from blrc.net.pieces import Stage, pieces


@dataclass(frozen=True)
class Moved:
    """Count thresholds, one for each channel, and those that moved; ``most`` is the largest move, in units of z."""

    thresholds: int
    moved: int
    most: int

    def __str__(self) -> str:
        """Return a line for reports."""
        by = f", by {self.most:,} at most" if self.moved else ""
        return (
            f"estimating the norms' statistics anew moved {self.moved:,} of {self.thresholds:,} thresholds{by}, "
            "against the network as it was saved"
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return asdict(self)


def moved_by_estimation(source: Checkpoint, net: Net) -> Moved | None:
    """Compare the thresholds of a net, whose norms were estimated, with those of the statistics in its checkpoint.

    Returns:
        None where weights are random, so that no saved network is the one to compare with, or the checkpoint holds no
        statistics of training.
    """
    if binary_layers(source):
        return None
    saved = sample(source, MAP, running=True)
    if not any(isinstance(layer, Norm) and _trained(layer) for layer in saved.layers):
        return None
    thresholds = moved = most = 0
    binary = net.encoding.is_binary
    for now, then in zip(pieces(net), pieces(saved), strict=True):
        if not isinstance(now, Stage) or not isinstance(then, Stage):
            continue
        after, before = (folded(stage, net.encoding, binary).threshold.astype(np.int64) for stage in (now, then))
        far = np.abs(after - before)
        thresholds, moved, most = (
            thresholds + len(far),
            moved + int((far > 0).sum()),
            max(most, int(far.max(initial=0))),
        )
        binary = True
    return Moved(thresholds, moved, most)


def _trained(norm: Norm) -> bool:
    """Return whether a norm's statistics are others than those of a module that was just made."""
    held = norm.statistics
    return isinstance(held, Moments) and bool((held.means != 0).any() or (held.variances != 1).any())

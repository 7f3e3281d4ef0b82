"""Decide which statistics norms have, those of training or new ones, and say how far new ones moved thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, Member, binary_layers, sample
from blrc.lowering.calibrate import calibrate, folded
from blrc.net.choices import NORMS, ROUNDINGS, Norms, Rounding
from blrc.net.net import Moments, Net, Norm
from blrc.net.pieces import Stage, pieces


def parse_norms(norms: str | None) -> Norms | None:
    """Return the option ``norms``; None leaves the choice to the checkpoint.

    Raises:
        BlrcError: it is none of the choices.
    """
    if norms is None:
        return None
    for known in NORMS:
        if norms == known:
            return known
    raise BlrcError(f"--norms {norms!r}: expected {' or '.join(NORMS)}")


def norms_of(checkpoint: Checkpoint, norms: Norms | None = None) -> Norms:
    """Return which statistics the norms get by default: estimated where weights are random, given where none is."""
    return norms or ("estimated" if binary_layers(checkpoint) else "given")


def parse_rounding(rounding: str) -> Rounding:
    """Return the option ``rounding``.

    Raises:
        BlrcError: it is none of the choices.
    """
    for known in ROUNDINGS:
        if rounding == known:
            return known
    raise BlrcError(f"--rounding {rounding!r}: expected {' or '.join(ROUNDINGS)}")


def nets_of(
    checkpoint: Checkpoint, members: Sequence[Member], norms: Norms | None = None, rounding: Rounding = "exact"
) -> list[Net]:
    """Return the nets of members, whose norms have statistics.

    Args:
        norms: ``given``: those that training left in the checkpoint; ``estimated``: those of the calibration samples
            (paper, section 5); None: see `norms_of`.
        rounding: see `blrc.net.net.Net`.

    Raises:
        BlrcError: calibration samples are needed, and the checkpoint has none; or a network has no exact integer form.
    """
    if norms_of(checkpoint, norms) == "given":
        return [replace(sample(checkpoint, member, running=True), rounding=rounding) for member in members]
    nets = [replace(sample(checkpoint, member), rounding=rounding) for member in members]
    if not any(isinstance(layer, Norm) for layer in nets[0].layers):
        return nets
    samples = checkpoint.samples()
    return [calibrate(net, samples) for net in nets]


@dataclass(frozen=True)
class Moved:
    """Count thresholds, one or several for each channel, and those that moved.

    ``most`` is the largest move, in units of z.
    """

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


def as_saved(source: Checkpoint) -> Net | None:
    """Return the network as it was saved, with the statistics of training.

    Returns:
        None where weights are random, so that no saved network is the one to compare with, or the checkpoint holds no
        statistics of training.
    """
    if binary_layers(source):
        return None
    saved = sample(source, MAP, running=True)
    trained = any(isinstance(layer, Norm) and _trained(layer) for layer in saved.layers)
    return saved if trained else None


def moved_by_estimation(saved: Net | None, net: Net) -> Moved | None:
    """Compare the thresholds of a net, whose norms were estimated, with those of the network `as_saved`, if any."""
    if saved is None:
        return None
    thresholds = moved = most = 0
    binary = net.encoding.is_binary
    for now, then in zip(pieces(net), pieces(saved), strict=True):
        if not isinstance(now, Stage) or not isinstance(then, Stage):
            continue
        after, before = (folded(stage, net.encoding, binary).threshold.astype(np.int64) for stage in (now, then))
        far = np.abs(after - before)
        thresholds, moved, most = (
            thresholds + far.size,
            moved + int((far > 0).sum()),
            max(most, int(far.max(initial=0))),
        )
        binary = True
    return Moved(thresholds, moved, most)


def _trained(norm: Norm) -> bool:
    """Return whether a norm's statistics are others than those of a module that was just made."""
    held = norm.statistics
    return isinstance(held, Moments) and bool((held.means != 0).any() or (held.variances != 1).any())

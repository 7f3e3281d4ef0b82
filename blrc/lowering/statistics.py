"""Decide which statistics the norms of a checkpoint's networks have: those of training, or new ones."""

from __future__ import annotations

from collections.abc import Sequence

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import Member, binary_layers, sample
from blrc.lowering.calibrate import calibrate
from blrc.lowering.norms import Norms
from blrc.net.net import Net, Norm


def norms_of(checkpoint: Checkpoint, norms: Norms | None = None) -> Norms:
    """Return which statistics the norms get by default: estimated where weights are random, given where none is."""
    return norms or ("estimated" if binary_layers(checkpoint) else "given")


def nets_of(checkpoint: Checkpoint, members: Sequence[Member], norms: Norms | None = None) -> list[Net]:
    """Return the nets of members, whose norms have statistics.

    Args:
        norms: ``given``: those that training left in the checkpoint; ``estimated``: those of the calibration samples
            (paper, section 5); None: see `norms_of`.

    Raises:
        BlrcError: calibration samples are needed, and the checkpoint has none; or a network has no exact integer form.
    """
    if norms_of(checkpoint, norms) == "given":
        return [sample(checkpoint, member, running=True) for member in members]
    nets = [sample(checkpoint, member) for member in members]
    if not any(isinstance(layer, Norm) for layer in nets[0].layers):
        return nets
    samples = checkpoint.samples()
    return [calibrate(net, samples) for net in nets]

"""Decide which statistics the norms of a checkpoint's networks have: those of training, or new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import Member, binary_layers, sample
from blrc.lowering.calibrate import calibrate
from blrc.net.net import ROUNDINGS, Net, Norm, Rounding

Norms = Literal["given", "estimated"]
NORMS: tuple[Norms, ...] = get_args(Norms)


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

"""Find channels whose bit is the same for every input, because a factor of their chain is 0."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from blrc.net.net import Net, Norm, Scale
from blrc.net.pieces import Stage, pieces

SHOWN = 10
"""Channels that a note names."""


def constant_channels(stage: Stage) -> NDArray[np.intp]:
    """Return the channels of a stage of which a norm's gamma or a scale's factor is 0."""
    constant = np.zeros(len(stage.linear.weights), dtype=bool)
    for step in stage.steps:
        if isinstance(step, Norm | Scale):
            constant |= (step.gamma if isinstance(step, Norm) else step.factor) == 0
    return np.flatnonzero(constant)


def notes(net: Net) -> Iterator[str]:
    """Yield a sentence for each layer that has such channels."""
    for piece in pieces(net):
        if isinstance(piece, Stage) and len(found := constant_channels(piece)):
            names = ", ".join(map(str, found[:SHOWN])) + (" ..." if len(found) > SHOWN else "")
            yield (
                f"layer {piece.linear.name!r}: {len(found)} of {len(piece.linear.weights)} channels give the same bit "
                f"for every input, since a factor is 0: {names}"
            )

"""Rank the groups of channels of a network by how far their weights are from the prior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.weights.prior import EVEN, Prior
from blrc.inspection.divergence import divergences
from blrc.pruning.channels import Channels, Family, inputs_option
from blrc.pruning.choices import SIDES, By

Order = NDArray[np.int64]
Floats = NDArray[np.float64]


def scores_of(checkpoint: Checkpoint, channels: Channels, by: By = "outputs", prior: Prior = EVEN) -> dict[str, Floats]:
    """Return for each family the mean divergence, in nats, of the weights that rank each of its groups.

    Families that no random weight computes or reads are left out. Where only weights of the other side are random,
    such as in front of a softmax layer, these rank.

    Raises:
        BlrcError: the prior names no layer with random weights.
    """
    found = divergences(checkpoint, prior)
    scores = {family.name: _scores(checkpoint, channels, family, found, by) for family in channels.families}
    return {name: score for name, score in scores.items() if score is not None}


def order_of(scores: Floats) -> Order:
    """Return the groups in the order in which they are dropped: the least divergence first, of equals the first."""
    return np.argsort(scores, kind="stable")


def _scores(
    checkpoint: Checkpoint, channels: Channels, family: Family, found: Mapping[str, Floats], by: By
) -> Floats | None:
    """Return the mean divergence of each group, by all weights where those of `by` are not random, or else None."""
    for sides in (SIDES if by == "both" else (by,), SIDES):
        total, count = np.zeros(channels.count), np.zeros(channels.count)
        for side in sides:
            for atoms, sums, each in _sums(checkpoint, channels, found, side):
                np.add.at(total, atoms, sums)
                np.add.at(count, atoms, float(each))
        counts = np.array([count[group].sum() for group in family.groups])
        if counts.all():
            return np.asarray(np.array([total[group].sum() for group in family.groups]) / counts)
    return None


def _sums(
    checkpoint: Checkpoint, channels: Channels, found: Mapping[str, Floats], side: str
) -> Iterator[tuple[NDArray[np.int64], Floats, int]]:
    """Yield for each layer with random weights its channels, the sums of their divergences, and how many each has."""
    for node in checkpoint.nodes:
        if (each := found.get(node.name)) is None or inputs_option(node) is None:
            continue
        if side == "outputs":
            rows = each.reshape(len(each), -1)
            yield channels.made[node.name], rows.sum(1), rows.shape[1]
        elif node.options.get("groups", 1) == 1:
            columns = np.moveaxis(each, 1, 0).reshape(each.shape[1], -1)
            yield channels.of[node.inputs[0]], columns.sum(1), columns.shape[1]

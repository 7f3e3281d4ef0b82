"""Search for the channels that a network can do without, at a stated loss of accuracy on validation images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from blrc.datasets.labelled import Labelled
from blrc.evaluation import metrics, scoring
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.inspection.what_if import largest
from blrc.lowering.lower import lower
from blrc.lowering.statistics import nets_of
from blrc.net.bits import WORD_BITS
from blrc.pruning.channels import Channels, Family, weight_count
from blrc.pruning.ranking import Order
from blrc.pruning.removal import without

STEPS = 32
"""Shares of the channels that are tried in all layers at once are multiples of one in `STEPS`."""
SLACK = 1e-9
"""Points by which floats may miss a limit that is met."""
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Pruning:
    """Hold a network, and the order in which each family of its channels is dropped.

    Attributes:
        checkpoint, channels: the network.
        orders: the order of the groups of each family that may be pruned, by the family's name.
        means: see `blrc.pruning.removal.without`.
        words: keep channels in whole words of 32, as far as a family has as many.
    """

    checkpoint: Checkpoint
    channels: Channels
    orders: Mapping[str, Order]
    means: Mapping[str, NDArray[np.float64]]
    words: bool = False

    @property
    def families(self) -> tuple[Family, ...]:
        """Return the families that may be pruned."""
        return tuple(family for family in self.channels.families if family.name in self.orders)

    def choices(self, family: Family) -> list[int]:
        """Return how many groups of a family may be dropped, in ascending order; one at least is kept."""
        groups = len(family.groups)
        if not self.words:
            return list(range(groups))
        size = len(np.intersect1d(family.groups[0], self.channels.made[family.name]))
        return [0, *(drop for drop in range(1, groups) if (groups - drop) * size % WORD_BITS == 0)]

    def at_share(self, share: float) -> dict[str, int]:
        """Return how many groups of each family are dropped, which is at most this share of them."""
        return {
            family.name: max(drop for drop in self.choices(family) if drop <= share * len(family.groups) + SLACK)
            for family in self.families
        }

    def smaller(self, dropped: Mapping[str, int]) -> Checkpoint:
        """Return the network without the first groups of each family; its norms keep their statistics."""
        kept = np.ones(self.channels.count, dtype=bool)
        for family in self.families:
            for group in self.orders[family.name][: dropped.get(family.name, 0)]:
                kept[family.groups[group]] = False
        return without(self.checkpoint, self.channels, kept, self.means)


@dataclass(eq=False)
class Search:
    """Measure smaller networks, each once.

    Attributes:
        pruning: what may be dropped.
        head: the head whose labels the images have, or None.
        images: validation images.
        progress: is told how many networks are measured.
        total: how many will be.
    """

    pruning: Pruning
    head: str | None
    images: Labelled
    progress: Progress
    total: int = 2
    found: dict[tuple[int, ...], float] = field(default_factory=dict)

    def accuracy(self, dropped: Mapping[str, int]) -> float:
        """Return the accuracy of the likeliest network, whose norms are estimated anew, in per cent."""
        key = tuple(dropped.get(family.name, 0) for family in self.pruning.families)
        if key not in self.found:
            self.progress("networks measured", len(self.found), max(self.total, len(self.found) + 1))
            self.found[key] = accuracy_of(self.pruning.smaller(dropped).of_head(self.head), self.images)
        return self.found[key]

    def run(self, loss: float) -> dict[str, int]:
        """Return how many groups of each family are dropped, so that at most `loss` points are lost.

        The largest share of all families together comes first, then what each may lose besides, the family with most
        weights first. Where accuracy does not fall with each channel, more might be possible than bisection finds.
        """
        families = sorted(self.pruning.families, key=self._weights, reverse=True)
        rounds = [STEPS, *(len(self.pruning.choices(family)) for family in families)]
        self.total = 1 + sum((count - 1).bit_length() for count in rounds)
        least = self.accuracy({}) - loss - SLACK
        step = largest(0, STEPS - 1, lambda k: self.accuracy(self.pruning.at_share(k / STEPS)) >= least)
        dropped = self.pruning.at_share((step or 0) / STEPS)
        for family in families:
            choices = self.pruning.choices(family)
            at = largest(
                choices.index(dropped[family.name]),
                len(choices) - 1,
                lambda k, name=family.name, of=choices: self.accuracy({**dropped, name: of[k]}) >= least,  # type: ignore[misc]
            )
            dropped[family.name] = choices[at or 0]
        return dropped

    def _weights(self, family: Family) -> int:
        """Return how many weights the network has less without one group of a family."""
        made = self.pruning.smaller({family.name: 1})
        return weight_count(self.pruning.checkpoint) - weight_count(made)


def accuracy_of(checkpoint: Checkpoint, images: Labelled) -> float:
    """Return the accuracy of a checkpoint's likeliest network, as it is exported, in per cent."""
    program = lower(nets_of(checkpoint, [MAP]))
    return metrics.accuracy(scoring.without_c(program, images.raw).argmax(axis=1), images.labels)

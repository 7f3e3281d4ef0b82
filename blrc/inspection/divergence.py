"""Measure how far the random weights of a checkpoint are from their prior: KL(q || prior) in nats a weight.

A weight that is at its prior says nothing of the data. For a prior by which all of n values are as likely, such as 1/2
for +-1, the divergence is ln n - H, at most ln n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blrc.display import NO_TERMINAL, table
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import binary_layers
from blrc.frontend.weights.prior import EVEN, Prior, prior_of

DECILES = tuple(range(0, 101, 10))
"""Per cents of the weights or channels at which a distribution is shown: from the least to the greatest divergence."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LayerDivergence:
    """Describe the divergence of one layer's random weights from their prior, in nats a weight.

    Attributes:
        name: the layer.
        prior: the probability of +1.
        mean: mean over the weights.
        weights: least, deciles and greatest of the weights' divergences (`DECILES`).
        channels: the same of the means over the weights of each output channel.
    """

    name: str
    prior: float
    mean: float
    weights: tuple[float, ...]
    channels: tuple[float, ...]


def divergences(checkpoint: Checkpoint, prior: Prior = EVEN) -> dict[str, Floats]:
    """Return the divergence of each random weight by layer, in the shape of the layer's weights.

    Raises:
        BlrcError: the prior names a layer without random weights, or is not 1/2 for one whose weights have more than
            two values; these are as likely in its prior.
    """
    given = prior_of(prior, binary_layers(checkpoint), f"{checkpoint.source}: prior")
    return {name: _of_layer(checkpoint, name, plus) for name, plus in given.items()}


def _of_layer(checkpoint: Checkpoint, name: str, plus: float) -> Floats:
    coding, held = checkpoint.coded(name).coding, checkpoint.real_logits(name)
    if coding.values == (-1, 1):
        return divergence(coding.logarithms(*held), (1.0 - plus, plus))
    if plus != EVEN:
        raise BlrcError(
            f"{checkpoint.source}: prior of layer {name!r} {plus}: its weights have {len(coding.values)} values; give "
            f"{EVEN}, by which all are as likely"
        )
    return divergence(coding.logarithms(*held), (1.0 / len(coding.values),) * len(coding.values))


def divergence(logarithms: Floats, prior: Sequence[float]) -> Floats:
    """Return the divergence of weights from a prior, in nats: the sum of p (ln p - ln prior) over their values.

    Args:
        logarithms: ln p of each value, along the last dimension.
        prior: the probability of each value.

    Returns:
        An array without that dimension. Rounding below 0 is cut off.
    """
    terms = np.exp(logarithms) * (logarithms - np.log(prior))
    return np.asarray(np.maximum(terms.sum(axis=-1), 0.0))


def distributions(checkpoint: Checkpoint, prior: Prior = EVEN) -> tuple[LayerDivergence, ...]:
    """Return the distribution of the divergence in each layer with random weights."""
    found = divergences(checkpoint, prior)
    given = prior_of(prior, found)
    return tuple(
        LayerDivergence(
            name,
            _shown(checkpoint, name, given[name]),
            float(each.mean()),
            _deciles(each),
            _deciles(each.reshape(len(each), -1).mean(1)),
        )
        for name, each in found.items()
    )


def _shown(checkpoint: Checkpoint, name: str, plus: float) -> float:
    values = checkpoint.coded(name).coding.values
    return plus if values == (-1, 1) else 1.0 / len(values)


def to_text(layers: Sequence[LayerDivergence], width: int = NO_TERMINAL) -> list[str]:
    """Return the lines of a table for a person."""
    rows = [("layer", "of", "prior", "mean", "least", *(f"{share} %" for share in DECILES[1:-1]), "greatest")]
    for layer in layers:
        for what, values in (("weights", layer.weights), ("channels", layer.channels)):
            shown = (f"{value:.3f}" for value in values)
            rows.append((layer.name, what, f"{layer.prior:g}", f"{layer.mean:.3f}", *shown))
    return [
        *table(rows, 2, width),
        "KL: divergence of weights from their prior in nats a weight, at deciles; channels: means over output channels",
    ]


def _deciles(values: Floats) -> tuple[float, ...]:
    return tuple(np.percentile(values, DECILES).tolist())

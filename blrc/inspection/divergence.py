"""Measure how far the random weights of a checkpoint are from their prior: KL(q || Bern(prior)) in nats a weight.

A weight that is at its prior says nothing of the data. For a prior of 1/2 the divergence is ln 2 - H, at most ln 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blrc.display import NO_TERMINAL, table
from blrc.frontend.checkpoint import LOGITS, Checkpoint
from blrc.frontend.logits import STEPS_PER_UNIT
from blrc.frontend.sample import binary_layers
from blrc.training.prior import EVEN, Prior, prior_of

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
        BlrcError: the prior names a layer without random weights.
    """
    layers = [name for name in binary_layers(checkpoint) if name + LOGITS in checkpoint.tensors]
    given = prior_of(prior, layers, f"{checkpoint.source}: prior")
    return {name: divergence(_logits(checkpoint, name), plus) for name, plus in given.items()}


def divergence(logits: Floats, plus: float = EVEN) -> Floats:
    """Return the divergence of weights with p(-1) = sigmoid(logits) from a prior with probability `plus` of +1.

    Each outcome adds p ln(p / prior), of which both logarithms are computed from the logit, so nothing overflows and
    a large logit cancels nothing. Rounding below 0 is cut off.
    """
    size = np.abs(logits)
    log_likely = -np.log1p(np.exp(-size))
    log_rare = log_likely - size
    minus, log_minus = np.where(logits > 0, log_likely, log_rare), math.log1p(-plus)
    other, log_plus = np.where(logits > 0, log_rare, log_likely), math.log(plus)
    return np.asarray(np.maximum(np.exp(minus) * (minus - log_minus) + np.exp(other) * (other - log_plus), 0.0))


def distributions(checkpoint: Checkpoint, prior: Prior = EVEN) -> tuple[LayerDivergence, ...]:
    """Return the distribution of the divergence in each layer with random weights."""
    found = divergences(checkpoint, prior)
    given = prior_of(prior, found)
    return tuple(
        LayerDivergence(
            name, given[name], float(each.mean()), _deciles(each), _deciles(each.reshape(len(each), -1).mean(1))
        )
        for name, each in found.items()
    )


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


def _logits(checkpoint: Checkpoint, name: str) -> Floats:
    held = checkpoint.tensors[name + LOGITS]
    real = held.astype(np.float64)
    return np.asarray((real + 0.5) / STEPS_PER_UNIT if held.dtype == np.int8 else real)


def _deciles(values: Floats) -> tuple[float, ...]:
    return tuple(np.percentile(values, DECILES).tolist())

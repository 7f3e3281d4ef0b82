"""Compute what concerns all random weights of a network: the second terms of its objectives, and their spread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from blrc.errors import BlrcError
from blrc.nn.weights.distribution import WeightDistribution


def distributions(model: nn.Module) -> Iterator[WeightDistribution]:
    """Yield every weight distribution in a network."""
    return (module for module in model.modules() if isinstance(module, WeightDistribution))


@contextmanager
def shared_moments(model: nn.Module) -> Iterator[None]:
    """Let `variance_regulariser` reuse the moments of the network's forward pass inside this context.

    Use it around the loss of one step, since no weight may change inside. The moments are dropped at the end.
    """
    weights = list(distributions(model))
    try:
        for weight in weights:
            weight.share(True)
        yield
    finally:
        for weight in weights:
            weight.share(False)


def restrain(model: nn.Module, spread: float) -> None:
    """Multiply the variance of every random weight by `spread` in training from now on; 1 is the full variance.

    A network whose variance is reduced step by step in further training comes closer to its MAP network. Samples are
    still drawn from the full distribution.

    Raises:
        BlrcError: the spread is not above 0 and at most 1.
    """
    if not 0.0 < spread <= 1.0:
        raise BlrcError(f"spread {spread}: must be above 0 and at most 1")
    for weight in distributions(model):
        weight.spread = spread


def variance_regulariser(model: nn.Module) -> Tensor:
    """Return ``||sigmoid(W) (1 - sigmoid(W))||_1`` over all weights (paper, section 4.4).

    This is a quarter of their total variance, and of ternary weights it is that as well.
    """
    return _total([0.25 * weight.total_variance() for weight in distributions(model)])


def entropy(model: nn.Module) -> Tensor:
    """Return H[p(B)] in nats, summed over all weights: the second term of the variational bound (paper, section 3).

    The bound to maximise is ``E[log p(Y | X, B)] + H[p(B)]``. With a mean loss per example, subtract
    ``entropy(model) / N`` from the loss.
    """
    return _total([weight.entropy().sum() for weight in distributions(model)])


def _total(terms: list[Tensor]) -> Tensor:
    if not terms:
        raise BlrcError("the network has no weight distribution: build it of BinaryLinear and BinaryConv2d layers")
    return torch.stack([term.reshape(()) for term in terms]).sum()

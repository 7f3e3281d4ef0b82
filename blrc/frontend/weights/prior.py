"""Read priors of binary weights: the probability of +1, one for all layers or one for some of them by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from blrc.errors import BlrcError

EVEN = 0.5
"""The prior of a layer that none is given for: both signs are as likely, and the divergence is ln 2 - H."""

Prior = float | Mapping[str, float]
"""One probability of +1 for every binary layer, or one for each layer that is named, beside `EVEN` for the others."""


def parse_prior(given: Any, option: str = "prior") -> Prior:
    """Return a prior from a number, from pairs, or from a text such as ``0.3`` or ``conv1=0.3,dense=0.4``.

    Raises:
        BlrcError: it is no number above 0 and below 1, or a layer is named twice.
    """
    if isinstance(given, Mapping):
        return {
            str(name): _probability(number, f"{option} of layer {str(name)[:40]!r}") for name, number in given.items()
        }
    if not isinstance(given, str) or "=" not in given:
        return _probability(given, option)
    found: dict[str, float] = {}
    for part in given.split(","):
        name, equals, number = (piece.strip() for piece in part.rpartition("="))
        if not equals or not name:
            raise BlrcError(
                f"{option} {part[:40]!r}: expected a number such as 0.3, or pairs such as conv1=0.3,dense=0.4"
            )
        if name in found:
            raise BlrcError(f"{option}: layer {name[:40]!r} stands there twice")
        found[name] = _probability(number, f"{option} of layer {name[:40]!r}")
    return found


def prior_of(prior: Prior, layers: Collection[str], who: str = "prior") -> dict[str, float]:
    """Return the prior of each layer.

    Args:
        prior: what `parse_prior` gave.
        layers: names of the layers with random weights.
        who: how a message begins.

    Raises:
        BlrcError: a name is none of the layers'; the message lists these.
    """
    if not isinstance(prior, Mapping):
        return dict.fromkeys(layers, prior)
    if unknown := next((name for name in prior if name not in layers), None):
        raise BlrcError(f"{who}: no layer {unknown[:40]!r} has binary weights; those that have are {', '.join(layers)}")
    return {name: prior.get(name, EVEN) for name in layers}


def _probability(given: Any, who: str) -> float:
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = float("nan")
    if not 0.0 < found < 1.0 or isinstance(given, bool):
        raise BlrcError(f"{who} {str(given)[:40]}: the probability of a weight of +1, above 0 and below 1, such as 0.5")
    return found

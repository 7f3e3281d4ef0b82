"""List the distributions of weights by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from blrc.errors import BlrcError
from blrc.nn.weights.bernoulli import Bernoulli
from blrc.nn.weights.distribution import WeightDistribution
from blrc.nn.weights.ternary import Ternary

DISTRIBUTIONS: dict[str, type[WeightDistribution]] = {cls.name: cls for cls in (Bernoulli, Ternary)}


def new_distribution(
    who: str, name: object, shape: Sequence[int], device: torch.device | str | None, dtype: torch.dtype | None
) -> WeightDistribution:
    """Return a new distribution by its name.

    Args:
        who: what messages call the layer that takes it.

    Raises:
        BlrcError: there is none of that name; the message lists those that exist.
    """
    if not isinstance(name, str) or name not in DISTRIBUTIONS:
        what = name if isinstance(name, type) else type(name)
        shown = repr(name[:50]) if isinstance(name, str) else what.__name__
        raise BlrcError(f"{who}: weight {shown}: {' or '.join(map(repr, DISTRIBUTIONS))}")
    return DISTRIBUTIONS[name](shape, device=device, dtype=dtype)

"""List how the weights of each distribution are held and drawn."""

from __future__ import annotations

from blrc.frontend.weights.binary import BINARY
from blrc.frontend.weights.record import Coding
from blrc.frontend.weights.ternary import TERNARY

CODINGS: dict[str, Coding] = {coding.name: coding for coding in (BINARY, TERNARY)}


def coding_of(kind: str) -> Coding | None:
    """Return how the weights of a kind of layers are held and drawn; None if it has none that are random."""
    return CODINGS.get(kind.partition("_")[0])


def holds_logits(key: str) -> bool:
    """Return whether a key in a state_dict is that of logits."""
    return key.endswith(tuple(f".weight.{name}" for coding in CODINGS.values() for name in coding.tensors))

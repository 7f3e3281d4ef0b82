"""Networks that end in several heads, and what torch gives for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.saving import from_model
from blrc.net.encoding import InputEncoding

SHAPE = (2, 7, 6)
HEADS = {"digit": 10, "parity": 2}


class Pair(NamedTuple):
    digit: torch.Tensor
    parity: torch.Tensor


class Headed(nn.Module):
    """A trunk whose bits several last layers read."""

    def __init__(self, trunk: nn.Module, heads: Mapping[str, nn.Module], form: str = "dict") -> None:
        super().__init__()
        self.trunk, self.ends, self.form = trunk, nn.ModuleDict(dict(heads)), form

    def forward(self, x: torch.Tensor) -> Any:
        bits = self.trunk(x)
        found = {name: end(bits) for name, end in self.ends.items()}
        if self.form == "fields":
            return Pair(**found)
        return found if self.form == "dict" else tuple(found.values())


def stochastic(heads: Mapping[str, int] = HEADS, form: str = "dict") -> Headed:
    """Random weights in the trunk, and last layers with real ones."""
    trunk = nn.Sequential(
        bnn.BinaryConv2d(SHAPE[0], 9, 3), bnn.StochasticBatchNorm2d(9), bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(), nn.Flatten(),
    )  # fmt: skip
    return Headed(trunk, {name: bnn.SoftmaxLinear(36, classes) for name, classes in heads.items()}, form)


def binarized(heads: Mapping[str, int] = HEADS, form: str = "dict") -> Headed:
    """A Binarized NN whose last layers are binary too: one with a norm, one with a bias, and so on in turn."""
    trunk = nn.Sequential(
        bnn.SteConv2d(SHAPE[0], 9, 3, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(9), bnn.SteSign(), nn.Flatten()
    )
    ends: dict[str, nn.Module] = {}
    for place, (name, classes) in enumerate(heads.items()):
        norm = [nn.BatchNorm1d(classes)] if place % 2 == 0 else []
        ends[name] = nn.Sequential(bnn.SteLinear(81, classes, bias=place % 2 == 1), *norm)
    return Headed(trunk, ends, form)


def drawn_heads(rng: np.random.Generator) -> dict[str, int]:
    """Two to five heads with two to nine classes."""
    return {f"h{place}": int(rng.integers(2, 10)) for place in range(int(rng.integers(2, 6)))}


def saved(model: nn.Module, kind: str = "uint8", seed: int = 0, heads: Sequence[str] | None = None) -> Checkpoint:
    """The checkpoint of a network with random parameters; its scores get other sizes for each head."""
    encoding = encoding_of(kind, SHAPE)
    randomise(model, seed, ties=False)
    with torch.no_grad():
        for place, module in enumerate(each for each in model.modules() if isinstance(each, bnn.SoftmaxLinear)):
            module.weight.mul_(8.0**place)
    return from_model(model, encoding, raw_samples(encoding, 40, seed), source="drawn.pt", heads=heads)


def by_torch(model: nn.Module, encoding: InputEncoding, raw: NDArray[Any]) -> list[NDArray[np.float64]]:
    """The real scores of each head, in float64, of a module whose weights are certain."""
    with torch.no_grad():
        found = model.double().eval()(torch.from_numpy(encoding.codes(raw) / encoding.scale))
    return [each.numpy() for each in (found.values() if isinstance(found, dict) else found)]


def written(checkpoint: Checkpoint, path: Path) -> Path:
    from blrc.frontend.saving import write

    write(checkpoint, path)
    assert blrc.load(path).heads == checkpoint.heads
    return path

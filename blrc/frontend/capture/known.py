"""List the classes that are compiled, with the kind of each and the attributes of its new instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.graph import KINDS, RANDOM
from blrc.nn.ranks import JointBatchNorm1d, JointBatchNorm2d
from blrc.nn.weights.distribution import WeightDistribution
from blrc.nn.weights.table import DISTRIBUTIONS

# Layers that evaluation passes by.
SKIPPED: tuple[type[nn.Module], ...] = (
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
_KIND_OF_CLASS: dict[type[nn.Module], str] = {
    **{known.cls: kind for kind, known in KINDS.items()},
    nn.Linear: "softmax",
    nn.MaxPool1d: "plain_pool1d",
    nn.MaxPool2d: "plain_pool2d",
    # In evaluation they are torch's own norms.
    JointBatchNorm1d: "plain_norm1d",
    JointBatchNorm2d: "plain_norm2d",
}
_RANDOM = {cls: layer for layer, cls in RANDOM.items()}
# Classes of which each is a layer, or the weights of one.
CLASSES: tuple[type[nn.Module], ...] = (*_KIND_OF_CLASS, *SKIPPED, *DISTRIBUTIONS.values())
# Arguments of the smallest instance; with a bias, so that it has every parameter that an instance can have.
_SMALLEST = {
    "in_channels": 1,
    "out_channels": 1,
    "kernel_size": 1,
    "in_features": 1,
    "out_features": 1,
    "num_features": 1,
    "bias": True,
    "bits": 1,
    "low": 0,
    "high": 1,
    "output_size": 1,
}
_POOLING = {"dilation": 1, "ceil_mode": False, "return_indices": False}
_REMEDIES = {
    "ceil_mode": "windows beyond the map would divide by less; give the map a size that the windows fit",
    "divisor_override": "leave it out, and scale what the next layer gives",
    "count_include_pad": "windows at the border would divide by less; use padding=0",
}
"""Say why averages are not compiled with an option, and what to do."""
_AVERAGING = {"ceil_mode": False, "count_include_pad": True}
# Options of torch's layers that have no integer form, and the only value that is taken.
_FIXED: Mapping[str, Mapping[str, Any]] = {
    "plain_norm1d": {"track_running_stats": True},
    "plain_norm2d": {"track_running_stats": True},
    "plain_pool1d": _POOLING,
    "plain_pool2d": _POOLING,
    "average_pool1d": _AVERAGING,
    "average_pool2d": {**_AVERAGING, "divisor_override": None},
}


def known_class(module: nn.Module) -> type[nn.Module] | None:
    """Return the most derived known class that a module is an instance of, or None."""
    return next((cls for cls in type(module).__mro__ if cls in CLASSES), None)


def kind_of(module: nn.Module) -> str | None:
    """Return the kind of layer that a module is compiled as, or None if it is no layer or evaluation skips it.

    A layer whose weights are of no known distribution, which is refused afterwards, counts as a binary one.
    """
    cls = known_class(module)
    if cls not in _RANDOM:
        return None if cls is None else _KIND_OF_CLASS.get(cls)
    weight = module._modules.get("weight")
    found = None if weight is None else known_class(weight)
    name = found.name if found is not None and issubclass(found, WeightDistribution) else "binary"
    return f"{name}_{_RANDOM[cls]}"


def check_fixed(name: str, kind: str, module: nn.Module) -> None:
    """Refuse a layer with an option that has no integer form. Whether padding counts does not matter without any.

    Raises:
        BlrcError: names the layer, the option and what is taken.
    """
    for option, only in _FIXED.get(kind, {}).items():
        if option == "count_include_pad" and module.padding in (0, (0,), (0, 0)):
            continue
        if getattr(module, option) not in (only, (only, only)):
            remedy = f": {_REMEDIES[option]}" if kind.startswith("average") else ""
            raise BlrcError(
                f"layer {name!r}: {type(module).__name__} with {option}={getattr(module, option)!r} cannot be "
                f"compiled; only {option}={only!r} can{remedy}"
            )


@dataclass(frozen=True)
class Blank:
    """Hold the names of what an untouched instance of a known class has.

    Attributes:
        plain: names in its ``__dict__``.
        parameters, buffers, modules: names in those registries.
    """

    plain: frozenset[str]
    parameters: frozenset[str]
    buffers: frozenset[str]
    modules: frozenset[str]

    @property
    def held(self) -> frozenset[str]:
        """Return the names that are looked up in a registry, unless an attribute of the same name hides them."""
        return self.parameters | self.buffers | self.modules


def blank(cls: type) -> Blank:
    """Return what a new instance of a known class has, which depends on the version of torch."""
    return _blank(CLASSES.index(cls))


@cache
def _blank(index: int) -> Blank:
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        new = _new(CLASSES[index])
    return Blank(frozenset(vars(new)), frozenset(new._parameters), frozenset(new._buffers), frozenset(new._modules))


def _new(cls: type[nn.Module]) -> nn.Module:
    if issubclass(cls, WeightDistribution):
        return cls((1, 1))
    kind = _KIND_OF_CLASS.get(cls)
    if kind is None:
        return cls()
    if "channels" in KINDS[kind].options:
        return KINDS[kind].build({"channels": 1})
    return cls(**{name: _SMALLEST[name] for name in KINDS[kind].options if name in _SMALLEST})

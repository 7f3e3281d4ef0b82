"""A torch network as a graph of named layers, and the module that is built from one.

`blrc.capture` makes the graph of a user's own module. It is a list of nodes with named inputs, so that later kinds of
network need no new format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.net import INPUT


@dataclass(frozen=True)
class Node:
    """One layer: its name (the path of the module, such as ``features.0``), kind, inputs by name, and plain options."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class _Kind:
    cls: type[nn.Module]
    options: tuple[str, ...]

    def read(self, module: nn.Module) -> dict[str, Any]:
        return {option: _plain(option, getattr(module, option)) for option in self.options}

    def build(self, options: Mapping[str, Any]) -> nn.Module:
        return self.cls(**{name: _tuples(value) for name, value in options.items()})


_CONV = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias")
KINDS: Mapping[str, _Kind] = {
    "binary_conv2d": _Kind(bnn.BinaryConv2d, _CONV),
    "binary_linear": _Kind(bnn.BinaryLinear, ("in_features", "out_features", "bias")),
    "batch_norm1d": _Kind(bnn.StochasticBatchNorm1d, ("num_features", "eps", "momentum", "affine")),
    "batch_norm2d": _Kind(bnn.StochasticBatchNorm2d, ("num_features", "eps", "momentum", "affine")),
    "max_pool2d": _Kind(bnn.StochasticMaxPool2d, ("kernel_size", "stride", "padding")),
    "sign": _Kind(bnn.StochasticSign, ("tau", "hard", "exact")),
    "softmax": _Kind(bnn.SoftmaxLinear, ("in_features", "out_features", "bias")),
    "flatten": _Kind(nn.Flatten, ()),
    "ste_conv2d": _Kind(bnn.SteConv2d, _CONV),
    "ste_linear": _Kind(bnn.SteLinear, ("in_features", "out_features", "bias")),
    "ste_sign": _Kind(bnn.SteSign, ()),
    "plain_norm1d": _Kind(nn.BatchNorm1d, ("num_features", "eps", "momentum", "affine")),
    "plain_norm2d": _Kind(nn.BatchNorm2d, ("num_features", "eps", "momentum", "affine")),
    "plain_pool2d": _Kind(nn.MaxPool2d, ("kernel_size", "stride", "padding")),
}


class GraphModel(nn.Module):
    """A module built from a graph; its ``state_dict`` has the keys of the module that was captured."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        super().__init__()
        self.nodes = nodes
        for node in nodes:
            if node.kind not in KINDS:
                raise BlrcError(
                    f"layer {node.name!r} is of kind {node.kind!r}, which this version of blrc does not know"
                )
            *path, last = node.name.split(".")
            parent: nn.Module = self
            for part in path:
                if part not in parent._modules:
                    parent.add_module(part, nn.Module())
                parent = parent.get_submodule(part)
            try:
                parent.add_module(last, KINDS[node.kind].build(node.options))
            except BlrcError as error:
                raise BlrcError(f"layer {node.name!r}: {error}") from None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values: dict[str, Any] = {INPUT: x}
        for node in self.nodes:
            values[node.name] = self.get_submodule(node.name)(*(values[name] for name in node.inputs))
        result: torch.Tensor = values[self.nodes[-1].name]
        return result


def _plain(option: str, value: Any) -> Any:
    """Plain data: tuples become lists, NumPy's and torch's numbers Python's, a bias whether it is there."""
    if option == "bias":
        return value is not None
    if isinstance(value, tuple):
        return [_plain(option, item) for item in value]
    return value.item() if isinstance(value, np.generic | torch.Tensor) else value


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

"""Decide which reader takes a module: the strict one of `blrc.nn` layers, or the one that reads by value."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.frontend.capture.known import known_class
from blrc.frontend.capture.trace import capture_heads
from blrc.frontend.capture.walk import named_modules
from blrc.frontend.kinds.node import Node
from blrc.net.heads import Heads
from blrc.nn import StochasticBatchNorm1d, StochasticBatchNorm2d, StochasticMaxPool2d, WeightDistribution
from blrc.nn.layers.geometry import ConvLayer, DenseLayer
from blrc.nn.layers.levels import SteLevels
from blrc.nn.noise import Noisy
from blrc.reading.given import check_module, transparent

_OURS = (
    ConvLayer,
    DenseLayer,
    StochasticBatchNorm1d,
    StochasticBatchNorm2d,
    StochasticMaxPool2d,
    Noisy,
    WeightDistribution,
)
"""Layers of `blrc.nn` for binary networks; a network that has one of them is read by class, and strictly."""


def unwrapped(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the module inside of wrappers that compute the same, such as DataParallel, and what to tell of it."""
    inner, path = transparent(model)
    if not isinstance(inner, nn.Module) or not path:
        return model, ()
    return inner, (f"saved the module inside of {type(model).__name__}, its .{'.'.join(path)}",)


def captured_strictly(model: nn.Module, names: Sequence[str] | None) -> tuple[tuple[Node, ...], Heads] | None:
    """Return the layers and heads of a module of `blrc.nn` layers, or None if it is one to be read by value.

    Args:
        names: names for the heads (`blrc.frontend.capture.trace.capture_heads`).

    Raises:
        BlrcError: it is of `blrc.nn` layers, or no network, and cannot be captured.
    """
    try:
        nodes, heads = capture_heads(model, names)
    except BlrcError:
        check_module(model)
        if known_class(model) is not None or has_ours(model):
            raise
        _refuse_levels(model)
        return None
    if has_ours(model):
        return nodes, heads
    _refuse_levels(model)
    ends = {layer for _, layer in heads} or {node.name for node in nodes[-1:]}
    real = [node for node in nodes if node.kind == "softmax" and node.name not in ends]
    return None if real or any(_is_binary(model, node) for node in nodes if node.name in ends) else (nodes, heads)


def _refuse_levels(model: nn.Module) -> None:
    """Refuse levels in a network of torch's own layers, which is read by value."""
    for name, module in named_modules(model).items():
        if isinstance(module, SteLevels):
            raise BlrcError(
                f"layer {name!r}: SteLevels behind torch's own layers, and only those of blrc.nn can precede it; use "
                "SteConv2d or SteLinear, which take the same tensors"
            )


def has_ours(model: nn.Module) -> bool:
    """Return whether a network holds a layer of `blrc.nn` with weights or noise, so that it is read strictly."""
    return any(isinstance(module, _OURS) for module in named_modules(model).values())


def _is_binary(model: nn.Module, node: Node) -> bool:
    """Return whether a last layer, which has no class of its own, has weights of one size for each output."""
    if node.kind != "softmax":
        return False
    weight = named_modules(model)[node.name]._parameters["weight"]
    assert isinstance(weight, torch.Tensor)
    size = weight.detach().abs()
    return type(named_modules(model)[node.name]) is nn.Linear and bool((size == size[:, :1]).all())

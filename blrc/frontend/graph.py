"""Describe a torch network as a graph of named layers, and build a module from such a graph.

`blrc.frontend.capture` makes the graph of a user's own module. It is a list of nodes with named inputs, so that later
kinds of network need no new format.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.kinds import table
from blrc.frontend.kinds.node import Node
from blrc.frontend.weights.table import CODINGS
from blrc.net.encoding import InputEncoding
from blrc.net.heads import Heads, Units
from blrc.net.net import INPUT
from blrc.net.standardising import MIDDLE


@dataclass(frozen=True)
class _Kind:
    cls: type[nn.Module]
    options: tuple[str, ...]
    weight: str | None = None
    """Name of the distribution of its weights."""

    def read(self, module: nn.Module) -> dict[str, Any]:
        return {option: _plain(option, getattr(module, option)) for option in self.options}

    def build(self, options: Mapping[str, Any]) -> nn.Module:
        if self.options == ("channels",):  # its parameters are given to it, and loaded afterwards
            return self.cls(torch.ones(options["channels"]))
        if self.cls is nn.Hardtanh:
            low, high = (options[key] for key in self.options)
            return nn.Hardtanh(-math.inf if low is None else low, math.inf if high is None else high)
        given = {} if self.weight is None else {"weight": self.weight}
        return self.cls(**{name: _tuples(value) for name, value in options.items()}, **given)


RANDOM: Mapping[str, type[nn.Module]] = {
    "conv1d": bnn.BinaryConv1d,
    "conv2d": bnn.BinaryConv2d,
    "linear": bnn.BinaryLinear,
}
"""Layers of random weights; the name of a distribution before these names gives their kinds."""
_CLASSES: Mapping[str, type[nn.Module]] = {
    "batch_norm1d": bnn.StochasticBatchNorm1d,
    "batch_norm2d": bnn.StochasticBatchNorm2d,
    "max_pool1d": bnn.StochasticMaxPool1d,
    "max_pool2d": bnn.StochasticMaxPool2d,
    "sign": bnn.StochasticSign,
    "softmax": bnn.SoftmaxLinear,
    "flatten": nn.Flatten,
    "ste_conv1d": bnn.SteConv1d,
    "ste_conv2d": bnn.SteConv2d,
    "ste_linear": bnn.SteLinear,
    "int8_conv1d": bnn.Int8Conv1d,
    "int8_conv2d": bnn.Int8Conv2d,
    "int8_linear": bnn.Int8Linear,
    "whole_conv1d": bnn.WholeConv1d,
    "whole_conv2d": bnn.WholeConv2d,
    "whole_linear": bnn.WholeLinear,
    "ste_sign": bnn.SteSign,
    "levels": bnn.StochasticLevels,
    "ste_levels": bnn.SteLevels,
    "even_levels": bnn.EvenLevels,
    "gaussian_sample": bnn.GaussianSample,
    "plain_norm1d": nn.BatchNorm1d,
    "plain_norm2d": nn.BatchNorm2d,
    "plain_pool1d": bnn.MaxPool1d,
    "plain_pool2d": bnn.MaxPool2d,
    "average_pool1d": nn.AvgPool1d,
    "average_pool2d": nn.AvgPool2d,
    "global_pool1d": nn.AdaptiveAvgPool1d,
    "global_pool2d": nn.AdaptiveAvgPool2d,
    "scale": bnn.ChannelScale,
    "shift": bnn.ChannelShift,
    "prelu": nn.PReLU,
    "relu": nn.ReLU,
    "clip": nn.Hardtanh,
    "threshold": bnn.Threshold,
    "strict_sign": bnn.StrictSign,
}
# Options are those of the table, so that nothing is captured that the reader of checkpoints does not know.
KINDS: dict[str, _Kind] = {name: _Kind(cls, tuple(table.KINDS[name].options)) for name, cls in _CLASSES.items()}


def random_kinds(weight: str) -> dict[str, _Kind]:
    """Return the kinds of layers whose weights have the distribution of that name."""
    found = {f"{weight}_{layer}": cls for layer, cls in RANDOM.items()}
    return {name: _Kind(cls, tuple(table.KINDS[name].options), weight) for name, cls in found.items()}


for _name in CODINGS:
    KINDS |= random_kinds(_name)


class GraphModel(nn.Module):
    """Run a module built from a graph; its ``state_dict`` has the keys of the module that was captured.

    It is given what that module was given, also where its layers read the codes of exact pixels.

    Raises:
        BlrcError: nodes that no checkpoint may hold (`blrc.frontend.kinds.table.check_nodes`), or a layer with a name
            that every module has already, such as ``forward``.
    """

    units_: Units = ()
    """The units of values, where the checkpoint that the network was loaded from gives values."""

    def __init__(self, nodes: tuple[Node, ...], heads: Heads = (), pixels: InputEncoding | None = None) -> None:
        super().__init__()
        table.check_nodes(nodes)
        self.nodes, self.heads, self.pixels = nodes, heads, pixels
        for node in nodes:
            *path, last = node.name.split(".")
            parent: nn.Module = self
            try:
                for part in path:
                    if part not in parent._modules:
                        parent.add_module(part, nn.Module())
                    parent = parent.get_submodule(part)
                parent.add_module(last, KINDS[node.kind].build(node.options))
            except BlrcError as error:
                raise BlrcError(f"layer {node.name!r}: {error}") from None
            except KeyError:  # what every module has already, such as "forward"
                raise BlrcError(f"layer {node.name!r}: a module has that name; give the layer another") from None

    def forward(self, x: torch.Tensor) -> Any:
        """Return the scores: a tensor, or of several heads a dictionary of them."""
        values: dict[str, Any] = {INPUT: x if self.pixels is None else codes(x, self.pixels)}
        for node in self.nodes:
            values[node.name] = self.get_submodule(node.name)(*(values[name] for name in node.inputs))
        if len(self.heads) > 1:
            return {name: values[layer] for name, layer in self.heads}
        return values[self.heads[0][1] if self.heads else self.nodes[-1].name]


def codes(x: torch.Tensor, encoding: InputEncoding) -> torch.Tensor:
    """Return the codes of standardised pixels, which are not rounded elsewhere, as real numbers."""
    column, exact = (-1, *[1] * (len(encoding.shape) - 1)), torch.promote_types(x.dtype, torch.float32)
    mean, std = (
        torch.tensor(row, dtype=exact, device=x.device).reshape(column) for row in (encoding.mean, encoding.std)
    )
    raw = ((x.detach().to(exact) * std + mean) * 255).round().clamp(0, 255)
    if not encoding.at:
        return (raw - MIDDLE).to(x.dtype)
    at = torch.tensor(encoding.at, dtype=exact, device=x.device).reshape(column)
    return torch.where(raw >= at, 1.0, -1.0).to(x.dtype)


def of_codes(model: GraphModel, pixels: InputEncoding, who: str) -> tuple[GraphModel, InputEncoding]:
    """Return a loaded network of exact pixels as one that is given their codes, and the encoding of these.

    Args:
        pixels: the encoding that it has to have.
        who: how messages call it.

    Raises:
        BlrcError: it has another encoding.
    """
    if model.pixels != pixels:
        raise BlrcError(f"{who}: the loaded network takes other pixels; give the encoding of its checkpoint")
    given = () if pixels.at else (tuple(pixels.table()[0].tolist()),)
    inner = copy.copy(model)
    inner.pixels = None
    return inner, InputEncoding(pixels.kind, pixels.shape, 1.0, given=given, at=pixels.at)


def build(
    nodes: tuple[Node, ...],
    tensors: Mapping[str, NDArray[Any]],
    heads: Heads = (),
    pixels: InputEncoding | None = None,
) -> GraphModel:
    """Return a module of these layers with copies of these parameters and buffers.

    Args:
        pixels: the encoding of exact pixels, which the module is given standardised.
    """
    with torch.device("cpu"):
        model = GraphModel(nodes, heads, pixels).float()  # whatever torch's default device and type are
    model.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in tensors.items()})
    return model


def _plain(option: str, value: Any) -> Any:
    """Return an option as plain data.

    Tuples become lists, numbers of NumPy and torch become Python's, and a bias becomes whether there is one.
    """
    if option == "bias":
        return value is not None
    if option in ("min_val", "max_val") and value in (-math.inf, math.inf):
        return None
    if isinstance(value, tuple):
        return [_plain(option, item) for item in value]
    return value.item() if isinstance(value, np.generic | torch.Tensor) else value


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value

"""Find which channels of a network can be dropped, and which have to be dropped together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.kinds.node import Node
from blrc.frontend.sample import sample
from blrc.frontend.weights.table import coding_of
from blrc.net.net import INPUT
from blrc.net.shapes import check_shapes

Atoms = NDArray[np.int64]
"""For each place on the axis of channels, the number of the channel that stands there."""


@dataclass(frozen=True, eq=False)
class Family:
    """Group the channels that some layers compute, into what is dropped together or not at all.

    Attributes:
        name: the first of the layers, which the family is called by.
        layers: a layer with weights, and those with groups that lie behind it, in order.
        groups: for each group, its channels' numbers; a channel of an ordinary layer is a group of its own.
    """

    name: str
    layers: tuple[str, ...]
    groups: tuple[Atoms, ...]


@dataclass(frozen=True, eq=False)
class Channels:
    """Number the channels of a network, which are those of its input and of every layer with weights.

    Attributes:
        count: how many there are.
        of: the channels of each value, by the name of the layer that gives it, or of the input. Behind a flatten a
            channel stands at several places.
        made: for each layer with weights its own channels; they equal `of`.
        families: the channels that can be dropped.
    """

    count: int
    of: Mapping[str, Atoms]
    made: Mapping[str, Atoms]
    families: tuple[Family, ...]


def inputs_option(node: Node) -> str | None:
    """Return the option that says how many channels or features a layer with weights reads, or None for others."""
    return next((option for option in ("in_channels", "in_features") if option in node.options), None)


def outputs_option(node: Node) -> str | None:
    """Return the option that says how many channels or features a layer gives, or None where that is no option."""
    known = ("out_channels", "out_features", "num_features", "channels", "num_parameters")
    return next((option for option in known if option in node.options), None)


def weight_count(checkpoint: Checkpoint) -> int:
    """Return how many weights a network's layers have, binary, ternary and real ones."""
    found = 0
    for node in checkpoint.nodes:
        if inputs_option(node) is not None:
            coding = coding_of(node.kind)
            name = "weight" if coding is None else f"weight.{coding.tensors[0]}"
            found += checkpoint.tensors[f"{node.name}.{name}"].size
    return found


def channels_of(checkpoint: Checkpoint) -> Channels:
    """Number the channels of a checkpoint's network, and group them.

    A group of a convolution with groups is dropped whole: what it reads and what it gives. The network's input and its
    scores stay, and so does every channel that a group ties to them.

    Raises:
        BlrcError: the layers do not fit together.
    """
    shapes = check_shapes(sample(checkpoint, running=True))
    count = checkpoint.encoding.shape[0]
    of: dict[str, Atoms] = {INPUT: np.arange(count)}
    made: dict[str, Atoms] = {}
    ties: list[tuple[Atoms, Atoms]] = []
    for node in checkpoint.nodes:
        x = of[node.inputs[0]]
        option = outputs_option(node)
        if inputs_option(node) is not None and option is not None:
            of[node.name] = made[node.name] = np.arange(count, count + node.options[option])
            count += len(made[node.name])
            if (groups := node.options.get("groups", 1)) > 1:
                ties += zip(np.split(x, groups), np.split(made[node.name], groups), strict=True)
        elif node.kind == "flatten":
            of[node.name] = np.repeat(x, math.prod(shapes[node.name]) // len(x))
        else:
            of[node.name] = x
    ends = [layer for _, layer in checkpoint.heads] or [checkpoint.nodes[-1].name]
    kept = np.concatenate([of[INPUT], *(of[end] for end in ends)])
    return Channels(count, of, made, _families(made, _joined(count, ties), kept))


def _joined(count: int, ties: list[tuple[Atoms, Atoms]]) -> Atoms:
    """Return for each channel the number of its group: the least channel in it."""
    group = np.arange(count)
    for read, given in ties:  # in the order of layers, so that what is read has its final group but for this layer
        joined = np.unique(np.concatenate([group[read], group[given]]))
        group[np.isin(group, joined)] = joined[0]
    return group


def _families(made: Mapping[str, Atoms], group: Atoms, kept: Atoms) -> tuple[Family, ...]:
    stay = np.isin(group, group[kept])
    found: dict[tuple[str, ...], list[Atoms]] = {}
    for first in dict.fromkeys(group[~stay].tolist()):
        atoms = np.flatnonzero(group == first)
        layers = tuple(name for name, own in made.items() if np.isin(atoms, own).any())
        found.setdefault(layers, []).append(atoms)
    return tuple(Family(layers[0], layers, tuple(groups)) for layers, groups in found.items() if len(groups) > 1)

"""Make the smaller checkpoint: channels, the weights that compute them, and the weights that read them, go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.checkpoint import Checkpoint, check, signs_of
from blrc.frontend.kinds.linear import as_they_are, whole_numbers
from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.table import kind_of, tensors_of
from blrc.frontend.sample import binary_layers
from blrc.net.net import INPUT
from blrc.pruning.channels import Channels, inputs_option, outputs_option

Floats = NDArray[np.float64]
Kept = NDArray[np.bool_]
_KEEP_CONSTANTS = (
    *("scale", "shift", "gaussian_sample", "flatten"),
    *("max_pool1d", "max_pool2d", "plain_pool1d", "plain_pool2d"),
)
"""Kinds behind which a number that was added to a channel is still one that is added, so that a norm takes it out."""


@dataclass(frozen=True)
class _Layer:
    """Hold a smaller layer and its tensors by their keys in the checkpoint."""

    node: Node
    tensors: Mapping[str, NDArray[Any]]


def without(checkpoint: Checkpoint, channels: Channels, kept: Kept, means: Mapping[str, Floats]) -> Checkpoint:
    """Return the checkpoint that has only the kept channels; norms still have their old statistics.

    A channel that is dropped was no zero: it was -1, +1 or a level. Where a norm follows the layer that read it, the
    norm's new statistics take up what it gave on average. Elsewhere the bias of the layer does, and gets there what the
    likeliest weights make of the channel's mean.

    Args:
        checkpoint, channels: the network.
        kept: for each channel whether it stays.
        means: mean of each place on the axis of channels, of the values that `read_without_norm` names.

    Raises:
        BlrcError: what is left is no network (a mistake of this package).
    """
    layers = [_smaller(checkpoint, node, channels, kept, means) for node in checkpoint.nodes]
    tensors = {key: tensor for layer in layers for key, tensor in layer.tensors.items()}
    found = replace(checkpoint, nodes=tuple(layer.node for layer in layers), tensors=tensors, original=None)
    check(found)
    return found


def read_without_norm(checkpoint: Checkpoint) -> frozenset[str]:
    """Return the values, other than the input, that a layer reads whose sums go through no norm."""
    return frozenset(
        node.inputs[0]
        for node in checkpoint.nodes
        if inputs_option(node) is not None and node.inputs[0] != INPUT and not _normed(checkpoint, node)
    )


def _normed(checkpoint: Checkpoint, node: Node) -> bool:
    """Return whether what depends on a layer's sums goes through a norm first, which takes constants out."""
    behind = [each for each in checkpoint.nodes if node.name in each.inputs]
    return bool(behind) and all(
        "norm" in each.kind or (each.kind in _KEEP_CONSTANTS and _normed(checkpoint, each)) for each in behind
    )


def _smaller(checkpoint: Checkpoint, node: Node, channels: Channels, kept: Kept, means: Mapping[str, Floats]) -> _Layer:
    reads, gives = kept[channels.of[node.inputs[0]]], kept[channels.of[node.name]]
    options, wanted = dict(node.options), kind_of(node).tensors(node.options)
    held = {key: checkpoint.tensors[f"{node.name}.{key}"] for key in wanted}
    inputs, outputs = inputs_option(node), outputs_option(node)
    grouped = options.get("groups", 1) > 1
    if outputs is not None and options[outputs] == len(gives):  # and not one number for all channels
        held = {key: value[gives] if value.ndim and len(value) == len(gives) else value for key, value in held.items()}
        options[outputs] = int(gives.sum())
    if inputs is not None:
        if grouped:
            options["groups"] = int(reads.sum()) // (len(reads) // options["groups"])
        else:
            if not reads.all() and node.inputs[0] in means and not _normed(checkpoint, node):
                held["bias"] = _bias(checkpoint, node, reads, gives, held.get("bias"), means[node.inputs[0]])
                options["bias"] = True
            held = {key: value[:, reads] if value.ndim > 1 else value for key, value in held.items()}
        options[inputs] = int(reads.sum())
    made = replace(node, options=options)
    order = tensors_of([made])
    return _Layer(made, {key: held[key.removeprefix(f"{node.name}.")] for key in order})


def _bias(
    checkpoint: Checkpoint, node: Node, reads: Kept, gives: Kept, bias: NDArray[Any] | None, means: Floats
) -> NDArray[np.float32]:
    """Return the bias of the kept outputs, to which what the dropped inputs gave on average is added."""
    weights = likeliest(checkpoint, node)[gives][:, ~reads].astype(np.float64)
    given = weights.reshape(*weights.shape[:2], -1).sum(2) @ means[~reads]
    return np.asarray(given + (0.0 if bias is None else bias.astype(np.float64)), dtype=np.float32)


def likeliest(checkpoint: Checkpoint, node: Node) -> NDArray[Any]:
    """Return the weights of a layer as the likeliest network has them."""
    if node.name in binary_layers(checkpoint):
        return checkpoint.coded(node.name).likeliest()
    weights = checkpoint.tensors[f"{node.name}.weight"]
    if node.kind.startswith("int8_"):
        numbers, unit = whole_numbers(weights)
        return np.asarray(numbers * unit.reshape(-1, *[1] * (weights.ndim - 1)))
    if node.kind.startswith("whole_"):
        return as_they_are(weights)[0]
    return signs_of(weights) if node.kind.startswith("ste_") else weights

"""Define the last layer, which has real weights on +-1 inputs."""

from __future__ import annotations

import numpy as np

from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, flag, no_more, size
from blrc.net.net import Softmax


def _tensors(options: Options) -> dict[str, Tensor]:
    found = {"weight": Tensor((options["out_features"], options["in_features"]))}
    return {**found, "bias": Tensor((options["out_features"],))} if options["bias"] else found


def _softmax(who: str, node: Node, values: Values) -> Softmax:
    weights, bias = values.reals("weight"), values.optional("bias")
    return Softmax(node.name, node.inputs[0], weights, np.zeros(len(weights)) if bias is None else bias)


SOFTMAX = Kind("softmax", {"in_features": size, "out_features": size, "bias": flag}, no_more, _tensors, _softmax)

"""Define batch norms over random variables and over tensors."""

from __future__ import annotations

import numpy as np

from blrc.frontend.kinds.node import Node
from blrc.frontend.kinds.record import Kind, Options, Tensor, Values, flag, no_more, not_negative, real_or_none, size
from blrc.net.net import Moments, Norm

_OPTIONS = {"num_features": size, "eps": not_negative, "momentum": real_or_none, "affine": flag}


def _tensors(options: Options) -> dict[str, Tensor]:
    rows = Tensor((options["num_features"],))
    affine = {"weight": rows, "bias": rows} if options["affine"] else {}
    return {**affine, "running_mean": rows, "running_var": rows, "num_batches_tracked": Tensor((), "int")}


def _norm(who: str, node: Node, values: Values) -> Norm:
    channels = node.options["num_features"]
    gamma, beta = values.optional("weight"), values.optional("bias")
    statistics = Moments(values.reals("running_mean"), values.reals("running_var")) if values.running else None
    return Norm(
        node.name,
        node.inputs[0],
        np.ones(channels) if gamma is None else gamma,
        np.zeros(channels) if beta is None else beta,
        float(node.options["eps"]),
        statistics,
    )


NORMS = tuple(
    Kind(name, _OPTIONS, no_more, _tensors, _norm)
    for name in ("batch_norm1d", "batch_norm2d", "plain_norm1d", "plain_norm2d")
)

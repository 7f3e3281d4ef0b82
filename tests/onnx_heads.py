"""Heads of their own, and scores for them: what tests of the head share."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from blrc.program import head
from blrc.targets.onnx import head as onnx_head
from blrc.targets.onnx.nodes import Graph

Scores = list[NDArray[np.int32]]
EDGE = 2**30 - 1  # of legal scores


def head_model(members: int, classes: int, scale: head.Scale, gate: int = 0) -> bytes:
    """The head alone; the scores of each member are an input."""
    graph = Graph()
    names = [f"m{k}" for k in range(members)]
    onnx_head.lower_head(graph, names, scale, classes, gate)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32, ["N", classes]) for name in names]
    model = graph.model("head", inputs, onnx_head.outputs(classes), [])
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def spread_scores(members: int, classes: int, score_scale: float, seed: int) -> Scores:
    """Scores that lie from less than one to 60 bits apart, as far as int32 allows; many of them equal."""
    rng = np.random.default_rng(seed)
    rows = []
    for bits in (0.001, 1.0, 8.0, 24.0, 60.0):
        reach = min(int(bits / score_scale) + 1, 2**30 - 1)
        rows.append(rng.integers(-reach, reach + 1, (members, 40, classes)))
    scores = np.concatenate(rows, axis=1)
    scores[:, ::7] = scores[:, ::7, :1]
    return list(scores.astype(np.int32))

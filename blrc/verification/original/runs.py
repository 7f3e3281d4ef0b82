"""Run parts of an ONNX file in ONNX Runtime, and turn its tensors to the layout of layers and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.importing.flow import Flow
from blrc.verification.original.standard import cut

QUIET = 4
"""ONNX Runtime's level of what it logs: fatal errors only, since it would warn of every tensor that is cut off."""


class FilePart:
    """Run the part of a file from one tensor to others, with all of ONNX Runtime's rewriting of graphs turned off.

    Args:
        model: what `standard` returns.
        source: the tensor that is fed.
        flow: what that tensor is.
        outputs: the tensors that are returned, and what they are.
        batch: the batch that the file fixes, or None.
    """

    def __init__(self, model: Any, source: str, flow: Flow, outputs: Mapping[str, Flow], batch: int | None) -> None:
        import onnxruntime

        self.source, self.flow, self.outputs, self.batch = source, flow, outputs, batch
        options = onnxruntime.SessionOptions()
        options.log_severity_level = QUIET
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        content = cut(model, source, ("N" if batch is None else batch, *flow.dims), [*outputs])
        try:
            self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of many kinds, from a package without types
            line = _first_line(error)
            newer = any(word in line.lower() for word in ("opset", "ir version"))
            remedy = "; install a newer onnxruntime, or export the network with an older opset" if newer else ""
            raise BlrcError(f"ONNX Runtime refuses the original: {line}{remedy}") from None
        self.dtype = _TYPES.get(self.session.get_inputs()[0].type, np.dtype(np.float32))

    def run(self, maps: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the outputs, as samples of their flows' shapes, for values ``(N, *flow.shape)`` of what is fed."""
        given = to_file(self.flow, maps).astype(self.dtype)
        count = len(given)
        step = self.batch or max(1, count)
        found: list[list[NDArray[Any]]] = []
        for i in range(0, count, step):
            part = given[i : i + step]
            if len(part) < step:
                part = np.concatenate([part, np.repeat(part[-1:], step - len(part), axis=0)])
            try:
                found.append(self.session.run([*self.outputs], {self.source: part}))
            except Exception as error:
                raise BlrcError(f"ONNX Runtime cannot run the original: {_first_line(error)}") from None
        joined = (np.concatenate([np.asarray(each[k]) for each in found])[:count] for k in range(len(self.outputs)))
        return {name: from_file(self.outputs[name], values) for name, values in zip(self.outputs, joined, strict=True)}


_TYPES: Mapping[str, np.dtype[Any]] = {
    "tensor(double)": np.dtype(np.float64),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(uint8)": np.dtype(np.uint8),
    "tensor(int8)": np.dtype(np.int8),
}


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _order(flow: Flow) -> list[int]:
    order = list(chain.from_iterable(flow.axes))
    return order + [axis for axis in range(len(flow.shape)) if axis not in order]


def to_file(flow: Flow, maps: NDArray[Any]) -> NDArray[Any]:
    """Turn samples ``(N, *flow.shape)`` to the file's axes."""
    turned = maps.reshape(-1, *flow.shape).transpose(0, *(axis + 1 for axis in _order(flow)))
    return np.ascontiguousarray(turned).reshape(len(maps), *flow.dims)


def from_file(flow: Flow, values: NDArray[Any]) -> NDArray[Any]:
    """Undo `to_file`: return samples ``(N, *flow.shape)``."""
    order = _order(flow)
    if math.prod(values.shape[1:]) != math.prod(flow.shape):
        raise BlrcError(f"the original gives {values.shape[1:]} where the import says {flow.dims}")
    laid = values.reshape(len(values), *(flow.shape[axis] for axis in order))
    return laid.transpose(0, *(int(axis) + 1 for axis in np.argsort(order)))

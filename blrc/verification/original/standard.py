"""Rewrite an ONNX file so that ONNX Runtime runs it: standard operators for quantisers, other inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blrc.errors import BlrcError
from blrc.importing.file import shown
from blrc.importing.ops.record import QONNX

OLDEST = 9
"""Opset from which on there is Where."""
APART = 4
"""Version of the file format from which on initialisers need not be listed as inputs."""


def standard(path: Path, ranks: Mapping[str, int]) -> Any:
    """Return the file as a ModelProto without operators of QONNX, Brevitas and FINN.

    Args:
        ranks: the number of axes of tensors, the batch among them.

    Raises:
        BlrcError: an operator is used in a way that has no standard form here, or an old opset cannot be converted.
    """
    import onnx

    model = onnx.load(str(path))
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if opset < OLDEST:
        model = _raised(model, path, opset)
    nodes: list[Any] = []
    for node in model.graph.node:
        if not any(node.domain == name or node.domain.startswith(f"{name}.") for name in QONNX):
            nodes.append(node)
            continue
        if node.op_type not in _REWRITTEN:
            raise BlrcError(f"{path}: {shown(node.name or node.op_type)} has no standard form here")
        nodes += _REWRITTEN[node.op_type](_Writer(model, node, ranks))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    kept = [each for each in model.opset_import if each.domain in ("", "ai.onnx")]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return onnx.shape_inference.infer_shapes(model)  # it finds the types of tensors, which parts are cut at


def _raised(model: Any, path: Path, opset: int) -> Any:
    """Return a file of an old opset as one of the oldest that is run here; operators of other domains stay."""
    from onnx import version_converter

    model.ir_version = max(model.ir_version, APART)
    try:
        return version_converter.convert_version(model, OLDEST)
    except Exception:  # of many kinds, from a package without types
        raise BlrcError(
            f"{path}: opset {opset} cannot be run here, nor converted; export the network with opset {OLDEST} or newer"
        ) from None


def cut(model: Any, source: str, shape: Sequence[int | str], outputs: Sequence[str]) -> bytes:
    """Return the part of a model from the tensor `source` on, which has a shape, to the tensors `outputs`."""
    import onnx
    from onnx import TensorProto, helper

    needed, kept = set(outputs), []
    for node in reversed(model.graph.node):
        if needed & {*node.output} and source not in node.output:
            kept.append(node)
            needed.update(node.input)
    typed = (*model.graph.input, *model.graph.value_info)
    kinds = {each.name: each.type.tensor_type.elem_type for each in typed}
    kind = kinds.get(source) or TensorProto.FLOAT
    graph = helper.make_graph(
        kept[::-1],
        "part",
        [helper.make_tensor_value_info(source, kind, shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [held for held in model.graph.initializer if held.name in needed and held.name != source],
    )
    made = helper.make_model(graph, opset_imports=model.opset_import)
    made.ir_version = model.ir_version
    return bytes(made.SerializeToString())


class _Writer:
    """Make the nodes and constants that stand for one node."""

    def __init__(self, model: Any, node: Any, ranks: Mapping[str, int]) -> None:
        from onnx import helper

        self.model, self.node, self.ranks = model, node, ranks
        self.attributes: Mapping[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.made: list[Any] = []

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"{self.node.output[0]}/constant{len(self.made)}.{len(self.model.graph.initializer)}"
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype=np.float32), name))
        return name

    def add(self, kind: str, *inputs: str, last: bool = False) -> str:
        from onnx import helper

        name = self.node.output[0] if last else f"{self.node.output[0]}/{len(self.made)}"
        self.made.append(helper.make_node(kind, list(inputs), [name]))
        return name

    def held(self, index: int) -> Any:
        """Return the initialiser that the node reads, as an array."""
        from onnx import numpy_helper

        name = self.node.input[index]
        for each in self.model.graph.initializer:
            if each.name == name:
                return numpy_helper.to_array(each)
        for node in self.model.graph.node:
            if node.op_type == "Constant" and name in node.output:
                return numpy_helper.to_array(node.attribute[0].t)
        raise BlrcError(f"{shown(self.node.name or self.node.op_type)}: its {shown(name)} is no stored constant")


def _signs(w: _Writer, x: str) -> str:
    below = w.add("Less", x, w.constant(0))
    return w.add("Where", below, w.constant(-1), w.constant(1))


def _bipolar(w: _Writer) -> list[Any]:
    w.add("Mul", _signs(w, w.node.input[0]), w.node.input[1], last=True)
    return w.made


def _quant(w: _Writer) -> list[Any]:
    """Write Quant out; of one signed bit it is a sign, whatever it rounds."""
    from blrc.importing.file import Op
    from blrc.importing.quantisers import rounding_of, steps_of

    op = Op(w.node.name, w.node.op_type, w.node.domain, (), (), _texts(w.attributes))
    width = w.held(3)
    low, high = steps_of(op, width)
    zero = w.constant(float(w.held(2).reshape(-1)[0]))  # which some files hold as an integer
    codes = w.add("Add", w.add("Div", w.node.input[0], w.node.input[1]), zero)
    if (low, high) == (-1, 1) and width.reshape(-1)[0] == 1:
        codes = _signs(w, codes)
    else:
        kind = {"CEIL": "Ceil", "FLOOR": "Floor"}.get(rounding_of(op), "Round")
        codes = w.add(kind, w.add("Max", w.add("Min", codes, w.constant(high)), w.constant(low)))
    w.add("Mul", w.add("Sub", codes, zero), w.node.input[1], last=True)
    return w.made


def _texts(held: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in held.items()}


def _multi_threshold(w: _Writer) -> list[Any]:
    steps = w.held(1)
    scale, bias = w.attributes.get("out_scale", 1.0), w.attributes.get("out_bias", 0.0)
    layout = w.attributes.get("data_layout", b"NCHW").decode()
    rows = steps[:, 0]
    rank = w.ranks.get(w.node.input[0], len(layout))
    behind = 0 if layout.endswith("C") or len(rows) == 1 else rank - 2
    at = w.constant(rows.reshape(-1, *[1] * behind))
    below = w.add("Less", w.node.input[0], at)
    w.add("Where", below, w.constant(bias), w.constant(np.float32(scale) + np.float32(bias)), last=True)
    return w.made


def _xnor(w: _Writer) -> list[Any]:
    two, one = w.constant(2), w.constant(1)
    x, weights = (w.add("Sub", w.add("Mul", name, two), one) for name in w.node.input[:2])
    total = w.add("Add", w.add("MatMul", x, weights), w.constant(len(w.held(1))))
    w.add("Mul", total, w.constant(0.5), last=True)
    return w.made


_REWRITTEN = {
    "BipolarQuant": _bipolar,
    "IntQuant": _quant,
    "MultiThreshold": _multi_threshold,
    "Quant": _quant,
    "XnorPopcountMatMul": _xnor,
}

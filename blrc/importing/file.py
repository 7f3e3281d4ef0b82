"""Read an ONNX file into plain records, within bounds, and refuse by name what no import can take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.extras import require
from blrc.reading import regular

MOST_BYTES = 2**31 - 1
"""Limit the bytes of a file; protobuf reads no message that is larger."""
MOST_VALUES = 2**28
"""Limit the values of a tensor to those of a dense layer of 16,384 x 16,384, more than any device holds."""
OLDEST, NEWEST = 7, 99
"""Opsets of ONNX's own domain: BatchNormalization and Dropout mean what they mean today since opset 7."""
SHOWN = 80
"""Characters of a name that a message shows."""


@dataclass(frozen=True, eq=False)
class Op:
    """Describe a node of the graph.

    Attributes:
        name: its name in the file, or ``#3`` for the fourth node if it has none.
        kind: its operator, such as ``Conv``.
        domain: empty for ONNX's own operators.
        inputs, outputs: names of tensors; empty for an optional one that is left out.
        attributes: numbers, texts, arrays and lists of them.
    """

    name: str
    kind: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{shown(self.name)} ({f'{shown(self.domain)}::' if self.domain else ''}{shown(self.kind)})"


@dataclass(frozen=True, eq=False)
class Source:
    """Describe the file's one input: its name, element type (ONNX's name), and shape; None is a free dimension."""

    name: str
    element: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """Hold what the file says.

    Attributes:
        opset: version of ONNX's own operators.
        ops: the nodes in the file's order.
        constants: initialisers by name.
        faults: why an initialiser cannot be read, by its name.
        source: the one input.
        outputs: names of the outputs.
    """

    opset: int
    ops: tuple[Op, ...]
    constants: Mapping[str, NDArray[Any]]
    faults: Mapping[str, str]
    source: Source
    outputs: tuple[str, ...]


def shown(name: str) -> str:
    """Return a name of the file as messages show it: printable, on one line, and not too long."""
    text = ascii(name)[1:-1]
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def read(path: Path) -> Graph:
    """Return the graph of an ONNX file.

    Raises:
        BlrcError: there is no such file, it is no ONNX file, is truncated, or holds what no import takes: several
            inputs, functions, weights in other files.
    """
    require("onnx", f"importing {path}")
    import onnx

    try:
        content = regular.read(path, MOST_BYTES)
    except FileNotFoundError:
        raise BlrcError(f"{path}: no such file; give the path of an ONNX file") from None
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception:  # protobuf's own, from a package without types
        raise BlrcError(f"{path}: no ONNX file, or truncated; copy or export it again") from None
    del content
    try:
        return _graph(model)
    except BlrcError as error:
        raise BlrcError(f"{path}: {error}") from None


def _graph(model: Any) -> Graph:
    graph = model.graph
    if not graph.node or not graph.output:
        raise BlrcError("no ONNX file, or one without nodes and outputs; copy or export it again")
    if model.functions:
        name = shown(model.functions[0].name)
        raise BlrcError(
            f"it defines functions of its own ({name}), which are not taken; inline them "
            "with onnx.inliner.inline_local_functions"
        )
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), None)
    if opset is None or not OLDEST <= opset <= NEWEST:
        raise BlrcError(f"opset {opset} is not taken; export the network with an opset from {OLDEST} on, such as 13")
    constants: dict[str, NDArray[Any]] = {}
    faults: dict[str, str] = {}
    for held in graph.initializer:
        if held.name in constants or held.name in faults:
            raise BlrcError(f"initialiser {shown(held.name)} is there twice; export the network again")
        _hold(held, held.name, constants, faults)
    for sparse in graph.sparse_initializer:
        faults[sparse.values.name] = "is a sparse tensor, which is not taken; store it as an ordinary one"
    inputs = [value for value in graph.input if value.name not in constants and value.name not in faults]
    if len(inputs) != 1:
        names = ", ".join(shown(value.name) for value in inputs[:4]) or "none"
        raise BlrcError(f"it has {len(inputs)} inputs ({names}); networks with one input are taken")
    return Graph(
        opset,
        tuple(_op(node, index) for index, node in enumerate(graph.node)),
        constants,
        faults,
        _source(inputs[0]),
        tuple(value.name for value in graph.output),
    )


def _hold(held: Any, name: str, constants: dict[str, NDArray[Any]], faults: dict[str, str]) -> None:
    try:
        constants[name] = array_of(held)
    except BlrcError as error:
        faults[name] = str(error)


def array_of(held: Any) -> NDArray[Any]:
    """Return the array of a TensorProto.

    Raises:
        BlrcError: says what is wrong with it, to follow its name.
    """
    from onnx import TensorProto, numpy_helper

    if held.data_location == TensorProto.EXTERNAL or held.external_data:
        raise BlrcError(
            "lies in another file, and only this one is read; put all into one with onnx.save(onnx.load(FILE), FILE2)"
        )
    if any(n < 0 for n in held.dims) or math.prod(held.dims) > MOST_VALUES:
        raise BlrcError(f"has a shape {shown(str(list(held.dims)))} that is negative or too large; export it again")
    if held.data_type == TensorProto.STRING:
        raise BlrcError("holds texts, which are not taken; leave them out")
    try:
        found = numpy_helper.to_array(held)
    except Exception:  # of many kinds, since a damaged tensor can be anything
        raise BlrcError("is damaged: its data do not fit its type and shape; export it again") from None
    return np.asarray(found)


def _op(node: Any, index: int) -> Op:
    import onnx

    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            attributes[attribute.name] = Subgraph()
        elif attribute.type == onnx.AttributeProto.TENSOR:
            try:
                attributes[attribute.name] = array_of(attribute.t)
            except BlrcError as error:
                attributes[attribute.name] = Fault(str(error))
        else:
            try:
                value = onnx.helper.get_attribute_value(attribute)
            except ValueError:
                value = Fault("is of a type that is not known")
            attributes[attribute.name] = _plain(value)
    domain = "" if node.domain in ("", "ai.onnx") else node.domain
    return Op(node.name or f"#{index}", node.op_type, domain, tuple(node.input), tuple(node.output), attributes)


@dataclass(frozen=True)
class Subgraph:
    """Stand for a graph within a node."""


@dataclass(frozen=True)
class Fault:
    """Stand for an attribute that cannot be read."""

    why: str


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _source(value: Any) -> Source:
    import onnx

    held = value.type.tensor_type
    try:
        element = onnx.TensorProto.DataType.Name(held.elem_type)
    except ValueError:
        element = "UNDEFINED"
    if not held.HasField("shape"):
        raise BlrcError(f"input {shown(value.name)} has no shape; export the network with the shape of its input")
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in held.shape.dim)
    return Source(value.name, element, shape)

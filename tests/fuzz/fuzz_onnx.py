"""ONNX files that nobody should write: good ones with bytes changed, or with the structure that protobuf lets pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from foreign_files import foreign
from fuzz_mutations import bytes_mutated
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from blrc.app.export import build
from blrc.app.import_onnx import import_onnx, look
from blrc.frontend.sample import MAP
from blrc.program import reference

FILES = 12
"""Networks of which the files are changed ones."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"input": "bits"}, {"input": "int8", "scale": 32.0}, {"input": "pixels"},
    {"input": "pixels", "mean": (0.1, 0.2, 0.3), "std": (0.5,)},
)  # fmt: skip
FLOATS = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 1e-45, 1e38, -3e38, 0.5)
SIZES = (0, -1, 1, 2, 7, 2**16, 2**24, 2**31, 2**40, 2**62, -(2**62))
NAMES = ("", "x", "nothing", "t0", "c0", "\n\x1b[31m", "é" * 300, "input", "output t0")
DOMAINS = ("", "ai.onnx", "x.y", "onnx.brevitas", "finn.custom_op.general", "ai.onnx.ml", "\n\x1b[31m")
KINDS = (
    *(
        "Conv",
        "Gemm",
        "MatMul",
        "Reshape",
        "Sign",
        "Where",
        "Pad",
        "Squeeze",
        "Unsqueeze",
        "BatchNormalization",
        "TopK",
    ),
    *(
        "Slice",
        "Quant",
        "If",
        "Loop",
        "Clip",
        "Max",
        "Min",
        "Sum",
        "Pow",
        "Cast",
        "Concat",
        "Gather",
        "Expand",
        "Flatten",
    ),
    *("ConstantOfShape", "Constant", "Transpose", "MaxPool", "GlobalMaxPool", "MultiThreshold", "XnorPopcountMatMul"),
    *("PRelu", "LeakyRelu", "Neg", "Not", "Dropout", "Identity", "Shape", "ReduceSum", "Div", "Equal", "ArgMax", "\n"),
    *("AveragePool", "GlobalAveragePool", "ReduceMean"),
)
TEXTS = ("SAME_UPPER", "VALID", "", "\n", "NHWC", "NC", "BIPOLAR", "ROUND", "CEIL", "reflect", "x" * 300)
ATTRIBUTES = (
    *("axis", "axes", "perm", "to", "pads", "strides", "dilations", "group", "kernel_shape", "alpha", "beta", "min"),
    *("max", "epsilon", "value", "auto_pad", "mode", "ceil_mode", "out_scale", "out_bias", "data_layout", "signed"),
    *(
        "narrow",
        "rounding_mode",
        "transA",
        "transB",
        "keepdims",
        "allowzero",
        "start",
        "end",
        "training_mode",
        "largest",
    ),
)
ELEMENTS = tuple(range(24))
"""ONNX's numbers of element types, known ones and others."""


def prepare(folder: Path) -> None:
    """Write the good files."""
    folder.mkdir()
    for seed in range(FILES):
        net = foreign(seed)
        net.file.save(folder / f"{seed}.onnx", listed=bool(seed % 2))
        (folder / f"{seed}.json").write_text(json.dumps(net.options), encoding="utf-8")


def onnx_file(rng: Random, good: Path, place: Path) -> Callable[[], object]:
    """Return what imports a changed file, looks at it, or exports it."""
    source = good / "files" / f"{rng.randrange(FILES)}.onnx"
    content = source.read_bytes()
    if rng.random() < 0.2:
        content = bytes_mutated(content, rng)
    else:
        model = onnx.ModelProto.FromString(content)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            rng.choice(CHANGES)(model, rng)
        content = model.SerializeToString()
    path = place / "net.onnx"
    path.write_bytes(content)
    (place / "weights.bin").write_bytes(bytes(64))
    options = json.loads(source.with_suffix(".json").read_bytes()) if rng.random() < 0.8 else rng.choice(OPTIONS)

    def run() -> None:
        walked = look(path, **options)
        assert str(walked).replace("\n", "").isprintable()
        assert (walked.checkpoint is None) == bool(walked.refusals)
        found = import_onnx(path, **options)
        if sum(value.size for value in found.tensors.values()) < LARGE:
            program = build(found, [MAP])[0]
            shape = program.input.shape
            reference.scores(
                program, np.zeros((2, *shape), bool if program.input.dtype == "bits" else program.input.dtype)
            )

    return run


LARGE = 2**20
"""Values of a network that is also lowered and run."""


def _node(model: Any, rng: Random) -> Any:
    return rng.choice(model.graph.node)


def _held(model: Any, rng: Random) -> Any:
    return rng.choice(model.graph.initializer) if model.graph.initializer else model.graph.initializer.add()


def _names(model: Any) -> list[str]:
    return [*NAMES, *(name for node in model.graph.node for name in (*node.input, *node.output))]


def kind(model: Any, rng: Random) -> None:
    _node(model, rng).op_type = rng.choice(KINDS)


def domain(model: Any, rng: Random) -> None:
    _node(model, rng).domain = rng.choice(DOMAINS)


def number(model: Any, rng: Random) -> None:
    """Change one number of an initialiser, or all."""
    held = _held(model, rng)
    array = _array(held).copy()
    if array.size and array.dtype.kind in "fiu":
        new = rng.choice(FLOATS if array.dtype.kind == "f" else SIZES)
        flat = array.reshape(-1)
        flat[slice(None) if rng.random() < 0.3 else slice(rng.randrange(array.size), None)] = (
            new if array.dtype.kind == "f" else np.array(new).astype(array.dtype)
        )
    held.CopyFrom(numpy_helper.from_array(array, held.name))


def _array(held: Any) -> Any:
    """Return the array of an initialiser, which another change may have damaged."""
    try:
        return numpy_helper.to_array(held)
    except (ValueError, TypeError, KeyError):
        return np.zeros(1, np.float32)


def dims(model: Any, rng: Random) -> None:
    held = _held(model, rng)
    if held.dims and rng.random() < 0.7:
        held.dims[rng.randrange(len(held.dims))] = rng.choice(SIZES)
    else:
        held.dims.append(rng.choice(SIZES))


def element(model: Any, rng: Random) -> None:
    """Give an initialiser another type: with its data as they are, or converted."""
    held = _held(model, rng)
    if rng.random() < 0.5:
        held.data_type = rng.choice(ELEMENTS)
        return
    kinds = ("float16", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool", "complex64")
    with np.errstate(all="ignore"):
        held.CopyFrom(numpy_helper.from_array(_array(held).astype(rng.choice(kinds)), held.name))


def data(model: Any, rng: Random) -> None:
    """Give an initialiser data that do not fit, of several kinds, as texts, or in another file."""
    held, change = _held(model, rng), rng.randrange(6)
    if change == 0:
        held.raw_data = held.raw_data[: rng.randrange(1 + len(held.raw_data))]
    elif change == 1:
        held.float_data.extend([1.0, 2.0])
    elif change == 2:
        held.ClearField("raw_data")
    elif change == 3:
        held.data_type = TensorProto.STRING
        held.string_data.append(b"\xff\n")
    elif change == 4:
        held.data_location = TensorProto.EXTERNAL
        where = rng.choice(("/etc/passwd", "../../../etc/passwd", "weights.bin", "/dev/zero", "", "\0", "a" * 5000))
        for key, value in (("location", where), ("offset", "-1"), ("length", str(2**62))):
            held.external_data.add(key=key, value=value)
    else:
        held.segment.begin, held.segment.end = -1, 2**62


def without(model: Any, rng: Random) -> None:
    graph = model.graph
    part = rng.choice((graph.initializer, graph.node, graph.input, graph.output, model.opset_import))
    if part:
        del part[rng.randrange(len(part))]


def twice(model: Any, rng: Random) -> None:
    graph = model.graph
    part = rng.choice((graph.initializer, graph.node, graph.input, graph.output, model.opset_import))
    if part:
        part.add().CopyFrom(rng.choice(part))


def order(model: Any, rng: Random) -> None:
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def wiring(model: Any, rng: Random) -> None:
    """Let a node read, give or lack another tensor; cycles come from it."""
    node, name = _node(model, rng), rng.choice(_names(model))
    part = node.input if rng.random() < 0.6 else node.output
    change = rng.randrange(3)
    if change == 0 and part:
        part[rng.randrange(len(part))] = name
    elif change == 1 and part:
        del part[rng.randrange(len(part))]
    else:
        part.extend([name] * rng.choice((1, 1, 2, 500)))


def named(model: Any, rng: Random) -> None:
    _node(model, rng).name = rng.choice(_names(model))


def attribute(model: Any, rng: Random) -> None:
    """Give a node an attribute that means nothing, or one twice."""
    values: tuple[Any, ...] = (
        *FLOATS, *SIZES[:-2], *TEXTS, [0, 1], [1, 1, 1, 1], [2**40] * 4, [-1, -1], [0, 0], [1.5],
        ["a", "b"], [2, 2, 2], list(range(500)), b"\xff\xfe", numpy_helper.from_array(np.float32([np.nan])),
        numpy_helper.from_array(np.zeros((0, 3), np.int64)), numpy_helper.from_array(np.int64(2**40)),
    )  # fmt: skip
    node, name = _node(model, rng), rng.choice((*ATTRIBUTES, *(each.name for each in _node(model, rng).attribute)))
    if rng.random() < 0.8:
        kept = [each for each in node.attribute if each.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute(name, rng.choice(values)))
    if rng.random() < 0.1:
        node.attribute[-1].type = rng.choice(range(15))


def inner(model: Any, rng: Random) -> None:
    """Give a node a graph of its own, to some depth."""
    graph = helper.make_graph([], "inner", [], [])
    for _ in range(rng.choice((1, 3, 30))):
        node = helper.make_node("If", ["x"], ["y"])
        node.attribute.append(helper.make_attribute("then_branch", graph))
        graph = helper.make_graph([node], "outer", [], [])
    _node(model, rng).attribute.append(helper.make_attribute(rng.choice(("body", "value", "axis")), graph))


def constants(model: Any, rng: Random) -> None:
    """Let a node's constant come from others that may not fit, or would be large."""
    node = _node(model, rng)
    if not node.input:
        return
    made = rng.choice(
        ("ConstantOfShape", "Expand", "Gather", "Concat", "Pow", "Cast", "Slice", "Max", "ReduceMean", "Tile")
    )
    held = numpy_helper.from_array(
        np.int64(rng.choice(([2**20, 2**20], [3, -1], [], [2**62, 2**62], [0], [1, 2]))), "big"
    )
    if "big" in {each.name for each in model.graph.initializer}:
        return
    model.graph.initializer.append(held)
    some = rng.choice([each.name for each in model.graph.initializer])
    model.graph.node.insert(
        0, helper.make_node(made, rng.choice((["big"], [some, "big"], [some, some, "big"])), ["made"])
    )
    node.input[rng.randrange(len(node.input))] = "made"


def source(model: Any, rng: Random) -> None:
    """Change what the file says of its input."""
    if not model.graph.input:
        return
    value, change = rng.choice(model.graph.input), rng.randrange(6)
    held = value.type.tensor_type
    if change == 0:
        held.elem_type = rng.choice(ELEMENTS)
    elif change == 1:
        held.ClearField("shape")
    elif change == 2 and held.shape.dim:
        rng.choice(held.shape.dim).dim_value = rng.choice(SIZES)
    elif change == 3 and held.shape.dim:
        rng.choice(held.shape.dim).dim_param = rng.choice(NAMES)
    elif change == 4:
        held.shape.dim.add().dim_value = rng.choice(SIZES)
    else:
        value.type.sequence_type.elem_type.tensor_type.elem_type = 1


def end(model: Any, rng: Random) -> None:
    if model.graph.output:
        model.graph.output[0].name = rng.choice(_names(model))


def other(model: Any, rng: Random) -> None:
    """Add what no network needs: functions, sparse initialisers, versions, notes."""
    change = rng.randrange(6)
    if change == 0:
        model.functions.add(name=rng.choice(NAMES))
    elif change == 1:
        sparse = model.graph.sparse_initializer.add()
        sparse.values.name = rng.choice(_names(model))
        sparse.dims.append(rng.choice(SIZES))
    elif change == 2 and model.opset_import:
        model.opset_import[0].version = rng.choice((*SIZES, 7, 9, 25, 99))
    elif change == 3 and model.opset_import:
        model.opset_import[0].domain = rng.choice(DOMAINS)
    elif change == 4:
        model.metadata_props.add(key="\n", value="x" * 100_000)
    else:
        model.graph.node[0].attribute.add().type = AttributeProto.GRAPHS


CHANGES = (
    *(kind, domain, number, dims, element, data, without, twice, order, wiring, named, attribute, inner, constants),
    *(source, end, other, attribute, attribute, number, wiring),
)

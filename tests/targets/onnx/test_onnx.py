"""The emitted file: what a user finds in it, and that it is valid and the same every time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from by_night import first
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from onnx_agreement import KINDS, assert_answers, emitted, options
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import program_file, reference
from blrc.program.head import Answer
from blrc.program.program import Constant, Conv, Encode, Program
from blrc.targets.onnx.emit import emit, op_model
from blrc.targets.onnx.session import instrumented

NET = random_program(3, "uint8", (9, 7, 3))


def dimensions(value: onnx.ValueInfoProto) -> list[str | int]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def signature(values: object) -> dict[str, tuple[int, list[str | int]]]:
    return {v.name: (v.type.tensor_type.elem_type, dimensions(v)) for v in values}  # type: ignore[attr-defined]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_and_outputs(kind: str, members: int) -> None:
    program = random_program(1, kind, (4, 6, 3), members=members)
    graph = onnx.load_from_string(emitted(program)).graph
    raw = TensorProto.INT8 if kind == "int8" else TensorProto.UINT8
    assert signature(graph.input) == {"input": (raw, ["N", 3, 4, 6])}
    assert signature(graph.output) == {
        "label": (TensorProto.INT64, ["N"]),
        "log_p": (TensorProto.INT64, ["N", program.classes]),
        "mean": (TensorProto.INT64, ["N"]),
        "variance": (TensorProto.INT64, ["N"]),
        "members": (TensorProto.INT64, ["N"]),
        "scores": (TensorProto.INT32, ["N", program.classes] if members == 1 else ["N", 3, program.classes]),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_dense_input_is_two_dimensional(kind: str) -> None:
    graph = onnx.load_from_string(emitted(random_program(1, kind, (1, 1, 33)))).graph
    assert dimensions(graph.input[0]) == ["N", 33]


def test_versions_and_metadata() -> None:
    model = onnx.load_from_string(emitted(NET))
    assert (model.ir_version, [(o.domain, o.version) for o in model.opset_import]) == (8, [("", 17)])
    assert (model.producer_name, model.producer_version) == ("blrc", "1.2.3")
    assert "score" in model.doc_string
    assert {p.key: p.value for p in model.metadata_props} == {
        "blrc.digest": program_file.digest(NET),
        "blrc.members": json.dumps(list(NET.members)),
        "blrc.score_scale": repr(NET.score_scale),
        "blrc.version": "1.2.3",
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, *range(3, 8)))])
def test_file_is_valid(seed: int, kind: str) -> None:
    program = random_program(seed, kind, members=1 + seed % 3)
    models = [emitted(program), instrumented(emitted(program), program), *(op_model(program, op) for op in program.ops)]
    for content in models:
        model = onnx.load_from_string(content)
        onnx.checker.check_model(model, full_check=True)
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        # Inference without our own hints must come to the same types and shapes.
        del model.graph.value_info[:]
        bare = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        stated = signature(inferred.graph.value_info)
        assert stated == signature(bare.graph.value_info)


def test_only_integers_flow() -> None:
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(emitted(NET))).graph
    assert {node.domain for node in graph.node} == {""}
    assert {i.name for i in graph.initializer if i.data_type == TensorProto.FLOAT} <= {"float32/1"}
    kinds = {v.type.tensor_type.elem_type for v in graph.value_info}
    assert kinds <= {TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL}


def test_every_value_keeps_its_name() -> None:
    made = {name for node in onnx.load_from_string(emitted(NET)).graph.node for name in node.output}
    assert {op.y.name for op in NET.ops} <= made


def test_a_layer_may_be_called_like_an_output() -> None:
    program = random_program(2, "bits", (5, 5, 3), layers=2)
    names = {"conv0.bits": "label", "dense1.bits": "scores", "scores": "out"}

    def renamed(value):  # type: ignore[no-untyped-def]
        return replace(value, name=names.get(value.name, value.name))

    other = replace(program, ops=tuple(replace(op, x=renamed(op.x), y=renamed(op.y)) for op in program.ops))
    assert {"label", "scores", "out"} <= {op.y.name for op in other.ops}
    x = random_inputs(other, 4)
    assert np.array_equal(_evaluate(other, x)["scores"], reference.scores(program, x))


def _evaluate(program: Program, raw: np.ndarray) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """An independent implementation of ONNX's ops, in NumPy."""
    x = raw.astype(np.uint8) if program.input.dtype == "bits" else raw
    x = x[:, 0, 0] if x.shape[1:3] == (1, 1) else x.transpose(0, 3, 1, 2)
    found = ReferenceEvaluator(emitted(program)).run(None, {"input": np.ascontiguousarray(x)})
    return dict(zip(["label", "log_p", "mean", "variance", "members", "scores"], found, strict=True))  # type: ignore[arg-type]


# The evaluator pads max pooling with NaN and casts the result.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(3, range(100, 112)))
def test_the_standard_reference_evaluator_agrees(seed: int, kind: str) -> None:
    program = random_program(seed, kind, members=1 + seed % 3)
    x = random_inputs(program, 3, seed)
    found = _evaluate(program, x)
    scores = found.pop("scores").reshape(3, len(program.members), -1)
    assert np.array_equal(scores[:, -1], reference.scores(program, x, len(program.members) - 1))
    assert found["members"].tolist() == [len(program.members)] * 3
    assert_answers(Answer(**found), reference.answer(program, x))


def test_bytes_are_the_same_every_time_and_in_every_process() -> None:
    code = (
        "import hashlib; from onnx_agreement import emitted; from random_programs import random_program;"
        "print(hashlib.sha256(emitted(random_program(3, 'uint8', (9, 7, 3), members=2))).hexdigest())"
    )
    here = Path(__file__).parent
    found = set()
    for seed in ("1", "2"):
        path = ":".join(map(str, [here, here.parent, here.parent.parent]))
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout.strip())
    assert len(found) == 1
    assert emitted(NET) == emitted(random_program(3, "uint8", (9, 7, 3)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(3, range(4)))
def test_a_binary_weight_takes_at_most_one_byte(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    budget = 6000 + 34_000  # names, shapes and node descriptions; the head with its tables
    for op in program.ops:
        if isinstance(op, Encode):
            budget += program.constant(op.table).size
        elif isinstance(op, Conv):
            budget += op.y.shape[2] * op.fan_in + 4 * op.y.shape[2]
    budget += program.constants[program.ops[-1].weights].nbytes  # type: ignore[union-attr]
    assert len(emitted(program)) <= budget


def test_more_than_two_gigabytes_are_refused_by_name() -> None:
    last = NET.ops[-1]
    weights = NET.constant(last.weights)  # type: ignore[union-attr]
    # A view of one number: it takes no memory unless it is copied.
    huge = np.broadcast_to(np.int32(1), (2**29,))
    constants = {**NET.constants, last.bias: Constant((huge,), (0,))}  # type: ignore[union-attr]
    assert weights.nbytes < 2**29
    with pytest.raises(BlrcError, match=r"target onnx: \d+ bytes of weights; .* 2 GiB"):
        emit(replace(NET, constants=constants), options())


def test_the_manifest_is_told_each_layers_nodes_and_bytes() -> None:
    emission = emit(NET, options("cat"))
    assert set(emission.files) == {"cat.onnx"}
    about = json.loads(json.dumps(emission.about))
    assert {key: about[key] for key in ("ir_version", "opset", "bytes")} == {
        "ir_version": 8,
        "opset": 17,
        "bytes": len(emission.files["cat.onnx"]),
    }
    assert [layer["op"] for layer in about["layers"]] == [op.name for op in NET.ops]
    graph = onnx.load_from_string(emission.files["cat.onnx"]).graph
    parts = [*about["layers"], about["head"]]
    assert [kind for part in parts for kind in part["nodes"]] == [node.op_type for node in graph.node]
    assert about["operators"] == sorted({node.op_type for node in graph.node})
    stored = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in graph.initializer)
    assert sum(part["bytes"] for part in parts) == stored
    assert all(part["bytes"] > 0 for part in parts if part["nodes"] != ["MaxPool"])

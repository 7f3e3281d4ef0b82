"""The float form, and files without a head: equal to the reference at every layer, or refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from by_night import first
from onnx import TensorProto
from onnx_agreement import KINDS, assert_agrees, difference, emitted, options
from random_programs import gated, random_inputs, random_program

from blrc.errors import BlrcError
from blrc.net.bits import words
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.program import BinaryScores, Constant, Conv, Encode, Program, Scores, Value, Window
from blrc.targets.onnx.emit import emit
from blrc.targets.onnx.float_form import HALVES, INTEGERS
from blrc.targets.onnx.session import OnnxRun, run_op

EVERYWHERE = {"Conv", "MatMul", "Add", "Mul", "MaxPool", "Clip", "Pad"}
EVERYWHERE |= {"Flatten", "Unsqueeze", "Concat", "Reshape", "Transpose"}


def exact(program: Program) -> Program:
    """The program with scores that float32 holds: binary ones get small multipliers."""
    op = program.ops[-1]
    if not isinstance(op, BinaryScores):
        return program
    small = {name: program.constants[name] for name in (op.multiplier, op.bias)}
    tables = {
        name: Constant(tuple((table % 1000).astype(np.int32) for table in constant.tables), constant.of_member)
        for name, constant in small.items()
    }
    return replace(program, constants={**program.constants, **tables})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(4, range(14)))
def test_every_layer_is_the_references(seed: int, kind: str) -> None:
    program = exact(random_program(seed, kind, members=1 + seed % 3))
    model = emitted(program, form="float")
    run = OnnxRun(model, program)
    assert run.form == "float"
    assert_agrees(program, run, random_inputs(program, 9, seed))
    proto = onnx.load_from_string(model)
    onnx.checker.check_model(proto, full_check=True)
    assert {node.op_type for node in proto.graph.node} <= EVERYWHERE
    kinds = {tensor.data_type for tensor in proto.graph.initializer}
    assert kinds <= {TensorProto.FLOAT, TensorProto.INT64}
    assert [output.name for output in proto.graph.output] == ["scores"]


@pytest.mark.parametrize("kind", first(1, KINDS))
def test_ops_alone_and_an_old_runtime(kind: str, ort117_python: Path) -> None:
    program = exact(random_program(5, kind, members=2))
    raw = random_inputs(program, 5)
    values = reference.run(program, raw, 1)
    for op in program.ops:
        got = run_op(program, op, values[op.x.name], member=1, form="float")
        assert not (message := difference(program, op, values[op.y.name], got, values[op.x.name], 1)), message
    assert_agrees(program, OnnxRun(emitted(program, form="float"), program, python=ort117_python), raw)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("form", ["integer", "float"])
def test_scores_only(form: str, members: int) -> None:
    """The head is left out, its nodes with it; the scores are those of every member."""
    program = exact(random_program(4, "uint8", (6, 5, 3), members=members))
    whole = emit(program, options()).about
    made = emit(program, options(outputs="scores", form=form))  # type: ignore[arg-type]
    assert len(whole["head"]["nodes"]) > 60  # type: ignore[index]
    assert len(made.about["head"]["nodes"]) == (0 if members == 1 else 2)  # type: ignore[index]
    assert (made.about["outputs"], made.about["form"]) == ("scores", form)
    graph = onnx.load_from_string(made.files["net.onnx"]).graph
    kind = TensorProto.INT32 if form == "integer" else TensorProto.FLOAT
    assert [(v.name, v.type.tensor_type.elem_type) for v in graph.output] == [("scores", kind)]
    assert not any(name.startswith("head/") for node in graph.node for name in node.output)
    assert not any(tensor.name.startswith("head/") for tensor in graph.initializer)
    assert_agrees(program, OnnxRun(made.files["net.onnx"], program), random_inputs(program, 6))


def test_a_gate_without_a_head() -> None:
    program = gated(exact(random_program(4, "uint8", (6, 5, 3), members=3)), 30_000)
    assert_agrees(program, OnnxRun(emitted(program, outputs="scores"), program), random_inputs(program, 20))


def one_layer(fan_in: int, threshold: int, kind: str = "bits") -> Program:
    x = Value("input", kind, (1, 1, fan_in))  # type: ignore[arg-type]
    h, y = Value("h", "bits", (1, 1, 1)), Value("scores", "int32", (1, 1, 2))
    words = -(-fan_in // 32)
    weights = np.full((1, 1, 1, words), 0xFFFFFFFF, dtype=np.uint32)
    if fan_in % 32:
        weights[..., -1] = (1 << fan_in % 32) - 1
    tables = {
        "w": weights,
        "t": np.array([threshold], np.int32),
        "s": np.array([[[[1]]], [[[-1]]]], np.int8),
        "b": np.zeros(2, np.int32),
    }
    ops = (Conv("wide", x, h, "w", "t", Window((1, 1))), Scores("last", h, y, "s", "b"))
    return Program(x, ops, {k: Constant((v,), (0,)) for k, v in tables.items()}, ("map",), 1.0)


@pytest.mark.parametrize("fan_in", [1, 2, 63, 4097])
def test_sums_at_and_beside_their_thresholds(fan_in: int) -> None:
    ones = np.arange(max(0, fan_in // 2 - 3), min(fan_in, fan_in // 2 + 3) + 1)
    raw = (np.arange(fan_in) < ones[:, None]).reshape(-1, 1, 1, fan_in)
    for threshold in sorted({int(2 * k - fan_in) for k in ones} | {-fan_in, fan_in, fan_in + 1}):
        program = one_layer(fan_in, threshold)
        assert_agrees(program, OnnxRun(emitted(program, form="float"), program), raw)


def test_layers_that_float32_does_not_hold_are_refused_by_name() -> None:
    fits = HALVES // 2 // 127 - 127
    emitted(one_layer(fits, fits, "int8"), form="float")
    with pytest.raises(BlrcError, match=r"target onnx: layer 'wide': its sums reach \d+, which float32 does not hold"):
        emitted(one_layer(HALVES // 127, HALVES - 1, "int8"), form="float")
    program = random_program(0, "bits", (1, 1, 8), layers=1, binary=False)
    last = program.ops[-1]
    assert isinstance(last, Scores)
    for bias, refused in ((INTEGERS // 2, False), (INTEGERS, True)):
        table = np.full(program.classes, bias, np.int32)
        other = replace(program, constants={**program.constants, last.bias: Constant((table,), (0,))})
        if refused:
            with pytest.raises(BlrcError, match=f"layer '{last.name}': its sums reach"):
                emitted(other, form="float")
        else:
            assert_agrees(other, OnnxRun(emitted(other, form="float"), other), random_inputs(other, 4))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("flat", [False, True])
def test_any_table_of_codes(channels: int, flat: bool) -> None:
    """Tables that rise, fall, jump and stay, one for all channels and one for each; every raw value."""
    rng = np.random.default_rng(channels)
    program = random_program(1, "uint8", (1, 1, channels) if flat else (16, 16, channels), layers=1)
    encode = program.ops[0]
    assert isinstance(encode, Encode)
    every = np.stack([rng.permutation(256) for _ in range(channels)], axis=1).astype(np.uint8)
    raw = every.reshape(256, 1, 1, channels) if flat else every.reshape(1, 16, 16, channels)
    tables = [
        rng.integers(-127, 128, (channels, 256)),
        np.zeros((channels, 256)),
        np.where(rng.random((channels, 256)) < 0.5, -127, 127),
        np.sort(rng.integers(-127, 128, (channels, 256)), axis=1),
        rng.integers(-127, 128, (1, 256)),
    ]
    for table in tables:
        constant = Constant((table.astype(np.int8),), (0,))
        other = replace(program, constants={**program.constants, encode.table: constant})
        assert_agrees(other, OnnxRun(emitted(other, form="float"), other), raw)


def test_a_wrong_weight_of_the_float_form_is_seen() -> None:
    program = exact(random_program(3, "uint8", (9, 7, 3)))
    model = onnx.load_from_string(emitted(program, form="float"))
    weights = next(tensor for tensor in model.graph.initializer if tensor.name.endswith("/kernel"))
    array = onnx.numpy_helper.to_array(weights).copy()
    array.reshape(-1)[: array.size // 2] *= -1
    weights.CopyFrom(onnx.numpy_helper.from_array(array, weights.name))
    with pytest.raises(AssertionError):
        assert_agrees(program, OnnxRun(model.SerializeToString(), program), random_inputs(program, 7))


def test_metadata_say_the_form() -> None:
    program = exact(random_program(3, "uint8", (9, 7, 3)))
    proto = onnx.load_from_string(emitted(program, form="float"))
    found = {p.key: p.value for p in proto.metadata_props}
    assert found["blrc.form"] == "float" and found["blrc.digest"] == program_file.digest(program)
    assert "blrc.form" not in {p.key for p in onnx.load_from_string(emitted(program)).metadata_props}


@pytest.mark.parametrize("last", ["scores", "binary"])
def test_scores_of_codes_that_float32_does_not_hold_are_refused(last: str) -> None:
    """A code counts up to 255 times what a sign does: 33162241 became 33162240."""
    for fan_in, refused in ((INTEGERS // 255 // 127 - 8, False), (INTEGERS // 255 // 2, True)):
        x, codes = Value("input", "bits", (1, 1, 1)), Value("codes", "codes8", (1, 1, fan_in))
        y = Value("scores", "int32", (1, 1, 2))
        tables = {
            "w": np.ones((fan_in, 1, 1, 1), np.uint32),
            "t": np.zeros((fan_in, 255), np.int32),
            "s": np.full((2, 1, 1, fan_in), 127, np.int8),
            "b": np.array([0, 1], np.int32),
            "m": np.full(2, 127, np.int32),
            "p": np.full((2, 1, 1, words(fan_in)), 0xFFFFFFFF, np.uint32),
        }
        if fan_in % 32:
            tables["p"][..., -1] = (1 << fan_in % 32) - 1
        end = Scores("last", codes, y, "s", "b") if last == "scores" else BinaryScores("last", codes, y, "p", "m", "b")
        ops = (Conv("levels", x, codes, "w", "t", Window((1, 1))), end)
        constants = {name: Constant((tables[name],), (0,)) for op in ops for name in op.constants}
        program = check(Program(x, ops, constants, ("map",), 1.0))
        if refused:
            with pytest.raises(BlrcError, match=r"layer 'last': its sums reach \d+, which float32 does not"):
                emitted(program, form="float")
        else:
            assert_agrees(program, OnnxRun(emitted(program, form="float"), program), np.ones((1, 1, 1, 1), bool))

"""Binary weights as bits in the file: the same signs, an eighth of the bytes, and nothing left to do when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from by_night import first
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_agreement import KINDS, assert_agrees, emitted
from random_programs import random_inputs, random_program

from blrc.program import reference
from blrc.program.program import BinaryScores, Conv, Program
from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.session import OnnxRun

PAIRS = st.sampled_from([(np.int8(-1), np.int8(1)), (np.int8(-2), np.int8(2)), (np.uint8(0), np.uint8(2))])


@settings(max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), PAIRS, st.integers(0, 2**32 - 1))
def test_unpacked_bits_are_the_signs(shape: list[int], pair: tuple[Any, Any], seed: int) -> None:
    signs = np.random.default_rng(seed).integers(0, 2, shape) * 2 - 1
    graph = Graph("bits")
    assert graph.signs("w", signs, *pair) == graph.signs("w", signs, *pair) == "w"
    graph.node("Identity", ["w"], "y")
    kind = helper.np_dtype_to_tensor_dtype(pair[0].dtype)
    model = graph.model("signs", [], [helper.make_tensor_value_info("y", kind, shape)], [])
    onnx.checker.check_model(model, full_check=True)
    assert graph.constants["w/bits"].nbytes == -(-signs.size // 8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found in (session.run(None, {})[0], ReferenceEvaluator(model).run(None, {})[0]):
        assert found.dtype == pair[0].dtype  # type: ignore[union-attr]
        assert np.asarray(found).tolist() == np.vectorize({-1: pair[0], 1: pair[1]}.get)(signs).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(4, range(8)))
def test_programs_agree(seed: int, kind: str) -> None:
    program = random_program(seed, kind, members=1 + seed % 3)
    assert_agrees(program, OnnxRun(emitted(program, "bits"), program), random_inputs(program, 7, seed))


@pytest.mark.parametrize("kind", first(1, KINDS))
def test_the_oldest_runtime_agrees(kind: str, ort117_python: Path) -> None:
    program = random_program(3, kind, members=2)
    run = OnnxRun(emitted(program, "bits"), program, python=ort117_python)
    assert_agrees(program, run, random_inputs(program, 17))


# The evaluator pads max pooling with NaN and casts the result.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_reference_evaluator_agrees(kind: str) -> None:
    program = random_program(5, kind)
    raw = random_inputs(program, 3)
    x = raw.astype(np.uint8) if kind == "bits" else raw
    x = np.ascontiguousarray(x[:, 0, 0] if x.shape[1:3] == (1, 1) else x.transpose(0, 3, 1, 2))
    found = ReferenceEvaluator(emitted(program, "bits")).run(["scores"], {"input": x})
    assert np.array_equal(found[0], reference.scores(program, raw))


def stored(program: Program, content: bytes) -> tuple[int, int]:
    """Bytes of all constants of a file, and how many binary weights the program has."""
    tensors = onnx.load_from_string(content).graph.initializer
    weights = sum(op.y.shape[2] * op.fan_in for op in program.ops if isinstance(op, Conv | BinaryScores))
    return sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in tensors), weights


def test_a_binary_weight_takes_one_bit() -> None:
    program = random_program(3, "uint8", (9, 7, 3))
    (as_bytes, weights), (as_bits, _) = stored(program, emitted(program)), stored(program, emitted(program, "bits"))
    # The tables of two sizes of sign, and shapes; each table's last byte may be shared with nothing.
    assert as_bits <= as_bytes - weights + weights // 8 + 3 * 8 * 256 + len(program.ops) * (1 + 4 * 8 + 3 * 8)


def test_the_runtime_unpacks_while_it_loads(tmp_path: Path) -> None:
    program = random_program(3, "uint8", (9, 7, 3))
    ran = []
    for weights in ("bytes", "bits"):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        content = emitted(program, weights)  # type: ignore[arg-type]
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        ran.append(sorted(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node))
    assert ran[0] == ran[1]

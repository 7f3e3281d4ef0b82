"""ONNX files with weights of -1, 0 and +1: equal to the reference at every layer, in the oldest and newest runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from by_night import first
from onnx.reference import ReferenceEvaluator
from onnx_agreement import assert_agrees, emitted
from random_programs import random_inputs, random_program
from test_onnx_float import exact

from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.session import OnnxRun

SEEDS = [1000, 1010, 1015, 1025, 1055, 1070]
KINDS = ("bits", "uint8", "int8")


@pytest.fixture(params=["newest", "oldest"])
def python(request: pytest.FixtureRequest) -> Path | None:
    return None if request.param == "newest" else request.getfixturevalue("ort117_python")


@pytest.mark.parametrize("weights", ["bytes", "bits"])
@pytest.mark.parametrize("seed", first(1, SEEDS))
def test_every_layer_is_the_references(seed: int, weights: str, python: Path | None) -> None:
    program = random_program(seed, KINDS[seed % 3], members=1 + seed % 2)
    assert any(getattr(op, "ternary", False) for op in program.ops)
    run = OnnxRun(emitted(program, weights), program, python=python)
    assert_agrees(program, run, random_inputs(program, 9, seed))


@pytest.mark.parametrize("seed", first(1, SEEDS))
def test_the_float_form(seed: int, python: Path | None) -> None:
    program = exact(random_program(seed, KINDS[seed % 3], members=1 + seed % 2))
    run = OnnxRun(emitted(program, form="float"), program, python=python)
    assert_agrees(program, run, random_inputs(program, 9, seed))


@pytest.mark.parametrize("count", [1, 4, 5, 6, 243])
def test_five_weights_are_a_byte(count: int) -> None:
    """Every digit comes back, with what takes the place of -1 and +1."""
    numbers: np.ndarray[Any, Any] = np.random.default_rng(count).integers(-1, 2, (count,)).astype(np.int8)
    numbers[0] = 0
    graph = Graph("bits")
    name = graph.signs("weights", numbers, np.uint8(0), np.uint8(2))
    assert graph.constants["weights/digits"].nbytes == -(-count // 5)
    proto = graph.model("net", [], [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [count])], [])
    evaluator = ReferenceEvaluator(proto)
    np.testing.assert_array_equal(evaluator.run(None, {})[0], numbers + 1)


def test_weights_without_zeros_take_a_bit_each() -> None:
    numbers: np.ndarray[Any, Any] = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), 100)
    graph = Graph("bits")
    graph.signs("weights", numbers, np.int8(-1), np.int8(1))
    assert graph.constants["weights/bits"].nbytes == 13

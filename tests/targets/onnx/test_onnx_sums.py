"""ONNX files that add up bits and codes: equal to the reference at every layer, in the oldest and newest runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_night import first
from onnx_agreement import assert_agrees, emitted
from random_programs import SUMS, random_inputs, random_program
from test_onnx_float import exact

from blrc.program.program import SumPool
from blrc.targets.onnx.session import OnnxRun

SEEDS = [SUMS, SUMS + 1, SUMS + 5, SUMS + 7, SUMS + 15, SUMS + 2, SUMS + 3, SUMS + 10]
KINDS = ("bits", "uint8", "int8")


@pytest.fixture(params=["newest", "oldest"])
def python(request: pytest.FixtureRequest) -> Path | None:
    return None if request.param == "newest" else request.getfixturevalue("ort117_python")


@pytest.mark.parametrize("seed", first(5, SEEDS))
def test_every_layer_is_the_references(seed: int, python: Path | None) -> None:
    program = random_program(seed, KINDS[seed % 3], members=1 + seed % 2)
    assert any(isinstance(op, SumPool) for op in program.ops)
    run = OnnxRun(emitted(program), program, python=python)
    assert_agrees(program, run, random_inputs(program, 9, seed))


@pytest.mark.parametrize("seed", first(5, SEEDS))
def test_the_float_form(seed: int, python: Path | None) -> None:
    program = exact(random_program(seed, KINDS[seed % 3], members=1 + seed % 2))
    run = OnnxRun(emitted(program, form="float"), program, python=python)
    assert_agrees(program, run, random_inputs(program, 9, seed))

"""Scores by compiled C, by ONNX Runtime, or by the reference: always the reference's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_night import first
from numpy.typing import NDArray
from random_programs import alone, random_inputs, random_program

from blrc.errors import BlrcError
from blrc.evaluation import scoring
from blrc.program import reference
from blrc.program.program import Program
from blrc.targets.c.native.slots import Slots


@pytest.fixture(autouse=True)
def by_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Program]]:
    """The programs that ONNX Runtime was asked for; nothing compiled is kept from test to test."""
    asked: list[Program] = []
    scores = scoring.by_onnx_runtime

    def counted(program: Program, raw: NDArray[Any]) -> NDArray[np.int32]:
        asked.append(program)
        return scores(program, raw)

    monkeypatch.setattr(scoring, "by_onnx_runtime", counted)
    scoring._compiled.cache_clear()
    yield asked
    scoring._compiled.cache_clear()


def check(members: list[Program], raw: NDArray[Any]) -> None:
    for program, found in zip(members, scoring.scores(members, raw), strict=True):
        expected = reference.scores(program, raw)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_the_c_gives_the_scores(kind: str, by_runtime: list[Program]) -> None:
    program = random_program(4, kind, (5, 6, 3), members=2)
    members = [alone(program, 0), alone(program, 1)]
    raw = random_inputs(program, 40)
    check(members, raw)
    check(members[:1], raw[:0])
    assert scoring.compiled(members[0]) is scoring.compiled(members[1])
    if kind == "bits":
        check(members, raw.astype(np.int8))  # as the reference takes them
    assert by_runtime == []


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
@pytest.mark.parametrize("seed", first(2, range(5)))
def test_without_a_compiler_onnx_runtime_gives_them(kind: str, seed: int, by_runtime: list[Program]) -> None:
    program = random_program(seed, kind, (5, 6, 3))
    check([program], random_inputs(program, 300))
    assert by_runtime == [program]


@pytest.mark.usefixtures("no_compiler")
def test_without_either_the_reference_does(monkeypatch: pytest.MonkeyPatch, by_runtime: list[Program]) -> None:
    monkeypatch.setattr(scoring, "lacking", lambda package: f"{package}, which is not installed")
    program = random_program(4, "uint8", (5, 6, 3))
    check([program], random_inputs(program, 10))
    assert by_runtime == []


@pytest.mark.usefixtures("no_compiler")
def test_a_runtime_that_is_not_right_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(4, "uint8", (5, 6, 3))
    raw = random_inputs(program, 10)
    monkeypatch.setattr(scoring, "by_onnx_runtime", lambda *_: reference.scores(program, raw) + 1)
    check([program], raw)


@pytest.mark.usefixtures("no_compiler")
def test_regression_a_network_that_onnx_refuses_is_evaluated_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal ended the evaluation, although the reference could compute it."""

    def refuse(*_: object) -> None:
        raise BlrcError("layer 'conv': too large for ONNX")

    monkeypatch.setattr(scoring, "by_onnx_runtime", refuse)
    program = random_program(4, "uint8", (5, 6, 3))
    check([program], random_inputs(program, 10))


def test_c_that_is_not_right_is_not_believed(monkeypatch: pytest.MonkeyPatch, by_runtime: list[Program]) -> None:
    program = random_program(4, "uint8", (5, 6, 3), members=2)
    members = [alone(program, 0), alone(program, 1)]
    right = Slots.scores

    def wrong(self: Slots, one: Program, raw: NDArray[Any], threads: int = 1) -> NDArray[np.int32]:
        scores = right(self, one, raw, threads)
        return scores + (one is members[1])

    monkeypatch.setattr(Slots, "scores", wrong)
    check(members, random_inputs(program, 10))
    assert by_runtime == members

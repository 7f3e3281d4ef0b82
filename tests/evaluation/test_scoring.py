"""Scores by compiled C, or by torch where that cannot be: always the reference's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_programs import alone, random_inputs, random_program

from blrc.evaluation import quick, scoring
from blrc.program import reference
from blrc.program.program import Program
from blrc.targets.c.native.slots import Slots


@pytest.fixture(autouse=True)
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many programs each call of `quick` was asked for; nothing compiled is kept from test to test."""
    asked: list[int] = []
    scores = quick.scores

    def counted(programs: list[Program], raw: NDArray[Any]) -> list[NDArray[np.int32]]:
        asked.append(len(programs))
        return scores(programs, raw)

    monkeypatch.setattr(quick, "scores", counted)
    scoring._compiled.cache_clear()
    yield asked
    scoring._compiled.cache_clear()


def check(members: list[Program], raw: NDArray[Any]) -> None:
    for program, found in zip(members, scoring.scores(members, raw), strict=True):
        expected = reference.scores(program, raw)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_the_c_gives_the_scores(kind: str, by_torch: list[int]) -> None:
    program = random_program(4, kind, (5, 6, 3), members=2)
    members = [alone(program, 0), alone(program, 1)]
    raw = random_inputs(program, 40)
    check(members, raw)
    check(members[:1], raw[:0])
    assert scoring.compiled(members[0]) is scoring.compiled(members[1])
    if kind == "bits":
        check(members, raw.astype(np.int8))  # as the reference takes them
    assert by_torch == []


def test_without_a_compiler_torch_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_torch: list[int]) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = random_program(4, "uint8", (5, 6, 3))
    check([program], random_inputs(program, 10))
    assert by_torch == [1]


def test_c_that_is_not_right_is_not_believed(monkeypatch: pytest.MonkeyPatch, by_torch: list[int]) -> None:
    program = random_program(4, "uint8", (5, 6, 3), members=2)
    members = [alone(program, 0), alone(program, 1)]
    right = Slots.scores

    def wrong(self: Slots, one: Program, raw: NDArray[Any], threads: int = 1) -> NDArray[np.int32]:
        scores = right(self, one, raw, threads)
        return scores + (one is members[1])

    monkeypatch.setattr(Slots, "scores", wrong)
    check(members, random_inputs(program, 10))
    assert by_torch == [2]

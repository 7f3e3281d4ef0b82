"""Values: their law beside exact fractions, the program's file, and what is legal."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_programs import gated, random_inputs, random_program

from blrc.errors import BlrcError
from blrc.net.heads import Unit
from blrc.program import program_file, reference, values
from blrc.program.heads import Head
from blrc.program.legal import check
from blrc.program.program import Program

BOUND = values.MOST_SUM
UNITS = (Unit(0.25, -3.0),)


def valued(members: int = 1, binary: bool = False, units: tuple[Unit, ...] = UNITS) -> Program:
    program = random_program(1, "bits", (2, 2, 3), layers=1, members=members, binary=binary)
    return check(replace(program, values=units))


def structure(program: Program) -> dict[str, Any]:
    from blrc.reading import npz

    content = program_file.to_bytes(program)
    held: dict[str, Any] = json.loads(npz.from_bytes(content, len(content))["program"].tobytes())
    return held


@given(st.lists(st.integers(1 - BOUND, BOUND - 1), min_size=1, max_size=1365))
def test_mean_and_variance_are_those_of_fractions(drawn: list[int]) -> None:
    each = [v // len(drawn) for v in drawn]  # as large as legal programs of so many members give
    answer = values.together([np.array([[v, -v]], np.int32) for v in each])
    exact = Fraction(sum(each), len(each))
    variance = sum((v - exact) ** 2 for v in each) / len(each)
    assert answer.log_p.tolist() == [[sum(each), -sum(each)]]
    assert answer.mean.tolist() == [[floor(exact + Fraction(1, 2)), floor(-exact + Fraction(1, 2))]]
    assert answer.variance.tolist() == [[floor(variance)] * 2]
    assert answer.members.tolist() == [len(each)] and answer.label.shape == (1, 0)


def test_the_largest_sums_of_the_most_members_are_exact() -> None:
    """n times the sum of squares is below 2^62 where n times the largest value is below 2^31."""
    for members in (1, 2, 3, 255, 1365):
        most = (BOUND - 1) // members
        each = [most if k % 2 else -most for k in range(members)]
        answer = values.together([np.array([[v]], np.int32) for v in each])
        exact = Fraction(sum(each), members)
        assert answer.variance[0, 0] == floor(Fraction(sum(v * v for v in each), members) - exact**2)


def test_the_reference_adds_members_and_knows_no_label() -> None:
    program = valued(members=3)
    raw = random_inputs(program, 20)
    answer = reference.answer(program, raw)
    each = np.stack([reference.scores(program, raw, k) for k in range(3)]).astype(np.int64)
    assert np.array_equal(answer.log_p, each.sum(axis=0)) and answer.label.size == 0
    assert np.array_equal(answer.mean, np.floor(each.mean(axis=0) + 0.5))
    assert program.labels(each[0]).shape == (20, 0)
    assert reference.answer(program, raw, members=1).members.tolist() == [1] * 20


def test_the_stated_scale_is_the_nearest_float_of_both() -> None:
    program = replace(valued(), score_scale=0.1, values=(Unit(3.3, 7.0),))
    assert program.units == (Unit(float(Fraction(0.1) * Fraction(3.3)), 7.0),)


@pytest.mark.parametrize("binary", [False, True])
def test_a_program_of_values_survives_its_file_in_a_format_of_its_own(binary: bool) -> None:
    program = valued(members=2, binary=binary, units=(Unit(1 / 3, -1e-300),))
    content = program_file.to_bytes(program)
    again = program_file.parse(content, Path("net"))
    assert again.values == program.values and program_file.to_bytes(again) == content
    assert structure(program)["format"] == program_file.OF_VALUES
    assert "values" not in structure(replace(program, values=())) and program_file.digest(again) != (
        program_file.digest(replace(program, values=()))
    )


def test_units_of_several_heads_are_kept_in_their_order() -> None:
    program = random_program(1, "bits", (2, 2, 3), layers=1)
    heads = (Head("a", 1, 0.5), Head("b", program.classes - 1, 0.25))
    program = check(replace(program, score_scale=0.5, heads=heads, values=(Unit(2.0), Unit(4.0, 1.0))))
    again = program_file.parse(program_file.to_bytes(program), Path("net"))
    assert again.units == (Unit(1.0, 0.0), Unit(1.0, 1.0)) and again.heads == heads


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"scale": "nan", "offset": "0x0p+0"}, "scale of values nan: must be a finite number above 0"),
        ({"scale": "0x0p+0", "offset": "0x0p+0"}, "scale of values 0.0: must be a finite number above 0"),
        ({"scale": "-0x1p+0", "offset": "0x0p+0"}, "scale of values -1.0"),
        ({"scale": "inf", "offset": "0x0p+0"}, "scale of values inf"),
        ({"scale": "0x1p+0", "offset": "nan"}, "offset of values nan: must be finite"),
        ({"scale": "0x1p+9999", "offset": "0x0p+0"}, "beyond float64"),
        ({"scale": "0x1p+0", "offset": "0x1p+1000"}, "beyond float32"),
        ({"scale": "0x1p+1000", "offset": "0x0p+0"}, "beyond float32"),
        ({"scale": "0x1p-1000", "offset": "0x0p+0"}, "the scale of its values is below"),
        ({"scale": 1.0, "offset": "0x0p+0"}, "scale of values"),
        ({"scale": "0x1p+0"}, "offset"),
        (7, "a unit"),
    ],
)
def test_hostile_units_are_refused(unit: Any, message: str) -> None:
    from blrc.reading import npz

    program = valued()
    content = program_file.to_bytes(program)
    arrays = npz.from_bytes(content, len(content))
    arrays["program"] = np.frombuffer(json.dumps({**structure(program), "values": [unit]}).encode(), np.uint8)
    with pytest.raises(BlrcError, match=message):
        program_file.parse(npz.to_bytes(arrays), Path("net"))


def test_values_that_may_overflow_together_are_refused_by_layer() -> None:
    program = valued(members=3)
    bias = program.ops[-1].constants[-1]
    most = BOUND // 3
    table = np.full(program.classes, most, np.int32)
    constant = replace(program.constants[bias], tables=(table,) * len(program.constants[bias].tables))
    with pytest.raises(BlrcError, match=rf"op '{program.ops[-1].name}'.*3 members' values.*take at most 2 members"):
        check(replace(program, constants={**program.constants, bias: constant}))
    check(replace(program, constants={**program.constants, bias: constant}, values=()))  # labels have no such sums


def test_gates_and_other_numbers_of_units_are_refused() -> None:
    with pytest.raises(BlrcError, match="a gate stops at a likely label"):
        check(replace(gated(random_program(1, "bits", (2, 2, 3), layers=1, members=2), 60_000), values=UNITS))
    with pytest.raises(BlrcError, match="2 units of 1 outputs"):
        check(replace(valued(), values=UNITS * 2))


@pytest.mark.parametrize("wrong", [True, "1", None, [1.0]])
def test_a_unit_is_of_numbers(wrong: Any) -> None:
    with pytest.raises(BlrcError, match="is no number"):
        Unit(wrong)
    with pytest.raises(BlrcError, match="is no number"):
        Unit(1.0, wrong)
    with pytest.raises(BlrcError, match="beyond float64"):
        Unit(10**400)

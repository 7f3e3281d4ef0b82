"""A difference is found wherever it is, and named rightly; what was not compared is not called equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from by_night import first
from fake_engines import Spoil, flip_one, recount, reference_engine
from numpy.typing import NDArray
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import reference
from blrc.program.program import Conv, Encode, Op, Program
from blrc.verification.compare import ANSWER, LABEL, Difference, compare, compare_answers, compare_scores
from blrc.verification.run import InputSet, Tally, compare_inputs, compare_ops, not_compared


def silent(what: str, done: int, total: int) -> None:
    pass


def all_values(program: Program, raw: NDArray[Any]) -> dict[str, NDArray[Any]]:
    values = reference.run(program, raw)
    return {**values, LABEL: reference.labels(values[program.output.name][:, 0, 0, :])}


KINDS = ["uint8", "int8", "bits"]
PROGRAMS = [random_program(seed, KINDS[seed % 3], shape=(6, 7, 3)) for seed in range(3)]
OPS = [(p, op.name) for p, program in enumerate(PROGRAMS) for op in program.ops]


@pytest.mark.parametrize("program", PROGRAMS)
def test_equal_values_are_counted(program: Program) -> None:
    raw = random_inputs(program, 5)
    values = all_values(program, raw)
    comparison = compare(program, 0, values, values, "engine", "inputs")
    assert comparison.difference is None
    assert comparison.values == {**{op.name: 5 * int(np.prod(op.y.shape)) for op in program.ops}, LABEL: 5}


@pytest.mark.parametrize(("which", "name"), OPS)
def test_one_wrong_element_is_named(which: int, name: str) -> None:
    program = PROGRAMS[which]
    op = next(op for op in program.ops if op.name == name)
    raw = random_inputs(program, 5)
    values = all_values(program, raw)
    height, width, channels = op.y.shape
    place = (3, height - 1, width // 2, channels // 2)
    found = {**values, op.y.name: flip_one(values[op.y.name].copy(), place)}
    difference = compare(program, 0, values, found, "the engine", "the inputs", first_sample=100).difference
    assert difference is not None
    assert (difference.engine, difference.inputs, difference.sample) == ("the engine", "the inputs", 103)
    assert (difference.member, difference.op) == (program.members[0], name)
    assert (difference.position, difference.channel) == (place[1:3], place[3])
    assert (difference.expected, difference.found) == (int(values[op.y.name][place]), int(found[op.y.name][place]))
    if isinstance(op, Conv):
        x = values[op.x.name][3]
        assert difference.z == recount(program, op, x, place[1:3], place[3])
        assert difference.threshold == program.constant(op.thresholds)[place[3]]
        assert difference.expected == (difference.z >= difference.threshold)
    else:
        assert difference.z is None
        assert difference.threshold is None
    words = ["the engine", "the inputs", "sample 103", repr(program.members[0]), repr(name), str(place[1:3])]
    words += [f"channel {place[3]}", f"expected {difference.expected}", f"found {difference.found}"]
    if isinstance(op, Conv):
        words += [f"z {difference.z}", f"threshold {difference.threshold}"]
    assert all(word in str(difference) for word in words)


def test_the_first_difference_is_that_of_the_first_op_sample_and_place() -> None:
    program = PROGRAMS[2]
    first, second = convs(program)[:2]
    values = all_values(program, random_inputs(program, 5))
    found = {name: value.copy() for name, value in values.items()}
    for op, place in [(second, (0, 0, 0, 0)), (first, (4, 0, 0, 0)), (first, (2, 0, 0, 1)), (first, (2, 0, 0, 2))]:
        flip_one(found[op.y.name], place)
    difference = compare(program, 0, values, found, "e", "i").difference
    assert difference is not None
    assert (difference.op, difference.sample, difference.channel) == (first.name, 2, 1)


def convs(program: Program) -> list[Conv]:
    return [op for op in program.ops if isinstance(op, Conv)]


def test_a_wrong_label_is_named() -> None:
    program = PROGRAMS[0]
    values = all_values(program, random_inputs(program, 5))
    found = {**values, LABEL: values[LABEL].copy()}
    found[LABEL][4] += 1
    comparison = compare(program, 0, values, found, "e", "i", 10)
    right = int(values[LABEL][4])
    assert comparison.difference == Difference("e", "i", 14, program.members[0], LABEL, (0, 0), 0, right, right + 1)


def test_an_answer_of_another_form_is_refused() -> None:
    program = PROGRAMS[0]
    values = all_values(program, random_inputs(program, 5))
    out, inner = program.output.name, convs(program)[0].y.name
    with pytest.raises(BlrcError, match="the engine: gave no scores"):
        compare(program, 0, values, {k: v for k, v in values.items() if k != out}, "the engine", "i")
    for name, wrong in [(out, values[out].astype(np.int64)), (out, values[out][:4]), (inner, values[inner][..., :1])]:
        with pytest.raises(BlrcError, match=r"the engine: op .* gave .* expected"):
            compare(program, 0, values, {**values, name: wrong}, "the engine", "i")
    # One label for all samples would be compared with each of them.
    for wrong in (values[LABEL][:1], values[LABEL][:4], values[LABEL][0]):
        with pytest.raises(BlrcError, match=r"the engine: gave labels .* expected \(5,\)"):
            compare(program, 0, values, {**values, LABEL: wrong}, "the engine", "i")


def run_all(program: Program, engines: list[Any], inputs: list[InputSet] | None = None) -> Tally:
    tally = Tally()
    compare_ops(program, engines, 0, tally, silent)
    for each in inputs or [InputSet("some", random_inputs(program, 5))]:
        if tally.difference is None:
            compare_inputs(program, engines, each, tally, silent)
    return tally


def spoil(value: str, sample: int) -> Spoil:
    return lambda name, array: flip_one(array, (sample, *[0] * (array.ndim - 1))) if name == value else array


@pytest.mark.parametrize("program", first(1, PROGRAMS))
def test_every_value_is_compared_on_whole_inputs(program: Program) -> None:
    for name in [*(op.y.name for op in program.ops), LABEL]:
        tally = run_all(program, [reference_engine(program, "fine"), reference_engine(program, "bad", spoil(name, 2))])
        assert tally.difference is not None
        assert (tally.difference.engine, tally.difference.inputs, tally.difference.sample) == ("bad", "some", 2)
        assert tally.difference.op == next((op.name for op in program.ops if op.y.name == name), LABEL)


@pytest.mark.parametrize("program", first(1, PROGRAMS))
def test_every_op_is_compared_alone(program: Program) -> None:
    for op in program.ops:
        tally = run_all(program, [reference_engine(program, "bad", alone=spoil(op.y.name, 1))])
        assert tally.difference is not None
        assert (tally.difference.op, tally.difference.sample) == (op.name, 1)
        assert tally.difference.inputs in (
            "its threshold edges",
            "every raw value",
            "random bits",
            "its extreme scores",
        )


def test_samples_are_numbered_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS[2]
    monkeypatch.setattr("blrc.verification.run.CHUNK_BYTES", 1)
    engine = reference_engine(program, "bad")
    calls = []

    def run(raw: NDArray[Any], member: int = 0) -> dict[str, NDArray[Any]]:
        values = dict(engine.run(raw, member))
        if len(calls) == 5:
            flip_one(values[program.output.name], (0, 0, 0, 0))
        calls.append(len(raw))
        return values

    tally = Tally()
    compare_inputs(program, [replace(engine, run=run)], InputSet("some", random_inputs(program, 7)), tally, silent)
    assert set(calls) == {1}
    assert tally.difference is not None
    assert tally.difference.sample == 5


def test_counts_and_limits() -> None:
    program = PROGRAMS[1]
    raw = random_inputs(program, 9)
    labels = all_values(program, raw)[LABEL].copy()
    labels[:2] += 1
    engines = [reference_engine(program, "all"), replace(reference_engine(program, "slow"), limit=4)]
    tally = Tally()
    compare_inputs(program, engines, InputSet("some", raw, labels), tally, silent)
    assert tally.inputs == {"some": {"all": 9, "slow": 4}}
    assert tally.labelled == 9
    assert tally.correct == {"all": 7, "slow": 2}
    # Labels twice: the member's, and that of all members together.
    assert tally.values["slow"][LABEL] == 2 * 4
    ops = {op.name: 9 * int(np.prod(op.y.shape)) for op in program.ops}
    assert tally.values["all"] == {**ops, LABEL: 2 * 9, ANSWER: 9 * (program.classes + 3)}


def test_a_wrong_form_of_one_op_is_refused() -> None:
    program = PROGRAMS[2]
    op = convs(program)[0]
    for wrong in (lambda a: a[:1], lambda a: a.astype(np.uint8)):

        def alone(name: str, array: NDArray[Any], wrong: Any = wrong) -> NDArray[Any]:
            return wrong(array) if name == op.y.name else array  # type: ignore[no-any-return]

        with pytest.raises(BlrcError, match=rf"bad: op '{op.name}' alone gave .* expected"):
            run_all(program, [reference_engine(program, "bad", alone=alone)])


# Equal must not mean "not looked at"


@pytest.mark.parametrize("program", first(1, PROGRAMS))
def test_a_layer_that_an_engine_never_gives_is_reported(program: Program) -> None:
    for op in program.ops[:-1]:
        engines = [reference_engine(program, "fine"), reference_engine(program, "blind", hidden=(op.y.name,))]
        tally = run_all(program, engines)
        assert tally.difference is None
        problems = not_compared(program, engines, tally)
        assert problems == [f"blind: nothing of {op.name!r} was compared"]


def test_codes_looked_up_where_they_are_read_need_not_be_given() -> None:
    program = PROGRAMS[0]
    encode: Op = program.ops[0]
    assert isinstance(encode, Encode)
    engine = reference_engine(program, "C", hidden=(encode.y.name,))
    tally = Tally()
    compare_inputs(program, [engine], InputSet("some", random_inputs(program, 3)), tally, silent)
    assert not_compared(program, [replace(engine, fuses_encode=True)], tally) == []
    assert not_compared(program, [engine], tally) == [f"C: nothing of {encode.name!r} was compared"]


def test_no_inputs_at_all_are_reported() -> None:
    program = PROGRAMS[1]
    engine = reference_engine(program, "e")
    tally = Tally()
    compare_inputs(program, [engine], InputSet("none", random_inputs(program, 3)[:0]), tally, silent)
    problems = not_compared(program, [engine], tally)
    assert len(problems) == 1
    assert all(repr(op.name) in problems[0] for op in program.ops)
    assert repr(LABEL) in problems[0]


def test_every_part_of_an_answer_is_compared() -> None:
    program = random_program(4, "uint8", shape=(5, 5, 2), members=3)
    right = reference.answer(program, random_inputs(program, 6))
    comparison = compare_answers(program, right, right, "e", "i")
    assert comparison.difference is None
    assert comparison.values == {LABEL: 6, ANSWER: 6 * (program.classes + 3)}
    for field, place in (("label", (2,)), ("log_p", (5, 1)), ("mean", (0,)), ("variance", (3,)), ("members", (4,))):
        wrong = getattr(right, field).copy()
        wrong[place] += 1
        found = compare_answers(program, right, replace(right, **{field: wrong}), "e", "i", 10).difference
        assert found is not None
        assert (found.sample, found.member, found.op) == (10 + place[0], "all 3", field)
        assert (found.channel, found.found - found.expected) == (place[-1] if len(place) > 1 else 0, 1)
    with pytest.raises(BlrcError, match="gave mean"):
        compare_answers(program, right, replace(right, mean=right.mean[:2]), "e", "i")


def test_a_fault_in_one_member_is_named() -> None:
    program = random_program(4, "uint8", shape=(5, 5, 2), members=3)
    value = convs(program)[0].y.name
    engine = reference_engine(program)

    def run(raw: NDArray[Any], member: int = 0) -> dict[str, NDArray[Any]]:
        values = dict(engine.run(raw, member))
        if member == 2:
            values[value] = flip_one(values[value].copy(), (1, 0, 0, 0))
        return values

    tally = Tally()
    compare_inputs(program, [replace(engine, run=run)], InputSet("some", random_inputs(program, 4)), tally, silent)
    assert tally.difference is not None
    assert (tally.difference.member, tally.difference.op) == (program.members[2], convs(program)[0].name)


def test_scores_of_a_shipped_file_are_compared() -> None:
    program = random_program(4, "uint8", shape=(5, 5, 2), members=2)
    raw = random_inputs(program, 3)
    scores = np.stack([reference.scores(program, raw, member) for member in range(2)], axis=1)
    assert compare_scores(program, 1, scores[:, 1], scores, "e", "i").difference is None
    wrong = scores.copy()
    wrong[2, 1, 1] += 5
    assert compare_scores(program, 0, scores[:, 0], wrong, "e", "i").difference is None
    found = compare_scores(program, 1, scores[:, 1], wrong, "e", "i").difference
    assert found is not None
    assert (found.sample, found.member, found.channel) == (2, program.members[1], 1)
    with pytest.raises(BlrcError, match="gave scores"):
        compare_scores(program, 0, scores[:, 0], scores[:, :1], "e", "i")

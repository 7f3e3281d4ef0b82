"""Early stopping is compared as well: what `NAME_predict` gives, and when `NAME_is_final` says that it may stop."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import first
from c_exports import export
from random_programs import gated, random_inputs, random_program, top_probability

from blrc.program import head, reference
from blrc.program.head import FLOOR, Scale
from blrc.program.heads import Head, Part
from blrc.program.program import Program
from blrc.targets.c.build.host import HostBuild
from blrc.verification.engines import c_engine
from blrc.verification.oracles import stopping
from blrc.verification.run import InputSet, Tally, compare_inputs, compare_ties, not_compared

MEMBERS = 3


def one_by_one(scores: list[list[int]], scale: Scale, gate: int, confidence: int) -> tuple[int, int, int, bool]:
    """Label, members, mean and settled of one input, member by member."""
    log_p, p = [0] * len(scores[0]), [0] * len(scores[0])
    for used, member in enumerate(scores, 1):
        logs = head.log_probabilities(np.array([member]), scale)
        log_p = [a + int(b) for a, b in zip(log_p, logs[0], strict=True)]
        p = [a + int(b) for a, b in zip(p, head.probabilities(logs)[0], strict=True)]
        label = log_p.index(max(log_p))
        away = (len(scores) - used) * FLOOR  # what those who are left can take away
        settled = all(
            log_p[label] - away > log_p[c] if c < label else log_p[label] - away >= log_p[c]
            for c in range(len(p))
            if c != label
        )
        mean = p[label] // used
        if settled or (confidence and mean >= confidence) or (gate and used == 1 and mean >= gate):
            break
    return label, used, mean, settled


@pytest.mark.parametrize("gate", first(2, [0, 40_000, 65_000]))
@pytest.mark.parametrize("confidence", first(2, [0, 58_982, 1, 30_000, 65_536]))
def test_the_reference_stops_where_one_input_alone_does(gate: int, confidence: int) -> None:
    rng = np.random.default_rng(gate + confidence)
    # From undecided to certain, so that some stop after each number of members.
    scores = [rng.integers(-1, 2, (300, 4)) * rng.integers(0, 40, (300, 1)) for _ in range(MEMBERS)]
    scale = head.scale_of(0.5)
    found = stopping.predicted(scores, [Part(slice(0, scores[0].shape[1]), scale)], gate, confidence)
    used = set()
    for i in range(300):
        expected = one_by_one([member[i].tolist() for member in scores], scale, gate, confidence)
        assert (found.label[i], found.members[i], found.mean[i], bool(found.settled[i])) == expected
        used.add(expected[1])
    assert len(used) >= (1 if confidence == 1 else 2)


@pytest.fixture(scope="module")
def program() -> Program:
    whole = random_program(5, members=MEMBERS)
    return gated(whole, int(np.sort(top_probability(whole, random_inputs(whole, 40)))[-4]))


@pytest.fixture(scope="module")
def folder(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(program, tmp_path_factory.mktemp("net"), random_inputs(program, 3))


def compared(program: Program, folder: Path) -> Tally:
    tally = Tally()
    with HostBuild(folder, "net") as built:
        engine = c_engine(built, "C", None)
        compare_inputs(program, [engine], InputSet("some", random_inputs(program, 40)), tally, lambda *what: None)
        compare_ties(program, [engine], tally)
        assert tally.difference is not None or not_compared(program, [engine], tally) == []
    return tally


def test_c_stops_as_it_should(program: Program, folder: Path) -> None:
    tally = compared(program, folder)
    assert tally.difference is None
    asked = stopping.confidences(program, [reference.scores(program, random_inputs(program, 40))] * MEMBERS)
    per_input = 3 * program.classes + 5
    assert len(asked) == 5 and asked[0] == 0
    assert tally.values["C"]["predict"] == len(asked) * 40 * per_input + len(stopping.ties(program)[1])


MUTATIONS = {
    "the certainty in predict": ("net.c", "        net_result(ensemble, answer);\n", "answer->mean += 77;", "mean"),
    "the variance in predict": ("net.c", "        net_result(ensemble, answer);\n", "++answer->variance;", "variance"),
    "above instead of at least": ("net.c", "answer->mean >= confidence", "answer->mean > confidence", "label"),
    "ties of settled": ("net_blrc.c", "(c < label ? 1u : 0u)", "(c > label ? 1u : 0u)", "settled"),
    "no ties in settled": ("net_blrc.c", "(c < label ? 1u : 0u)", "0u", "settled"),
}


@pytest.mark.parametrize("name", first(1, list(MUTATIONS)))
def test_a_fault_in_stopping_is_seen(program: Program, folder: Path, tmp_path: Path, name: str) -> None:
    part, old, new, field = MUTATIONS[name]
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    file = broken / part
    text = file.read_text(encoding="ascii")
    assert text.count(old) == 1
    file.write_text(text.replace(old, old + new if old.endswith("\n") else new), encoding="ascii")
    difference = compared(program, broken).difference
    assert difference is not None and repr(field) in str(difference), difference


def some_ties(members: int) -> Iterator[Program]:
    for seed in (1, 2):
        yield random_program(seed, members=members)


@pytest.mark.parametrize("members", [1, 2, 5])
def test_ties_are_both_settled_and_not(members: int) -> None:
    for program in some_ties(members):
        log_p, used = stopping.ties(program)
        settled = [
            one_by_one_settled(row, members - int(count)) for row, count in zip(log_p.tolist(), used, strict=True)
        ]
        assert stopping.compare_ties(program, np.array(settled), "x").difference is None
        assert stopping.compare_ties(program, ~np.array(settled), "x").difference is not None
        assert members == 1 or 0.2 < np.mean(settled) < 0.9


@pytest.mark.nightly
def test_ties_of_many_members_fit_the_integers_of_c() -> None:
    """Sums of the heads that are not tried went below int32 from 683 members on."""
    program = random_program(1, members=1)
    heads = tuple(Head(name, classes, program.score_scale) for name, classes in (("a", 2), ("b", program.classes - 2)))
    many = replace(program, members=program.members * 1200, heads=heads)
    log_p, used = stopping.ties(many)
    assert log_p.min() >= -(2**31)
    settled = [
        all(one_by_one_settled(row[part.place].tolist(), 1200 - int(count)) for part in many.parts)
        for row, count in zip(log_p[-2000:], used[-2000:], strict=True)
    ]
    assert 0.2 < np.mean(settled) < 0.9


def one_by_one_settled(log_p: list[int], remaining: int) -> bool:
    label = log_p.index(max(log_p))
    after = [value + (0 if c == label else remaining * FLOOR) for c, value in enumerate(log_p)]
    return after.index(max(after)) == label

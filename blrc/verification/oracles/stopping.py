"""Compute what an ensemble that stops early must answer, as `blrc.program.head` defines it, member by member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from blrc.program.head import FLOOR, ONE, Answer, Sums, every
from blrc.program.heads import Parts, Tallies
from blrc.program.program import Program
from blrc.targets.c.build.answers import Answers
from blrc.verification.compare import Comparison, Difference

STOPPING = "predict"
"""The name of what is compared here, in reports."""

FIELDS = ("label", "log_p", "p", "p_squared", "mean", "variance", "members", "settled")


def predicted(scores: Sequence[NDArray[np.int32]], parts: Parts, gate: int, confidence: int) -> Answers:
    """Return what ``NAME_predict`` must give, from the scores ``(N, classes)`` of each member.

    Args:
        parts: where the scores of each head lie (`Program.parts`).
        gate: Q16; 0 stands for no gate.
        confidence: Q16; 0 turns stopping at a confidence off.
    """
    sums = Tallies.start(len(scores[0]), parts)
    running = np.ones(len(scores[0]), np.bool_)
    result: Answers | None = None
    for index, member in enumerate(scores, 1):
        sums = sums.add(member)
        answer, settled = sums.answer(), sums.settled(len(scores) - index)
        now = _all(sums, answer, settled)
        result = now if result is None else _where(running, now, result)
        stops = settled | ((confidence != 0) & every(answer.mean >= confidence))
        if index == 1 and gate:
            stops |= every(answer.mean >= gate)
        running &= ~stops
    assert result is not None
    return result


def of_values(program: Program, scores: Sequence[NDArray[np.int32]]) -> Answers:
    """Return what ``NAME_predict`` of values must give: the answer of all members, whatever they say."""
    answer = program.together(scores)
    squares = np.sum([each.astype(np.int64) ** 2 for each in scores], axis=0)
    every_one = np.ones(len(scores[0]), np.bool_)
    return Answers(
        answer.label, answer.log_p, answer.label, squares, answer.mean, answer.variance, answer.members, every_one
    )


def confidences(program: Program, scores: Sequence[NDArray[np.int32]]) -> tuple[int, ...]:
    """Return the confidences to ask for, in Q16: off, 0.9, 0.99, one that some input has exactly, and the next above.

    The exact one is taken from an input that would go on otherwise, if there is one, because only there does it change
    anything. A single network always stops after its only member, and one of values asks them all, so only "off" is
    asked for.
    """
    if len(scores) == 1 or program.values:
        return (0,)
    first = Tallies.start(len(scores[0]), program.parts).add(scores[0])
    mean = first.answer().mean
    mean = mean if mean.ndim == 1 else mean.min(axis=1)  # what decides is the head that is least sure
    goes_on = ~first.settled(len(scores) - 1) & ((program.gate == 0) | (mean < program.gate))
    mean = np.sort(mean[goes_on] if goes_on.any() else mean)
    exact = int(mean[len(mean) // 2])
    return tuple(dict.fromkeys((0, round(0.9 * ONE), round(0.99 * ONE), exact, exact + 1)))


def ties(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sums of log p ``(N, classes)`` and numbers of members ``(N,)`` whose label is just settled, or just not.

    In them the label leads an earlier and a later class by what the remaining members can take away, by one less and by
    one and two more. Each head is tried so, while the others are settled.
    """
    total = len(program.members)
    rows, members = [], []
    settled = np.full(program.classes, -total * FLOOR, np.int64)  # more than other members can take, and in int32
    for part in program.parts:
        settled[part.place.start] = 0
    for used in range(1, total + 1):
        for part in program.parts:
            start, classes = part.place.start, part.place.stop - part.place.start
            for label in range(min(classes, 3)):
                for other in range(min(classes, 4)):
                    for beside in (-1, 0, 1, 2):
                        lead = (total - used) * FLOOR + beside
                        if other != label and lead >= 0:
                            row = settled.copy()
                            row[part.place] = -used * FLOOR
                            row[start + label] = 0
                            row[start + other] = -lead
                            rows.append(row)
                            members.append(used)
    return np.array(rows, np.int64).reshape(-1, program.classes), np.array(members, np.int64)


def compare_ties(program: Program, found: NDArray[np.bool_], engine: str) -> Comparison:
    """Compare what the C's ``NAME_is_final`` says of all `ties` with `head.Sums.settled` of every head."""
    log_p, members = ties(program)
    expected = np.array(
        [
            all(
                Sums(row[None], row[None], row[None], int(used)).settled(len(program.members) - int(used))[0]
                for row in (whole[part.place] for part in program.parts)
            )
            for whole, used in zip(log_p, members, strict=True)
        ],
        np.bool_,
    )
    wrong = np.flatnonzero(expected != found)
    if not len(wrong):
        return Comparison({STOPPING: len(members)}, None)
    i = int(wrong[0])
    where = (engine, "sums where the label is just settled", i, f"after {members[i]}", "settled", (0, 0), 0)
    return Comparison({STOPPING: len(members)}, Difference(*where, int(expected[i]), int(found[i])))


def compare_stopping(expected: Answers, found: Answers, what: str, engine: str, inputs: str, first: int) -> Comparison:
    """Compare every field of every answer; `what` says what was asked, for messages."""
    count = 0
    for field in FIELDS:
        ours, theirs = getattr(expected, field), getattr(found, field)
        count += ours.size
        if not np.array_equal(ours, theirs):
            at = tuple(int(i[0]) for i in np.nonzero(ours != theirs))
            channel = at[1] if len(at) > 1 else 0
            where = (engine, inputs, first + at[0], what, field, (0, 0), channel)
            return Comparison({STOPPING: count}, Difference(*where, int(ours[at]), int(theirs[at])))
    return Comparison({STOPPING: count}, None)


def _all(sums: Tallies, answer: Answer, settled: NDArray[np.bool_]) -> Answers:
    log_p, p, p_squared = map(sums.side_by_side, ("log_p", "p", "p_squared"))
    return Answers(answer.label, log_p, p, p_squared, answer.mean, answer.variance, answer.members, settled)


def _where(running: NDArray[np.bool_], now: Answers, before: Answers) -> Answers:
    """Return `now` for the inputs that go on, and `before` for the others."""
    chosen = {}
    for field in FIELDS:
        new, old = getattr(now, field), getattr(before, field)
        chosen[field] = np.where(running[:, None] if new.ndim > 1 else running, new, old)
    return replace(now, **chosen)

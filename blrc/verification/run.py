"""Run every engine on every set of inputs, and compare all values with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program import heads, reference
from blrc.program.head import Answer
from blrc.program.program import Conv, Encode, Op, Program
from blrc.verification.compare import (
    ANSWER,
    LABEL,
    Comparison,
    Difference,
    compare,
    compare_answers,
    compare_scores,
    name_difference,
)
from blrc.verification.engines import Engine
from blrc.verification.inputs.edges import edge_maps
from blrc.verification.inputs.stimuli import random_inputs
from blrc.verification.oracles import stopping
from blrc.workers import thread_pool

Progress = Callable[[str, int, int], None]
"""Called with what is being compared, how much of it is done, and how much there is."""

CHUNK_BYTES = 256 * 2**20
AT_ONCE = 2**25  # values of the largest map of an op, of all inputs on which it is compared alone at a time


@dataclass(frozen=True, eq=False)
class InputSet:
    """Hold inputs under one name: ``raw`` in device layout, and ``labels`` if they are known."""

    name: str
    raw: NDArray[Any]
    labels: NDArray[Any] | None = None


@dataclass
class Tally:
    """Hold what has been compared so far."""

    values: dict[str, dict[str, int]] = field(default_factory=dict)
    inputs: dict[str, dict[str, int]] = field(default_factory=dict)
    edges: dict[str, tuple[int, int]] = field(default_factory=dict)
    correct: dict[str, int] = field(default_factory=dict)
    labelled: int = 0
    difference: Difference | None = None

    def add(self, engine: str, comparison: Comparison) -> None:
        counts = self.values.setdefault(engine, {})
        for op, count in comparison.values.items():
            counts[op] = counts.get(op, 0) + count
        self.difference = self.difference or comparison.difference


def compare_inputs(
    program: Program, engines: Sequence[Engine], inputs: InputSet, tally: Tally, progress: Progress
) -> None:
    """Compare every engine with the reference on whole inputs, chunk by chunk, and stop at the first difference."""
    values = prod(program.input.shape) + sum(op.largest_map for op in program.ops)
    step = max(1, min(2048, CHUNK_BYTES // (16 * values)))
    with thread_pool() as pool:
        for start in range(0, len(inputs.raw), step):
            raw = inputs.raw[start : start + step]
            at_work = [(engine, count) for engine in engines if (count := _share(engine, start, len(raw)))]
            layered = [(engine, count) for engine, count in at_work if engine.layers]
            scores = []
            for member in range(len(program.members)):
                progress(inputs.name, start + len(raw) * member // len(program.members), len(inputs.raw))
                running = [pool.submit(engine.run, raw[:count], member) for engine, count in layered]
                expected = reference.run(program, raw, member)
                scores.append(expected[program.output.name][:, 0, 0, :])
                for (engine, count), future in zip(layered, running, strict=True):
                    first = {name: value[:count] for name, value in expected.items()}
                    found = future.result()
                    tally.add(engine.name, compare(program, member, first, found, engine.name, inputs.name, start))
            together = program.together(scores)
            answering = [pool.submit(engine.answer, raw[:count]) for engine, count in at_work]
            for (engine, count), said in zip(at_work, answering, strict=True):
                answer, shipped = said.result()
                where = (engine.name, inputs.name, start)
                tally.add(engine.name, compare_answers(program, _first(together, count), answer, *where))
                if shipped is not None:
                    for member, right_scores in enumerate(scores):
                        tally.add(engine.name, compare_scores(program, member, right_scores[:count], shipped, *where))
                _compare_stopping(program, engine, raw[:count], [each[:count] for each in scores], tally, where)
                counts = tally.inputs.setdefault(inputs.name, {})
                counts[engine.name] = counts.get(engine.name, 0) + count
                if inputs.labels is not None:
                    right = int((heads.of_first(answer.label) == inputs.labels[start : start + count]).sum())
                    tally.correct[engine.name] = tally.correct.get(engine.name, 0) + right
            if inputs.labels is not None:
                tally.labelled += len(raw)
            if tally.difference is not None:
                break
    progress(inputs.name, len(inputs.raw), len(inputs.raw))


def _compare_stopping(
    program: Program,
    engine: Engine,
    raw: NDArray[Any],
    scores: Sequence[NDArray[np.int32]],
    tally: Tally,
    where: tuple[str, str, int],
) -> None:
    """Compare what an engine that may stop early answers, for each of some confidences."""
    if engine.predict is None or not len(raw):
        return
    for confidence in stopping.confidences(program, scores):
        expected = (
            stopping.of_values(program, scores)
            if program.values
            else stopping.predicted(scores, program.parts, program.gate, confidence)
        )
        what = f"predict with confidence {confidence}"
        found = engine.predict(raw, confidence)
        tally.add(engine.name, stopping.compare_stopping(expected, found, what, *where))


def compare_ties(program: Program, engines: Sequence[Engine], tally: Tally) -> None:
    """Check that engines know exactly when no remaining member can change the label."""
    if program.values:  # no label could be settled
        return
    log_p, members = stopping.ties(program)
    for engine in engines:
        if engine.settled is not None:
            tally.add(engine.name, stopping.compare_ties(program, engine.settled(log_p, members), engine.name))


def not_compared(program: Program, engines: Sequence[Engine], tally: Tally) -> list[str]:
    """Return a sentence for each engine of which some layer was never compared: "equal" must not mean "not looked at".

    An engine that looks codes up where it reads them stores them nowhere. The layer that reads them stands for them.
    """
    problems = []
    for engine in engines:
        counts = tally.values.get(engine.name, {})
        inner = [op.name for op in program.ops if not (engine.fuses_encode and isinstance(op, Encode))]
        labels = () if program.values else (LABEL,)
        wanted = (*inner, *labels, ANSWER) if engine.layers else (ANSWER,)
        wanted += () if engine.predict is None else (stopping.STOPPING,)
        missing = [name for name in wanted if not counts.get(name)]
        if missing:
            problems.append(f"{engine.name}: nothing of {', '.join(map(repr, missing))} was compared")
    return problems


def _share(engine: Engine, start: int, count: int) -> int:
    """Return how many of `count` inputs, counted from `start` on, the engine is given."""
    return count if engine.limit is None else max(0, min(count, engine.limit - start))


def _first(answer: Answer, count: int) -> Answer:
    return Answer(*(getattr(answer, field.name)[:count] for field in fields(Answer)))


def compare_ops(program: Program, engines: Sequence[Engine], seed: int, tally: Tally, progress: Progress) -> None:
    """Compare each op of each member alone, on maps whose sums lie at, just below and just above every threshold.

    The comparison stops at the first difference. A table that members share is compared once. Engines that only answer
    have no ops.
    """
    engines = [engine for engine in engines if engine.layers]
    if not engines:
        return
    done, total = 0, len(program.ops) * len(program.members)
    seen: set[tuple[object, ...]] = set()
    for member in range(len(program.members)):
        for op in program.ops:
            progress("each op alone", done, total)
            done += 1
            tables = (op.name, *(program.constants[name].of_member[member] for name in op.constants))
            if tables in seen:
                continue
            seen.add(tables)
            step = _at_once(op)
            for what, x in _op_inputs(program, op, member, seed, tally):
                for i in range(0, len(x), step):
                    if not _compare_op(program, engines, op, member, what, x[i : i + step], tally):
                        return
    progress("each op alone", total, total)


def _compare_op(
    program: Program, engines: Sequence[Engine], op: Op, member: int, what: str, x: NDArray[Any], tally: Tally
) -> bool:
    """Compare one op on one set of inputs, and return whether all engines were equal."""
    inner = x
    source = next((o for o in program.ops if isinstance(o, Encode) and o.y == op.x), None)
    if isinstance(op, Conv) and source is not None:
        inner = source.run(program, x, member)
    expected = _apply(program, op, inner, member)
    for engine in engines:
        found = engine.run_op(op, x if engine.fuses_encode else inner, member)
        if found is None:
            continue
        if expected.shape != found.shape or expected.dtype != found.dtype:
            raise BlrcError(
                f"{engine.name}: op {op.name!r} alone gave {found.dtype} {found.shape}, "
                f"expected {expected.dtype} {expected.shape}"
            )
        difference = None
        if not np.array_equal(expected, found):
            difference = name_difference(program, op, member, inner, expected, found, engine.name, what)
        tally.add(engine.name, Comparison({op.name: expected.size}, difference))
        if difference is not None:
            return False
    return True


def _apply(program: Program, op: Op, x: NDArray[Any], member: int) -> NDArray[Any]:
    step = min(reference.BATCH, _at_once(op))
    return np.concatenate([op.run(program, x[i : i + step], member) for i in range(0, len(x), step)])


def _at_once(op: Op) -> int:
    """Return how many inputs of one op are compared at a time: few if its maps are large."""
    return max(1, AT_ONCE // op.largest_map)


def _op_inputs(program: Program, op: Op, member: int, seed: int, tally: Tally) -> Iterator[tuple[str, NDArray[Any]]]:
    if isinstance(op, Conv):
        for edges in edge_maps(program, op, member, seed):
            reached, wanted = tally.edges.get(op.name, (0, 0))
            tally.edges[op.name] = (reached + edges.reached, wanted + edges.wanted)
            if len(edges.maps):
                yield "its threshold edges", edges.maps
        return
    yield from op.extremes(program, member)
    if op.random_inputs:
        yield "random bits", random_inputs(op.x, min(op.random_inputs, 2 * _at_once(op)), seed)

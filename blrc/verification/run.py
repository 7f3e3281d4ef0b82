"""`verify_export`: run every engine on every set of inputs and compare all values with the reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import reference
from blrc.errors import BlrcError
from blrc.program import Conv, Encode, Op, Pool, Program, Scores
from blrc.verification.compare import Comparison, Difference, compare, name_difference
from blrc.verification.edges import edge_maps
from blrc.verification.engines import Engine
from blrc.verification.stimuli import random_inputs

Progress = Callable[[str, int, int], None]
"""Called with what is being compared, how much of it is done, and how much there is."""

CHUNK_BYTES = 256 * 2**20


@dataclass(frozen=True, eq=False)
class InputSet:
    """Inputs under one name: ``raw`` in device layout; ``labels`` where they are known."""

    name: str
    raw: NDArray[Any]
    labels: NDArray[Any] | None = None


@dataclass
class Tally:
    """What has been compared so far."""

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
    """Every engine and the reference on whole inputs, chunk by chunk; stops at the first difference."""
    values = sum(int(np.prod(op.y.shape)) for op in program.ops)
    step = max(1, min(2048, CHUNK_BYTES // (16 * values)))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for start in range(0, len(inputs.raw), step):
            progress(inputs.name, start, len(inputs.raw))
            raw = inputs.raw[start : start + step]
            expected = pool.submit(reference.run, program, raw)
            found = []
            for engine in engines:
                count = len(raw) if engine.limit is None else max(0, min(len(raw), engine.limit - start))
                found.append((engine, count, pool.submit(engine.run, raw[:count]) if count else None))
            for engine, count, future in found:
                if future is None:
                    continue
                answer = future.result()
                first = {name: value[:count] for name, value in expected.result().items()}
                tally.add(engine.name, compare(program, 0, first, answer, engine.name, inputs.name, start))
                counts = tally.inputs.setdefault(inputs.name, {})
                counts[engine.name] = counts.get(engine.name, 0) + count
                if inputs.labels is not None:
                    right = int((answer["label"] == inputs.labels[start : start + count]).sum())
                    tally.correct[engine.name] = tally.correct.get(engine.name, 0) + right
            if inputs.labels is not None:
                tally.labelled += len(raw)
            if tally.difference is not None:
                break
    progress(inputs.name, len(inputs.raw), len(inputs.raw))


def compare_ops(program: Program, engines: Sequence[Engine], seed: int, tally: Tally, progress: Progress) -> None:
    """Each op alone, on maps whose sums lie at, just below and just above every threshold; stops at a difference."""
    for done, op in enumerate(program.ops):
        progress("each op alone", done, len(program.ops))
        for what, x in _op_inputs(program, op, seed, tally):
            inner = x
            source = next((o for o in program.ops if isinstance(o, Encode) and o.y == op.x), None)
            if isinstance(op, Conv) and source is not None:
                inner = reference.apply(program, source, x)
            expected = _apply(program, op, inner)
            for engine in engines:
                given = x if engine.fuses_encode else inner
                found = engine.run_op(op, given)
                if found is None:
                    continue
                if expected.shape != found.shape or expected.dtype != found.dtype:
                    raise BlrcError(
                        f"{engine.name}: op {op.name!r} alone gave {found.dtype} {found.shape}, "
                        f"expected {expected.dtype} {expected.shape}"
                    )
                difference = None
                if not np.array_equal(expected, found):
                    difference = name_difference(program, op, 0, inner, expected, found, engine.name, what)
                tally.add(engine.name, Comparison({op.name: expected.size}, difference))
                if difference is not None:
                    return
    progress("each op alone", len(program.ops), len(program.ops))


def _apply(program: Program, op: Op, x: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate(
        [reference.apply(program, op, x[i : i + reference.BATCH]) for i in range(0, len(x), reference.BATCH)]
    )


def _op_inputs(program: Program, op: Op, seed: int, tally: Tally) -> Iterator[tuple[str, NDArray[Any]]]:
    if isinstance(op, Conv):
        edges = edge_maps(program, op, seed=seed)
        tally.edges[op.name] = (edges.reached, edges.wanted)
        if len(edges.maps):
            yield "its threshold edges", edges.maps
    elif isinstance(op, Encode):
        yield (
            "every raw value",
            np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None, None, None], (256, *op.x.shape)).copy(),
        )
    elif isinstance(op, Pool):
        yield "random bits", random_inputs(op.x, 64, seed)
    elif isinstance(op, Scores):
        # The largest and smallest score of each class, and random bits.
        weights = program.constant(op.weights)
        yield "its extreme scores", np.concatenate([weights > 0, weights <= 0])
        yield "random bits", random_inputs(op.x, 256, seed)

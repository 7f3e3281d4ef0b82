"""Compare the reference with an engine, value by value, and name the first difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program import heads
from blrc.program.head import Answer
from blrc.program.program import Conv, Op, Program

LABEL = "label"
ANSWER = "answer"


@dataclass(frozen=True)
class Difference:
    """Describe the first value that differs: in order of ops, then samples, then positions and channels."""

    engine: str
    inputs: str
    sample: int
    member: str
    op: str
    position: tuple[int, int]
    channel: int
    expected: int
    found: int
    z: int | None = None
    threshold: int | None = None

    def __str__(self) -> str:
        decision = "" if self.z is None else f", z {self.z}, threshold {self.threshold}"
        return (
            f"{self.engine} differs on {self.inputs}, sample {self.sample}: member {self.member!r}, op {self.op!r}, "
            f"position {self.position}, channel {self.channel}{decision}: expected {self.expected}, found {self.found}"
        )


@dataclass(frozen=True)
class Comparison:
    """Hold the number of values that were compared for each op by name, and the first difference."""

    values: Mapping[str, int]
    difference: Difference | None


def compare(
    program: Program,
    member: int,
    expected: Mapping[str, NDArray[Any]],
    found: Mapping[str, NDArray[Any]],
    engine: str,
    inputs: str,
    first_sample: int = 0,
) -> Comparison:
    """Compare every value of one member that the engine gives, op by op, and its labels, those of the first head.

    Args:
        expected: the reference's values by name, ``(N, H, W, C)``.
        found: the engine's values by name; those that it does not have (fused ops) are absent, and its labels are under
            ``label``, if it gives any.

    Raises:
        BlrcError: the engine gives no scores, or values of another type or shape.
    """
    counts: dict[str, int] = {}
    if program.output.name not in found:
        raise BlrcError(f"{engine}: gave no scores")
    samples = len(expected[program.output.name])
    if LABEL in found and found[LABEL].shape != (samples,):
        raise BlrcError(f"{engine}: gave labels {found[LABEL].shape}, expected {(samples,)}")
    for op in program.ops:
        if op.y.name not in found:
            continue
        ours, theirs = expected[op.y.name], found[op.y.name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise BlrcError(
                f"{engine}: op {op.name!r} gave {theirs.dtype} {theirs.shape}, expected {ours.dtype} {ours.shape}"
            )
        counts[op.name] = ours.size
        if not np.array_equal(ours, theirs):
            return Comparison(
                counts,
                name_difference(program, op, member, expected[op.x.name], ours, theirs, engine, inputs, first_sample),
            )
    if LABEL not in found:
        return Comparison(counts, None)
    labels = heads.of_first(heads.labels(expected[program.output.name][:, 0, 0, :], program.parts))
    counts[LABEL] = len(labels)
    wrong = np.flatnonzero(labels != found[LABEL])
    if len(wrong):
        i = int(wrong[0])
        return Comparison(
            counts,
            Difference(
                engine,
                inputs,
                first_sample + i,
                program.members[member],
                LABEL,
                (0, 0),
                0,
                int(labels[i]),
                int(found[LABEL][i]),
            ),
        )
    return Comparison(counts, None)


def compare_answers(
    program: Program, expected: Answer, found: Answer, engine: str, inputs: str, first_sample: int = 0
) -> Comparison:
    """Compare the answer of all members together: label, sums of log-probabilities, mean, variance, members used.

    Raises:
        BlrcError: the engine gives an answer of another shape.
    """
    counts = {LABEL: expected.label.size, ANSWER: 0}
    for field in (LABEL, "log_p", "mean", "variance", "members"):
        ours, theirs = getattr(expected, field), getattr(found, field)
        if ours.shape != theirs.shape:
            raise BlrcError(f"{engine}: gave {field} {theirs.shape}, expected {ours.shape}")
        counts[ANSWER] += 0 if field == LABEL else ours.size
        if not np.array_equal(ours, theirs):
            at = tuple(int(i[0]) for i in np.nonzero(ours != theirs))
            channel = at[1] if len(at) > 1 else 0
            used = int(expected.members[at[0]])
            members = f"all {used}" if used > 1 else program.members[0]
            return Comparison(
                counts,
                Difference(
                    engine,
                    inputs,
                    first_sample + at[0],
                    members,
                    field,
                    (0, 0),
                    channel,
                    int(ours[at]),
                    int(theirs[at]),
                ),
            )
    return Comparison(counts, None)


def compare_scores(
    program: Program,
    member: int,
    expected: NDArray[np.int32],
    found: NDArray[np.int32],
    engine: str,
    inputs: str,
    first_sample: int = 0,
) -> Comparison:
    """Compare one member's scores ``(N, classes)`` with its part of ``(N, members, classes)``."""
    op = program.ops[-1]
    if found.shape != (len(expected), len(program.members), program.classes):
        raise BlrcError(f"{engine}: gave scores {found.shape}")
    theirs = found[:, member]
    difference = None
    if not np.array_equal(expected, theirs):
        ours_map, theirs_map = expected[:, None, None, :], theirs[:, None, None, :]
        difference = name_difference(program, op, member, ours_map, ours_map, theirs_map, engine, inputs, first_sample)
    return Comparison({op.name: expected.size}, difference)


def name_difference(
    program: Program,
    op: Op,
    member: int,
    x: NDArray[Any],
    expected: NDArray[Any],
    found: NDArray[Any],
    engine: str,
    inputs: str,
    first_sample: int = 0,
) -> Difference:
    """Name the first element in which two outputs of one op differ; `x` is the op's input."""
    sample, y, column, channel = (int(i[0]) for i in np.nonzero(expected != found))
    z = threshold = None
    if isinstance(op, Conv):
        z = decisive_sum(program, op, member, x[sample : sample + 1], (y, column), channel)
        row = np.atleast_1d(program.constant(op.thresholds, member)[channel])
        # Of codes, the first threshold that one of the two takes for reached and the other does not.
        both = expected[sample, y, column, channel], found[sample, y, column, channel]
        threshold = int(row[min(map(int, both)) if op.y.is_codes else 0])
    return Difference(
        engine,
        inputs,
        first_sample + sample,
        program.members[member],
        op.name,
        (y, column),
        channel,
        int(expected[sample, y, column, channel]),
        int(found[sample, y, column, channel]),
        z,
        threshold,
    )


def decisive_sum(
    program: Program, op: Conv, member: int, x: NDArray[Any], position: tuple[int, int], channel: int
) -> int:
    """Return the sum z behind one output of one sample, or the largest z in the pooling window if the op pools."""
    z = op.preactivation(program, x, member)[0, :, :, channel]
    if op.pool is None:
        return int(z[position])
    rows, columns = (
        [
            i
            for k in range(op.pool.kernel[axis])
            if 0
            <= (i := position[axis] * op.pool.stride[axis] - op.pool.padding[axis] + k * op.pool.dilation[axis])
            < z.shape[axis]
        ]
        for axis in (0, 1)
    )
    return int(z[np.ix_(rows, columns)].max())

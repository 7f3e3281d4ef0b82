"""Compute what a program means, in NumPy: the law for every target, written to be read, not to be fast.

What a single op means its record says (`blrc.program.ops`).

Arrays carry a batch in front of the program's H, W, C. Bits are booleans here (True = +1); packing is up to targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program import head
from blrc.program.ops.conv import BLOCK
from blrc.program.program import Program

BATCH = 128


def run(program: Program, raw: NDArray[Any], member: int = 0) -> dict[str, NDArray[Any]]:
    """Return all values of one member, by name.

    Args:
        raw: input in device layout, ``(N, H, W, C)``: uint8, int8, or for a bits input booleans or 0/1.

    Returns:
        for each value (the input included) an array ``(N, H, W, C)``: uint8, int8, int32, or bool for bits.
    """
    found: dict[str, NDArray[Any]] = {}
    step = _batch(program)
    for i in range(0, max(len(raw), 1), step):
        for name, value in trace(program, raw[i : i + step], member):
            if len(value) == len(raw):  # one batch is all of them
                found[name] = value
                continue
            if i == 0:
                found[name] = np.empty((len(raw), *value.shape[1:]), value.dtype)
            found[name][i : i + step] = value
    return found


def scores(program: Program, raw: NDArray[Any], member: int = 0) -> NDArray[np.int32]:
    """Return the scores of one member, int32 ``(N, classes)``."""
    step = _batch(program)
    batches = [_last(program, raw[i : i + step], member) for i in range(0, max(len(raw), 1), step)]
    found: NDArray[np.int32] = np.concatenate(batches)[:, 0, 0, :]
    return found


def batches(program: Program, raw: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield parts of the inputs, each with its place, small enough that few values are computed at a time."""
    step = _batch(program)
    for i in range(0, len(raw), step):
        yield slice(i, i + step), raw[i : i + step]


def answer(program: Program, raw: NDArray[Any], members: int | None = None) -> head.Answer:
    """Return what the program says: all members together, or the first alone where the gate lets it (`Program.gate`).

    Args:
        members: ask only this many members from the first on, whatever the gate says.
    """
    count, gate = (len(program.members), program.gate) if members is None else (members, 0)
    return replace(program, gate=gate).together([scores(program, raw, member) for member in range(count)])


def labels(class_scores: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the position of the first maximum of every row."""
    return np.asarray(np.argmax(class_scores, axis=1), dtype=np.int64)


def _batch(program: Program) -> int:
    """Return how many images to compute at a time; they are fewer than `BATCH` where maps are large."""
    return max(1, min(BATCH, BLOCK // max(op.largest_map for op in program.ops)))


def _last(program: Program, raw: NDArray[Any], member: int) -> NDArray[Any]:
    for _, value in trace(program, raw, member):  # noqa: B007
        pass
    return value


def trace(program: Program, raw: NDArray[Any], member: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the values of one batch by name, in order; each is forgotten here as soon as no op reads it any more."""
    values = {program.input.name: raw.astype(bool) if program.input.dtype == "bits" else raw}
    yield program.input.name, values[program.input.name]
    last = {op.x.name: op for op in program.ops}
    for op in program.ops:
        y = op.run(program, values[op.x.name], member)
        if last[op.x.name] is op:
            del values[op.x.name]
        if op.y.name in last:
            values[op.y.name] = y
        yield op.y.name, y

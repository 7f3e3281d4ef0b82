"""What a program computes, worked out a second time: shares no code with `blrc.program.reference`, nor with what lays
out C.

It reads the program's own tables and follows the definitions: a tap outside the map counts nothing, a pool takes what
lies inside, a bit is z >= threshold, and a code counts the thresholds that z reaches. Every position's taps are looked
up one by one by their coordinates; nothing is padded, unrolled or counted in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import BinaryScores, Conv, Encode, Op, Pool, Program, Scores, SumPool, Window

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evaluated:
    """All values of some samples, by name, and before pooling and thresholds what was compared, by the op's name."""

    values: dict[str, NDArray[Any]]
    sums: dict[str, Ints]


def evaluate(program: Program, raw: NDArray[Any], member: int) -> Evaluated:
    """Every value of raw samples ``(N, H, W, C)`` in the member of that number."""
    values: dict[str, NDArray[Any]] = {program.input.name: raw.astype(bool) if program.input.dtype == "bits" else raw}
    sums: dict[str, Ints] = {}
    for op in program.ops:
        x = values[op.x.name]
        if isinstance(op, Encode):
            values[op.y.name] = _encoded(_table(program, op.table, member), x)
        elif isinstance(op, Conv):
            table = _table(program, op.weights, member)
            packed = None if op.whole else _weights(table, op.x.shape[2] // op.groups, op.ternary)
            weights = table.astype(np.int64) if packed is None else packed
            sums[op.name] = convolved(op, weights, x)
            limits = _table(program, op.thresholds, member).astype(np.int64)
            if limits.ndim == 1:
                found: NDArray[Any] = sums[op.name] >= limits
            else:
                found = np.zeros(sums[op.name].shape, np.uint8)
                for limit in limits.T:
                    found += sums[op.name] >= limit
            values[op.y.name] = found if op.pool is None else pooled(op.pool, found)
        elif isinstance(op, Binarize):
            limits = _table(program, op.thresholds, member)
            bits = [x[..., c] >= int(limits[c % len(limits)]) for c in range(x.shape[3])]
            values[op.y.name] = np.stack(bits, axis=3).reshape(len(x), *op.y.shape)
        elif isinstance(op, Flatten):
            pixels = [pixel for row in x.transpose(1, 2, 0, 3) for pixel in row]
            values[op.y.name] = np.concatenate(pixels, axis=1)[:, None, None]
        elif isinstance(op, Pool):
            values[op.y.name] = pooled(op.window, x)
        elif isinstance(op, SumPool):
            values[op.y.name] = added(op.window, x)
        else:
            values[op.y.name] = sums[op.name] = scored(program, op, member, x)
    return Evaluated(values, sums)


def labels(scores: NDArray[Any]) -> list[int]:
    """The first of the largest scores of each sample."""
    return [max(range(len(row)), key=lambda c: (row[c], -c)) for row in scores.reshape(len(scores), -1).tolist()]


def _table(program: Program, name: str, member: int) -> NDArray[Any]:
    constant = program.constants[name]
    return constant.tables[constant.of_member[member]]


def _signs(packed: NDArray[np.uint32], channels: int) -> Ints:
    """+-1 of the lowest bits of each last row of words: bit 0 of word 0 is channel 0."""
    octets = packed.astype("<u4").view(np.uint8).reshape(*packed.shape[:-1], -1)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")[..., :channels]
    return 2 * bits.astype(np.int64) - 1


def _weights(packed: NDArray[np.uint32], channels: int, ternary: bool) -> Ints:
    """+-1 or, of two rows of words, +1 and -1 by the first where a bit of the second is set, and else 0."""
    if not ternary:
        return _signs(packed, channels)
    return _signs(packed[..., 0, :], channels) * (_signs(packed[..., 1, :], channels) + 1) // 2


def _encoded(table: NDArray[np.int8], x: NDArray[np.uint8]) -> NDArray[np.int8]:
    found = np.empty(x.shape, np.int8)
    for c in range(x.shape[3]):
        found[..., c] = np.take(table[c if len(table) > 1 else 0], x[..., c])
    return found


def taps_of(window: Window, axis: int, outputs: int, size: int) -> list[list[tuple[int, int]]]:
    """For every output along an axis: which taps lie inside, and where."""
    found = []
    for at in range(outputs):
        first = at * window.stride[axis] - window.padding[axis]
        places = [(tap, first + tap * window.dilation[axis]) for tap in range(window.kernel[axis])]
        found.append([(tap, place) for tap, place in places if 0 <= place < size])
    return found


def _outputs(window: Window, axis: int, size: int) -> int:
    """How often the window's whole span fits, in steps of its stride."""
    room = size + window.padding[axis] + window.padding[axis + 2]
    span = (window.kernel[axis] - 1) * window.dilation[axis] + 1
    return sum(1 for start in range(0, room, window.stride[axis]) if start + span <= room)


def convolved(op: Conv, weights: Ints, x: NDArray[Any]) -> Ints:
    """Sums of the products of all taps inside the map, by group; weights are ``(out, kernel h, kernel w, in)``."""
    signed = np.where(x, 1, -1).astype(np.int64) if x.dtype == bool else x.astype(np.int64)
    count, height, width, channels = signed.shape
    rows, columns = _outputs(op.window, 0, height), _outputs(op.window, 1, width)
    outputs, share = len(weights), channels // op.groups
    sums = np.zeros((count, rows, columns, outputs), np.int64)
    each = outputs // op.groups
    # Exact in doubles: every sum is far below 2^53.
    as_doubles, by_tap = signed.astype(np.float64), weights.astype(np.float64)
    across = taps_of(op.window, 1, columns, width)
    for i, vertical in enumerate(taps_of(op.window, 0, rows, height)):
        for tap_y, y in vertical:
            for j, horizontal in enumerate(across):
                for tap_x, at in horizontal:
                    seen = as_doubles[:, y, at].reshape(count, op.groups, 1, share)
                    of_groups = by_tap[:, tap_y, tap_x].reshape(op.groups, each, share)
                    part = np.matmul(seen, of_groups.transpose(0, 2, 1)) if op.groups == 1 else seen * of_groups
                    part = part[:, 0] if op.groups == 1 else part.sum(axis=3)
                    sums[:, i, j] += part.reshape(count, outputs).astype(np.int64)
    return sums


def pooled(window: Window, bits: NDArray[Any]) -> NDArray[Any]:
    """Whether any bit inside the window is set, or the largest code there."""
    count, height, width, channels = bits.shape
    rows, columns = _outputs(window, 0, height), _outputs(window, 1, width)
    found = np.zeros((count, rows, columns, channels), bits.dtype)
    for i, vertical in enumerate(taps_of(window, 0, rows, height)):
        for j, horizontal in enumerate(taps_of(window, 1, columns, width)):
            for _, y in vertical:
                for _, x in horizontal:
                    found[:, i, j] = np.maximum(found[:, i, j], bits[:, y, x])
    return found


def added(window: Window, maps: NDArray[Any]) -> NDArray[np.uint8]:
    """The sum of what lies inside the window: of bits, how many are set."""
    count, height, width, channels = maps.shape
    rows, columns = _outputs(window, 0, height), _outputs(window, 1, width)
    found = np.zeros((count, rows, columns, channels), np.int64)
    for i, vertical in enumerate(taps_of(window, 0, rows, height)):
        for j, horizontal in enumerate(taps_of(window, 1, columns, width)):
            for _, y in vertical:
                for _, x in horizontal:
                    found[:, i, j] += maps[:, y, x]
    assert found.max(initial=0) < 256
    return found.astype(np.uint8)


def scored(program: Program, op: Scores | BinaryScores, member: int, x: NDArray[Any]) -> Ints:
    flat = (np.where(x, 1, -1) if x.dtype == bool else x).astype(np.int64).reshape(len(x), -1)
    weights, bias = _table(program, op.weights, member), _table(program, op.bias, member).astype(np.int64)
    if isinstance(op, BinaryScores):
        signs = _weights(weights, op.x.shape[2], op.ternary)
        z = flat @ signs.reshape(len(signs), -1).T * _table(program, op.multiplier, member).astype(np.int64)
    else:
        z = flat @ weights.astype(np.int64).reshape(len(weights), -1).T
    return (z + bias)[:, None, None, :]


def first_difference(
    program: Program, op: Op, member: int, expected: Evaluated, found: NDArray[Any], limit: int = 1
) -> str | None:
    """The first place where an op's output is another one, in words: member, op, position, channel, z and threshold."""
    ours = expected.values[op.y.name]
    if found.shape != ours.shape:
        return f"member {member}, op {op.name!r}: shape {found.shape}, expected {ours.shape}"
    wrong = np.argwhere(found != ours)
    if not len(wrong):
        return None
    sample, row, column, channel = (int(i) for i in wrong[0])
    text = (
        f"member {member}, op {op.name!r}, sample {sample}, position ({row}, {column}), channel {channel}: "
        f"{found[sample, row, column, channel]}, expected {ours[sample, row, column, channel]} ({len(wrong)} in all)"
    )
    if isinstance(op, Conv):
        z = expected.sums[op.name][sample, :, :, channel]
        threshold = _table(program, op.thresholds, member)[channel].tolist()
        if op.pool is None:
            return f"{text}; z {int(z[row, column])}, threshold {threshold}; {op.window}, groups {op.groups}"
        rows = taps_of(op.pool, 0, ours.shape[1], z.shape[0])[row]
        columns = taps_of(op.pool, 1, ours.shape[2], z.shape[1])[column]
        pool = [[int(z[y, x]) for _, x in columns] for _, y in rows]
        return f"{text}; z {pool}, threshold {threshold}; {op.window}, pool {op.pool}, groups {op.groups}"
    return text

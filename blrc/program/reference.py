"""Compute what a program means, in NumPy: the law for every target, written to be read, not to be fast.

Arrays carry a batch in front of the program's H, W, C. Bits are booleans here (True = +1); packing is up to targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import unpack_signs
from blrc.net.window import sliding
from blrc.program import head
from blrc.program.program import BinaryScores, Conv, Encode, Op, Pool, Program, Scores, Window

BATCH = 128
BLOCK = 1 << 24  # taps that are multiplied at a time: 64 MiB of float32


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
    scale = head.scale_of(program.score_scale)
    return head.ensemble([scores(program, raw, member) for member in range(count)], scale, gate)


def labels(class_scores: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the position of the first maximum of every row."""
    return np.asarray(np.argmax(class_scores, axis=1), dtype=np.int64)


def _batch(program: Program) -> int:
    """Return how many images to compute at a time; they are fewer than `BATCH` where maps are large."""
    return max(1, min(BATCH, BLOCK // max(largest(op) for op in program.ops)))


def largest(op: Op) -> int:
    """Return the number of values of the largest map that `op` reads (with padding), computes in between, or writes."""
    sizes = [prod(op.x.shape), prod(op.y.shape)]
    if isinstance(op, Conv | Pool):
        top, left, bottom, right = op.window.padding
        height, width, channels = op.x.shape
        sizes.append((height + top + bottom) * (width + left + right) * channels)
    if isinstance(op, Conv):
        sizes.append(prod(op.unpooled))
    return max(sizes)


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
        y = apply(program, op, values[op.x.name], member)
        if last[op.x.name] is op:
            del values[op.x.name]
        if op.y.name in last:
            values[op.y.name] = y
        yield op.y.name, y


def apply(program: Program, op: Op, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
    """Compute one op on a batch of its input."""
    if isinstance(op, Encode):
        table = program.constant(op.table, member)
        channel = np.arange(op.x.shape[2]) if len(table) > 1 else 0
        return np.asarray(table[channel, x])
    if isinstance(op, Conv):
        y = preactivation(program, op, x, member) >= program.constant(op.thresholds, member)
        return y if op.pool is None else _any(y, op.pool)
    if isinstance(op, Pool):
        return _any(x, op.window)
    if isinstance(op, Scores):
        weights = program.constant(op.weights, member).reshape(op.y.shape[2], -1)
        signs = _signs(x).reshape(len(x), weights.shape[1])
        # Exact in float64: check() bounds the sum far below 2**53.
        total = signs.astype(np.float64) @ weights.T.astype(np.float64)
        y = total.astype(np.int64) + program.constant(op.bias, member)
        return np.asarray(y.astype(np.int32)[:, None, None, :])
    if isinstance(op, BinaryScores):
        rows = unpack_signs(program.constant(op.weights, member), op.x.shape[2]).reshape(op.y.shape[2], -1)
        z = _signs(x).reshape(len(x), op.fan_in).astype(np.float64) @ rows.T.astype(np.float64)
        y = z.astype(np.int64) * program.constant(op.multiplier, member) + program.constant(op.bias, member)
        return np.asarray(y.astype(np.int32)[:, None, None, :])
    assert_never(op)


def preactivation(program: Program, op: Conv, x: NDArray[Any], member: int = 0) -> NDArray[np.int32]:
    """Return z of a convolution, before threshold and pooling: int32 ``(N, height, width, out)``.

    Padding is 0, neither +1 nor -1, so absent taps contribute nothing.
    """
    weights = unpack_signs(program.constant(op.weights, member), op.group_channels)
    peak = program.bounds(op)[1]
    real = np.float32 if peak < 2**24 else np.float64
    # BLAS in float32 is exact here: every partial sum is an integer of magnitude below 2**24.
    assert peak < 2 ** (24 if real is np.float32 else 53)
    signs = (_signs(x) if op.x.dtype == "bits" else x).astype(real)
    taps = _windows(signs, op.window, fill=0)
    n, height, width = taps.shape[:3]
    groups, per_group = op.groups, op.y.shape[2] // op.groups
    z = np.empty((n, height, width, op.y.shape[2]), dtype=np.int32)
    for g in range(groups):
        channels = slice(g * op.group_channels, (g + 1) * op.group_channels)
        out = slice(g * per_group, (g + 1) * per_group)
        rows = weights[out].transpose(0, 3, 1, 2).reshape(per_group, -1).T.astype(real)
        for part in _blocks((n, height, width), max(1, BLOCK // len(rows))):
            inputs = taps[part][:, :, :, channels]
            product = inputs.reshape(-1, len(rows)) @ rows
            z[part][..., out] = product.reshape(*inputs.shape[:3], per_group)
    return z


def _blocks(shape: tuple[int, int, int], most: int) -> Iterator[tuple[slice, slice, slice]]:
    """Yield parts of the first three axes of an array, of at most `most` positions each, that cover all of it."""
    images, height, width = shape
    steps = max(1, most // (height * width)), max(1, min(height, most // width)), min(width, most)
    for i in range(0, images, steps[0]):
        for y in range(0, height, steps[1]):
            for x in range(0, width, steps[2]):
                yield slice(i, i + steps[0]), slice(y, y + steps[1]), slice(x, x + steps[2])


def _any(bits: NDArray[np.bool_], window: Window) -> NDArray[np.bool_]:
    return np.asarray(_windows(bits, window, fill=False).any(axis=(-2, -1)))


def _windows(maps: NDArray[Any], window: Window, fill: float) -> NDArray[Any]:
    """Return the sliding windows of ``(N, H, W, C)`` maps: a view ``(N, out h, out w, C, kernel h, kernel w)``."""
    top, left, bottom, right = window.padding
    padded = np.pad(maps, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    view = sliding(padded, window.span, (1, 2))
    (sy, sx), (dy, dx) = window.stride, window.dilation
    windows: NDArray[Any] = view[:, ::sy, ::sx, :, ::dy, ::dx]
    return windows


def _signs(bits: NDArray[np.bool_]) -> NDArray[np.int8]:
    return 2 * bits.astype(np.int8) - np.int8(1)

"""Lay out first layers and scores for the kernels on hosts that add 8-bit products (``blrc_dots.h`` of the runtime)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import unpack_signs, words
from blrc.program.program import INT32_MAX, Constant, Conv, Scores
from blrc.targets.c.kernels.families.codes import encoded, fused, of_codes
from blrc.targets.c.kernels.kernel import (
    Arguments,
    Kernel,
    Laid,
    Number,
    Step,
    Task,
)
from blrc.targets.c.kernels.tables import Table, mapped
from blrc.targets.c.runtime_files import constant

ROWS = constant("BLRC_DOTS_ROWS")  # rows of a block
ZERO = 128  # added to codes, so that none is negative
MAX_TABLE = 2**22  # the most bytes of weights, of which each bit takes one
MAX_COPY = 2**26  # the most bytes of the padded copy of an input, if it is mostly padding
MAX_WORDS = 2**18  # the most words of the scores' input


def conv_fits(op: Conv) -> bool:
    """Return whether a convolution of codes has one group, and a table and a copy of its input of bearable sizes."""
    table = ROWS * words(op.y.shape[2]) * 4 * len(offsets(op))
    return op.groups == 1 and table <= MAX_TABLE and copy_bytes(op) <= max(MAX_COPY, 4 * op.x.nbytes)


def _lay_conv(task: Task[Conv]) -> Laid:
    op, constants = task.op, task.program.constants
    weights, thresholds = constants[op.weights], constants[op.thresholds]
    pairs = sorted(set(zip(weights.of_member, thresholds.of_member, strict=True)))
    moved = tuple(moved_thresholds(op, weights.tables[w], thresholds.tables[t]) for w, t in pairs)
    of_member = tuple(pairs.index(pair) for pair in zip(weights.of_member, thresholds.of_member, strict=True))
    tables = [
        Table("offsets", (offsets(op),), (0,) * len(task.program.members)),
        mapped("weights", weights, lambda t: quad_rows(op, t)),
        Table("thresholds", moved, of_member),
    ]
    why = f"8-bit input, {op.fan_in} codes a row in {len(offsets(op))} words, four pixels at a time"
    return encoded(task, tables, why)


def scores_fit(task: Task[Scores]) -> bool:
    """Return whether scores have 8-bit weights and an input of a bearable size."""
    height, width, channels = task.op.x.shape
    weights = task.program.constants[task.op.weights].tables[0]
    return weights.dtype == np.int8 and height * width * words(channels) <= MAX_WORDS


def _lay_scores(task: Task[Scores]) -> Laid:
    weights, bias = task.program.constants[task.op.weights], task.program.constants[task.op.bias]
    pairs = sorted(set(zip(weights.of_member, bias.of_member, strict=True)))
    none = tuple(_all_unset(weights, bias, pair) for pair in pairs)
    of_member = tuple(pairs.index(pair) for pair in zip(weights.of_member, bias.of_member, strict=True))
    tables = mapped("weights", weights, word_rows), Table("bias", none, of_member)
    return Laid(tables, "int8 weights, one byte for each bit of the input")


def copy_shape(op: Conv) -> tuple[int, int]:
    """Return the rows and columns of the padded copy of the input.

    They reach to the end of the last window, or to the end of the input if that lies further.
    """
    window, size, unpooled = op.window, op.x.shape, op.unpooled
    rows, columns = (
        max((unpooled[axis] - 1) * window.stride[axis] + window.span[axis], window.padding[axis] + size[axis])
        for axis in (0, 1)
    )
    return rows, columns


def copy_bytes(op: Conv) -> int:
    """Return the bytes of the padded copy in whole words, with 4 bytes more that are read behind it."""
    rows, columns = copy_shape(op)
    return -(-(rows * columns * op.x.shape[2] + 4) // 4) * 4


def offsets(op: Conv) -> NDArray[np.int32]:
    """Return where each four codes that are multiplied at once lie, as offsets in the padded copy.

    They are counted in bytes from a window's first code.
    """
    _, columns = copy_shape(op)
    taps_y, taps_x = op.window.kernel
    step_y, step_x = op.window.dilation
    channels, run = op.x.shape[2], _run(op)
    starts = [
        (t * step_y * columns + s * step_x) * channels for t in range(taps_y) for s in range(0, taps_x, run // channels)
    ]
    return np.array([start + at for start in starts for at in range(0, run, 4)], np.int32)


def quad_rows(op: Conv, weights: NDArray[np.uint32]) -> NDArray[np.int8]:
    """Return weights ``(out, kernel h, kernel w, words)`` as ``[block of 32][quad][row][4]``, flat.

    Each weight is 1 or -1, or 0 where there is no tap.
    """
    out, run = len(weights), _run(op)
    runs = unpack_signs(weights, op.x.shape[2]).reshape(out, -1, run)
    padded = np.zeros((-(-out // ROWS) * ROWS, runs.shape[1], -(-run // 4) * 4), np.int8)
    padded[:out, :, :run] = runs
    return padded.reshape(-1, ROWS, padded.shape[1] * padded.shape[2] // 4, 4).transpose(0, 2, 1, 3).reshape(-1)


def moved_thresholds(op: Conv, weights: NDArray[np.uint32], thresholds: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return thresholds for sums over codes to which 128 was added, for whole blocks of rows.

    Missing rows never pass.
    """
    signs = unpack_signs(weights, op.x.shape[2]).reshape(len(weights), -1)
    moved = thresholds.astype(np.int64) + ZERO * signs.sum(axis=1, dtype=np.int64)
    missing = -len(moved) % ROWS
    return np.pad(moved.clip(-(2**31), INT32_MAX), (0, missing), constant_values=INT32_MAX).astype(np.int32)


def word_rows(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return weights ``(classes, H, W, C)``, flat, with each pixel's padded with zeros to whole words of the input."""
    missing = -weights.shape[3] % 32
    return np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, missing))).reshape(-1)


def _all_unset(weights: Constant, bias: Constant, pair: tuple[int, int]) -> NDArray[np.int32]:
    """Return the scores of an input that is -1 everywhere.

    They fit 32 bits: `blrc.program.legal.check` has shown it for all scores.
    """
    total = weights.tables[pair[0]].astype(np.int64).sum(axis=(1, 2, 3))
    return np.asarray(bias.tables[pair[1]] - total, np.int32)


def _run(op: Conv) -> int:
    """Return how many codes lie together under a window: those of a kernel row, or of one tap in a dilated kernel."""
    return op.x.shape[2] * (op.window.kernel[1] if op.window.dilation[1] == 1 else 1)


def _conv_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    quads = Number("quads", len(step.tables[-3].arrays[0]))
    return [geometry, "x", *fused(step, tables), tables[-3], quads, *tables[-2:], "scratch", "y"]


def _scores_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    return [Number("words", height * width * words(channels)), Number("classes", step.y.shape[2]), "x", *tables, "y"]


CONV_DOTS = Kernel(
    "conv_dots",
    Conv,
    about="copies codes with the padding around them, and adds products of four codes and weights of +-1 at once",
    needs="convolutions of codes in one group, whose weights and copy take some megabytes at most",
    fits=lambda task: of_codes(task.op) and conv_fits(task.op),
    cost=lambda task: task.op.macs,
    lay=_lay_conv,
    arguments=_conv_arguments,
    geometry="conv",
    scratch=lambda task: copy_bytes(task.op),
    inner=("dots",),
)
SCORES_DOTS = Kernel(
    "scores_dots",
    Scores,
    about="adds up the weights whose input is set",
    needs="scores with 8-bit weights",
    fits=scores_fit,
    cost=lambda task: task.op.macs,
    lay=_lay_scores,
    arguments=_scores_arguments,
    inner=("dots",),
)
FAMILY: tuple[Kernel[Any], ...] = (CONV_DOTS, SCORES_DOTS)

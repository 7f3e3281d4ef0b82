"""Lay out binary layers for the kernels on hosts that work on tiles of pixels (``blrc_tile.h`` of the runtime).

One table of weights serves popcnt, AVX2, AVX-512 and NEON, among which the code chooses when it runs. On x86-64 a
second table of the same bits lets CPUs before AVX-512 look up nibbles in convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import unpack, words
from blrc.program.program import Conv
from blrc.targets.c.kernels.families.words import is_whole_map
from blrc.targets.c.kernels.kernel import (
    Arguments,
    Kernel,
    Laid,
    Number,
    Step,
    Task,
)
from blrc.targets.c.kernels.tables import Table, mapped, paired
from blrc.targets.c.kernels.thresholds import most_differing
from blrc.targets.c.runtime_files import constant

ROWS = constant("BLRC_TILE_ROWS")  # rows of a block
PIXELS = constant("BLRC_TILE_PIXELS")  # pixels that share the loads of weights
LOOK_UNITS, LOOK_BLOCKS = constant("BLRC_LOOK_UNITS"), constant("BLRC_LOOK_BLOCKS")  # the order of bytes
LOOK_BITS = 2**15 - 1  # the largest fan-in whose sums the look-ups hold
MAX_RUN = 4096  # the most words of a run; six runs lie on the stack
MAX_LINES = 32768  # the most words of the padded rows, which lie on the stack as well
MAX_LIMITS = 2**22  # the most bytes of limits: kernels as large as the map have one for almost every pixel


def padded_words(op: Conv) -> int:
    """Return the words of a padded row of the input.

    It reaches to the end of the last window, or to the end of the input if that lies further.
    """
    width, window = op.x.shape[1], op.window
    seen = (op.unpooled[1] - 1) * window.stride[1] + window.span[1]
    return max(seen, window.padding[1] + width) * words(op.x.shape[2])


def line_words(op: Conv) -> int:
    """Return the words of all rows that a window sees, of one row of zeros, and of 4 more that are read behind them."""
    return (op.window.span[0] + 1) * padded_words(op) + 4


def run_words(op: Conv) -> int:
    """Return the words of a window's bits, and of 4 more that are written behind them."""
    return op.window.taps * words(op.x.shape[2]) + 4


def limit_bytes(op: Conv) -> int:
    """Return the bytes of one member's table of limits."""
    return len(_spans(op, 0)) * len(_spans(op, 1)) * -(-op.y.shape[2] // ROWS) * ROWS * 4


def is_one_run(op: Conv) -> bool:
    """Return whether a layer is dense and a row of its weights is a whole number of 64-bit units."""
    return is_whole_map(op) and _total(op) % 2 == 0


def fits(op: Conv) -> bool:
    """Return whether the kernel can compute a convolution.

    Its rows have to fit on the stack, and its limits may take some megabytes at most.
    """
    small = run_words(op) <= MAX_RUN and line_words(op) <= MAX_LINES and limit_bytes(op) <= MAX_LIMITS
    return op.x.dtype == "bits" and op.groups == 1 and not is_one_run(op) and small


def cost(task: Task[Conv]) -> float:
    """Return the cost of a layer that is counted in tiles.

    It is the layer's multiply-adds times the cost of one that is counted (`Cpu.counted`).
    """
    op = task.op
    return task.cpu.counted * op.fan_in * op.y.shape[2] * (op.unpooled[0] * op.unpooled[1])


def lay_tiles(task: Task[Conv]) -> Laid:
    """Lay out the tables of a convolution that fits."""
    op, constants = task.op, task.program.constants
    weights, thresholds = constants[op.weights], constants[op.thresholds]
    tables = [mapped("weights", weights, lambda t: units(t.reshape(len(t), -1)))]
    why = f"{_total(op)} words a row, six pixels at a time"
    if task.cpu.looks_up and op.unpooled[0] * op.unpooled[1] >= PIXELS and op.fan_in <= LOOK_BITS:
        tables.append(mapped("bytes", weights, lambda t: look_bytes(t.reshape(len(t), -1))))
        why += "; looked up by nibbles before AVX-512"
    tables.append(paired("limits", weights, thresholds, lambda w, t: limits(op, w, t)))
    rows, columns = _places(op)
    where = np.concatenate([rows * (columns.max(initial=0) + 1), columns]).astype(np.int32)
    every = Table("places", (where,), (0,) * len(task.program.members))
    return Laid((*tables, every), why, ROWS)


def _lay_run(task: Task[Conv]) -> Laid:
    op, constants = task.op, task.program.constants
    weights, thresholds = constants[op.weights], constants[op.thresholds]
    tables = (
        mapped("weights", weights, lambda t: units(t.reshape(len(t), -1))),
        paired("limits", weights, thresholds, lambda w, t: limits(op, w, t)),
    )
    return Laid(tables, f"the kernel is the whole map: one run of {_total(op)} words", ROWS)


def _total(op: Conv) -> int:
    """Return the words of a row of weights."""
    return op.window.taps * words(op.x.shape[2])


def units(rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return rows of words, ``(out, words)``, as ``[block of 32][unit][row][2]``, flat, padded with zeros.

    Of each 16 rows the even ones come first, so that two vectors of 64-bit sums merge in order into one of 32-bit sums.
    """
    out, total = rows.shape
    padded = np.zeros((-(-out // ROWS), ROWS, -(-total // 2), 2), np.uint32)
    padded.reshape(-1, padded.shape[2] * 2)[:out, :total] = rows
    order = [16 * half + 2 * i + odd for half in range(2) for odd in range(2) for i in range(8)]
    return padded[:, order].transpose(0, 2, 1, 3).reshape(-1)


def look_bytes(rows: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return rows of words, ``(out, words)``, as ``[16 blocks of 32][3 units][block][byte][row]``, flat.

    The look-ups read the bytes in this order. The bits are those of `units`.
    """
    out, total = rows.shape
    padded = np.zeros((-(-out // ROWS) * ROWS, -(-total // 2) * 2), "<u4")
    padded[:out, :total] = rows
    by_byte = padded.view(np.uint8).reshape(-1, ROWS, padded.shape[1] * 4).transpose(0, 2, 1)
    blocks, length, _ = by_byte.shape
    parts = [
        by_byte[start : start + LOOK_BLOCKS, first : first + 8 * LOOK_UNITS].reshape(-1)
        for start in range(0, blocks, LOOK_BLOCKS)
        for first in range(0, length, 8 * LOOK_UNITS)
    ]
    return np.concatenate(parts)


def limits(op: Conv, weights: NDArray[np.uint32], thresholds: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the most ones of (run xor weights) with which a row passes, ``(places, rows)`` for every kind of place.

    Absent taps read as -1, so each of their weights that is +1 differs, and the limit is raised by as many. Missing
    rows have the limit -1 and never pass.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, words)``.
        thresholds: int32 ``(out,)``.
    """
    ones = unpack(weights, op.group_channels).sum(axis=3).astype(np.int64)  # (out, kernel h, kernel w)
    found = []
    for ky in _spans(op, 0):
        for kx in _spans(op, 1):
            inside = ones[:, ky[0] : ky[1], kx[0] : kx[1]].sum(axis=(1, 2))
            real = max(0, ky[1] - ky[0]) * max(0, kx[1] - kx[0]) * op.group_channels
            found.append(most_differing(real, thresholds) + ones.sum(axis=(1, 2)) - inside)
    padded = np.full((len(found), -(-len(thresholds) // ROWS) * ROWS), -1, np.int32)
    padded[:, : len(thresholds)] = np.stack(found).clip(-1, 2**31 - 1)
    return padded


def _spans(op: Conv, axis: int) -> list[tuple[int, int]]:
    """Return the kinds of places along an axis, each as the taps, first <= t < end, that lie inside the map."""
    return sorted(set(_inside(op, axis)))


def _inside(op: Conv, axis: int) -> list[tuple[int, int]]:
    window, size = op.window, op.x.shape[axis]
    found = []
    for at in range(op.unpooled[axis]):
        origin = at * window.stride[axis] - window.padding[axis]
        taps = [t for t in range(window.kernel[axis]) if 0 <= origin + t * window.dilation[axis] < size]
        found.append((taps[0], taps[-1] + 1) if taps else (0, 0))
    return found


def _places(op: Conv) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the kind of place of every row and of every column of the map, as indices into `_spans`."""
    rows, columns = (np.array([_spans(op, axis).index(span) for span in _inside(op, axis)]) for axis in (0, 1))
    return rows, columns


def asks(op: Conv) -> dict[str, int]:
    """Return what a convolution in tiles needs of the buffers on the stack."""
    return {
        "BLRC_TILE_LINES": line_words(op),
        "BLRC_TILE_HELD": op.window.span[0],
        "BLRC_TILE_RUN": run_words(op),
    }


def _tile_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    looked_up = tables[1] if len(tables) == 4 else "0"
    return [geometry, "x", tables[0], looked_up, *tables[-2:], "y"]


def _run_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    return [Number("words", height * width * words(channels)), Number("outputs", step.y.shape[2]), "x", *tables, "y"]


DENSE_TILES = Kernel(
    "dense_tiles",
    Conv,
    about="counts the bits of one run of 64-bit units for 32 outputs at once",
    needs="layers whose kernel is the whole map, without padding, groups or pooling, of an even number of words",
    fits=lambda task: task.op.x.dtype == "bits" and is_one_run(task.op),
    cost=cost,
    lay=_lay_run,
    arguments=_run_arguments,
    inner=("tile",),
)
CONV_TILES = Kernel(
    "conv_tiles",
    Conv,
    about="collects the bits of six windows at once, and counts them for 32 outputs",
    needs=f"convolutions in one group, of windows of at most {MAX_RUN - 4:,} words",
    fits=lambda task: fits(task.op),
    cost=cost,
    lay=lay_tiles,
    arguments=_tile_arguments,
    geometry="conv",
    asks=asks,
    inner=("tile",),
)
FAMILY: tuple[Kernel[Any], ...] = (DENSE_TILES, CONV_TILES)

"""Compute binary layers on words of 32 channels by counting bits, and pool maps by ORing them.

These kernels exist on every CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack, words
from blrc.program.ops.flatten import Flatten
from blrc.program.program import Conv, Pool
from blrc.targets.c.kernels.kernel import (
    NOT_WORTH_IT,
    Arguments,
    Kernel,
    Laid,
    Number,
    Step,
    Task,
    by_geometry,
    pixels,
)
from blrc.targets.c.kernels.tables import mapped
from blrc.targets.c.kernels.thresholds import never_padded, threshold_bits
from blrc.targets.c.runtime_files import constant

ROWS = constant("BLRC_ROWS")  # output channels that share one activation word
LOOKED_AT = constant("BLRC_GATHER_WORDS")  # the most words of a tap that conv_taps reads together


def counted(task: Task[Conv]) -> float:
    """Return the cost of counting the bits of a layer.

    The kernels here are about equally fast where they fit, so the first of them in `KERNELS` is taken. Hosts have
    better ones (docs/performance.md), and count word by word only if none of those fits.
    """
    op = task.op
    return NOT_WORTH_IT if task.cpu.levels else task.cpu.counted * op.fan_in * op.y.shape[2] * pixels(op)


def row_words(op: Conv) -> int:
    """Return the words of a row of weights in which every tap takes whole words."""
    return op.window.taps * words(op.group_channels)


def packed_words(op: Conv) -> int:
    """Return the words of a row of weights in which taps lie without gaps."""
    return words(op.fan_in)


def is_whole_map(op: Conv) -> bool:
    """Return whether a layer is dense: a single window covers the whole map, without padding, groups or pooling."""
    return op.is_dense and op.groups == 1 and op.pool is None and not any(op.window.padding)


def _of_bits(fits: Callable[[Task[Conv]], bool]) -> Callable[[Task[Conv]], bool]:
    return lambda task: task.op.x.dtype == "bits" and fits(task)


def _lay(why: Callable[[Conv], str], packed: bool = False) -> Callable[[Task[Conv]], Laid]:
    """Return a function that lays out rows of weights in blocks.

    Args:
        why: makes the reason for the kernel from the op.
        packed: whether taps lie without gaps.
    """

    def lay(task: Task[Conv]) -> Laid:
        op, program = task.op, task.program
        per_group, bits = op.y.shape[2] // op.groups, threshold_bits(program, "bits")
        rows = ROWS if op.groups == 1 or per_group % ROWS == 0 else 1

        def change(table: NDArray[np.uint32]) -> NDArray[np.uint32]:
            flat = pack(unpack(table, op.group_channels).reshape(len(table), -1)) if packed else table
            return blocked(flat.reshape(len(table), -1), rows)

        weights = mapped("weights", program.constants[op.weights], change)
        limits = mapped("thresholds", program.constants[op.thresholds], lambda t: never_padded(t, rows, 1, bits))
        return Laid((weights, limits), why(op), rows)

    return lay


def blocked(rows: NDArray[np.uint32], block: int) -> NDArray[np.uint32]:
    """Interleave rows of words, ``(out, words)``, as ``[block][pair][row][2]``, flat.

    An odd last word follows the pairs of its block as ``[row]``. Missing rows of the last block are zeros.
    """
    if block == 1:
        return rows.reshape(-1)
    out, total = rows.shape
    padded = np.zeros((-(-out // block) * block, total), dtype=np.uint32)
    padded[:out] = rows
    blocks = padded.reshape(-1, block, total)
    pairs = blocks[:, :, : total // 2 * 2].reshape(len(blocks), block, total // 2, 2).transpose(0, 2, 1, 3)
    return np.concatenate([pairs.reshape(len(blocks), -1), blocks[:, :, total // 2 * 2 :].reshape(len(blocks), -1)], 1)


def _dense_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.op.x.shape
    assert isinstance(step.op, Conv)
    run = (Number("inputs", step.op.fan_in), Number("words", height * width * words(channels)))
    return [*run, Number("outputs", step.y.shape[2]), "x", *tables, "y"]


def _flatten_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    return [Number("pixels", height * width), Number("channels", channels), "x", "y"]


def _collected(macros: Mapping[str, int]) -> int:
    """Return the bytes of two buffers: a window's bits, and the mask of those that lie inside the map."""
    return 2 * 4 * macros["BLRC_GATHER_WORDS"]


DENSE = Kernel(
    "dense",
    Conv,
    about="counts the bits of one run of words for each output",
    needs="layers whose kernel is the whole map, without padding, groups or pooling",
    fits=_of_bits(lambda task: is_whole_map(task.op)),
    cost=counted,
    lay=_lay(lambda op: f"the kernel is the whole map: one run of {row_words(op)} words"),
    arguments=_dense_arguments,
    companions=("run",),
)
CONV_PACKED = Kernel(
    "conv_packed",
    Conv,
    about="collects a window's bits without gaps, and counts them once for each output",
    needs="taps that do not fill their words, where a window's bits fit the CPU's buffer",
    fits=_of_bits(lambda task: packed_words(task.op) < row_words(task.op) and _fits_buffer(task, packed_words)),
    cost=counted,
    lay=_lay(
        lambda op: (
            f"taps of {op.group_channels} bits: {packed_words(op)} words a row without gaps, not {row_words(op)}"
        ),
        packed=True,
    ),
    arguments=by_geometry,
    geometry="conv",
    strips=True,
    buffers=_collected,
    asks=lambda op: {"BLRC_GATHER_WORDS": packed_words(op)},
    companions=("run", "run_real"),
)
CONV_GATHER = Kernel(
    "conv_gather",
    Conv,
    about="collects a window's words, and counts them once for each output",
    needs="windows whose words fit the CPU's buffer",
    fits=_of_bits(lambda task: _fits_buffer(task, row_words)),
    cost=counted,
    lay=_lay(lambda op: f"{row_words(op)} words a row fit the gather buffer"),
    arguments=by_geometry,
    geometry="conv",
    strips=True,
    buffers=_collected,
    asks=lambda op: {"BLRC_GATHER_WORDS": row_words(op)},
    companions=("run", "run_real"),
)
CONV_ROWS = Kernel(
    "conv_rows",
    Conv,
    about="counts each kernel row where it lies in the map",
    needs="one group, and kernel rows that lie together: not dilated",
    fits=_of_bits(
        lambda task: task.op.groups == 1 and (task.op.window.dilation[1] == 1 or task.op.window.kernel[1] == 1)
    ),
    cost=counted,
    lay=_lay(lambda op: f"{row_words(op)} words a row, kernel rows contiguous"),
    arguments=by_geometry,
    geometry="conv",
    strips=True,
)
CONV_TAPS = Kernel(
    "conv_taps",
    Conv,
    about="counts tap by tap",
    needs="every convolution of bits",
    fits=_of_bits(lambda _: True),
    cost=counted,
    lay=_lay(lambda op: f"{row_words(op)} words a row with groups or dilation"),
    arguments=by_geometry,
    geometry="conv",
    strips=True,
    buffers=lambda macros: 4 * macros["BLRC_GATHER_WORDS"],
    asks=lambda op: {"BLRC_GATHER_WORDS": min(words(op.group_channels), LOOKED_AT)},
)
POOL_OR = Kernel(
    "pool_or",
    Pool,
    about="ORs the words under a window",
    needs="max pooling that was not fused into the convolution before it",
    fits=lambda _: True,
    cost=lambda task: task.op.y.nbytes // 4 * task.op.window.taps,
    lay=lambda _: Laid((), "no convolution before it could take it in"),
    arguments=by_geometry,
    geometry="pool",
)
FLATTEN = Kernel(
    "flatten",
    Flatten,
    about="packs the bits of a map without gaps",
    needs="maps whose channels do not fill their words, before a dense layer",
    fits=lambda _: True,
    cost=lambda task: task.op.x.nbytes // 4,
    lay=lambda task: Laid((), f"pixels of {task.op.x.shape[2]} bits do not fill their words"),
    arguments=_flatten_arguments,
)


def _fits_buffer(task: Task[Conv], needed: Callable[[Conv], int]) -> bool:
    return needed(task.op) <= task.cpu.gather_words


FAMILY: tuple[Kernel[Any], ...] = (DENSE, CONV_PACKED, CONV_GATHER, CONV_ROWS, CONV_TAPS, POOL_OR, FLATTEN)

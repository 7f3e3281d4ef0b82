"""Compute first layers, which read codes of 8 bits, by looking up the sums of four weights at a time.

These kernels exist on every CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack
from blrc.program.ops.binarize import Binarize
from blrc.program.program import Conv, Encode
from blrc.targets.c.kernels.kernel import (
    NOT_WORTH_IT,
    Arguments,
    Kernel,
    Laid,
    Number,
    Step,
    Task,
)
from blrc.targets.c.kernels.tables import Table, mapped, plain
from blrc.targets.c.kernels.thresholds import never_padded, threshold_bits
from blrc.targets.c.runtime_files import constant

CODES = constant("BLRC_CODES")  # codes that are tabulated at a time
CODE_ROWS = constant("BLRC_CODE_ROWS")  # rows of a block of weights
PAIR_SUMS = 2**14 - 1  # the largest sum: twice that, with the threshold's distance, fits 16 bits
LOOKED_UP = 1.0
"""Instructions for a multiply-add: on a Cortex-M4 0.9 in CIFAR-10's first layer, 1.6 in MNIST's (docs/performance.md).
Only ratios to it matter."""


def of_codes(op: Conv) -> bool:
    """Return whether a convolution reads codes and not bits."""
    return op.x.dtype == "int8"


def looked_up(task: Task[Conv]) -> float:
    """Return the cost of looking up a layer's sums.

    All these kernels have the same cost; of those that fit, the first in `KERNELS` is the fastest.
    """
    return NOT_WORTH_IT if task.cpu.levels else per_column(task) * task.op.unpooled[1]


def per_column(task: Task[Conv]) -> float:
    """Return the cost of looking up one column of a map."""
    return LOOKED_UP * task.op.fan_in * task.op.y.shape[2] * task.op.unpooled[0]


def encoded(task: Task[Conv], tables: Sequence[Table], why: str) -> Laid:
    """Return the tables, preceded by the table of a fused encoding if there is one."""
    if task.encode is None:
        return Laid(tuple(tables), why)
    return Laid((plain(task.program, "table", task.encode.table), *tables), f"{why}, table look-up fused")


def code_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    """Return a call's arguments, in which a fused encoding's table and its number of rows follow the input.

    Without a fused encoding they are 0 and 1.
    """
    return [geometry, "x", *fused(step, tables), *tables[-2:], *(["scratch"] if step.scratch else []), "y"]


def fused(step: Step, tables: Sequence[str]) -> Arguments:
    """Return the table of a fused encoding and its number of rows, or a null pointer and 1 without one."""
    return (
        ["0", Number("table_rows", 1)] if step.encode is None else [tables[0], Number("table_rows", table_rows(step))]
    )


def table_rows(step: Step) -> int:
    """Return for how many channels an encoding's table differs, or 1 if all channels share it."""
    return len(step.tables[0].arrays[0]) // 256


def _pairs_fit(task: Task[Conv]) -> bool:
    op = task.op
    return of_codes(op) and op.groups == 1 and op.fan_in <= CODES and task.program.bounds(op)[1] <= PAIR_SUMS


def _columns_fit(task: Task[Conv]) -> bool:
    op = task.op
    return _pairs_fit(task) and 3 <= op.window.kernel[1] * op.group_channels <= 4 and op.window.dilation[0] == 1


def _lay_pairs(
    of_rows: Callable[[NDArray[np.uint32], Conv], NDArray[np.uint32]], end: str
) -> Callable[[Task[Conv]], Laid]:
    def lay(task: Task[Conv]) -> Laid:
        op, largest = task.op, task.program.bounds(task.op)[1]
        weights = mapped("weights", task.program.constants[op.weights], lambda t: of_rows(t, op))
        begin = mapped("thresholds", task.program.constants[op.thresholds], lambda t: starts(t, largest))
        why = f"8-bit input, {op.fan_in} codes a row, sums within {largest}: two pixels at once{end}"
        return encoded(task, (weights, begin), why)

    return lay


def _lay_codes(task: Task[Conv]) -> Laid:
    op, bits = task.op, threshold_bits(task.program, "int8")
    weights = mapped(
        "weights", task.program.constants[op.weights], lambda t: code_rows(t, op.group_channels, op.groups)
    )
    limits = mapped("thresholds", task.program.constants[op.thresholds], lambda t: never_padded(t, 8, op.groups, bits))
    return encoded(task, (weights, limits), f"8-bit input, {op.fan_in} codes a row")


def starts(thresholds: NDArray[np.int32], largest: int) -> NDArray[np.uint32]:
    """Return what each row's sum starts from, so that it passes if it reaches 32768.

    The 16-bit start is repeated in both halves of a word. Rows are padded to whole blocks of 8, and missing rows never
    pass.

    Args:
        thresholds: int32 ``(out,)``.
        largest: the largest sum of a row.
    """
    padded = np.pad(thresholds, (0, -len(thresholds) % 8), constant_values=largest + 1)
    return ((2**15 - padded).astype(np.uint32) * np.uint32(2**16 + 1)).astype(np.uint32)


def column_rows(weights: NDArray[np.uint32], channels: int) -> NDArray[np.uint32]:
    """Return weights as `code_rows` does, except that every kernel row has a nibble of its own.

    A kernel row has at most four codes.
    """
    bits = unpack(weights, channels).reshape(*weights.shape[:2], 1, -1)
    return code_rows(pack(np.pad(bits, ((0, 0), (0, 0), (0, 0), (0, 4 - bits.shape[3])))), 4, 1)


def code_rows(
    weights: NDArray[np.uint32], channels: int, groups: int, block: int = CODE_ROWS, codes: int = CODES
) -> NDArray[np.uint32]:
    """Return the weights of an 8-bit convolution as ``[group][block of rows][codes / 4][8 rows][nibble]``, flat.

    A row is the bits of its taps without gaps, cut into nibbles. A word holds the same nibble of 8 rows. Missing bits
    are 0.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, words(channels))``.
        channels: channels of one group.
        groups: the number of groups.
        block: the rows of a block, a multiple of 8.
        codes: how many of them are tabulated at a time, a multiple of 4.
    """
    bits = unpack(weights, channels).reshape(groups, len(weights) // groups, -1)
    _, per_group, fan_in = bits.shape
    eights, nibbles = -(-per_group // 8), -(-fan_in // 4)
    padded = np.zeros((groups, eights * 8, nibbles * 4), dtype=np.bool_)
    padded[:, :per_group, :fan_in] = bits
    # (groups, eights, 8 rows, nibbles, 4 bits) to one word for each nibble of eight rows
    by_nibble = padded.reshape(groups, eights, 8, nibbles, 4).transpose(0, 1, 3, 2, 4)
    packed = pack(by_nibble.reshape(groups, eights, nibbles, 32))[..., 0]
    parts = [
        packed[g, e : e + block // 8, k : k + codes // 4].reshape(-1)
        for g in range(groups)
        for e in range(0, eights, block // 8)
        for k in range(0, nibbles, codes // 4)
    ]
    return np.concatenate(parts)


def _encode_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    size = (Number("pixels", height * width), Number("channels", channels))
    return [*size, "x", tables[0], Number("table_rows", table_rows(step)), "y"]


def _binarize_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.y.shape
    size = (Number("pixels", height * width), Number("channels", channels))
    return [*size, "x", tables[0], Number("limits", len(step.tables[0].arrays[0])), "y"]


def _pair_buffers(macros: Mapping[str, int]) -> int:
    """Return the bytes of the sums: for every four tabulated codes, 16 sums of one word each."""
    return 16 * macros["BLRC_CODES"]


ENCODE = Kernel(
    "encode",
    Encode,
    about="looks up the codes of pixels and stores them",
    needs="codes that several layers read; elsewhere the look-up is fused into the layer",
    fits=lambda _: True,
    cost=lambda task: task.op.x.nbytes,
    lay=lambda task: Laid((plain(task.program, "table", task.op.table),), "several layers read the codes"),
    arguments=_encode_arguments,
)
BINARIZE = Kernel(
    "binarize",
    Binarize,
    about="compares pixels with thresholds, and packs the results",
    needs="inputs that thresholds turn into bits",
    fits=lambda _: True,
    cost=lambda task: task.op.x.nbytes,
    lay=lambda task: Laid((plain(task.program, "thresholds", task.op.thresholds),), "the input becomes bits"),
    arguments=_binarize_arguments,
)
CONV_COLUMNS = Kernel(
    "conv_columns",
    Conv,
    about="as `conv_pairs`, but sums of a kernel row serve every window that it lies in",
    needs="what `conv_pairs` needs, and kernel rows of three or four codes that are not dilated vertically",
    fits=_columns_fit,
    cost=looked_up,
    lay=_lay_pairs(lambda t, op: column_rows(t, op.group_channels), ", column by column"),
    arguments=code_arguments,
    geometry="conv",
    strips=True,
    buffers=_pair_buffers,
    asks=lambda op: {"BLRC_CODES": 4 * op.window.kernel[0]},
)
CONV_PAIRS = Kernel(
    "conv_pairs",
    Conv,
    about="tabulates the sums of every four codes, of two pixels in the halves of a word, and looks them up",
    needs=f"codes in one group, at most {CODES} in a window, whose sums stay within {PAIR_SUMS:,}",
    fits=_pairs_fit,
    cost=looked_up,
    lay=_lay_pairs(lambda t, op: code_rows(t, op.group_channels, op.groups), ""),
    arguments=code_arguments,
    geometry="conv",
    strips=True,
    buffers=_pair_buffers,
    asks=lambda op: {"BLRC_CODES": op.fan_in},
)
CONV_CODES = Kernel(
    "conv_codes",
    Conv,
    about="tabulates the sums of every four codes of a pixel, and looks them up",
    needs="every convolution of codes",
    fits=lambda task: of_codes(task.op),
    cost=looked_up,
    lay=_lay_codes,
    arguments=code_arguments,
    geometry="conv",
    strips=True,
    buffers=lambda macros: 9 * macros["BLRC_CODES"] + 4 * macros["BLRC_CODE_ROWS"],
    asks=lambda op: {"BLRC_CODES": op.fan_in},
)
FAMILY: tuple[Kernel[Any], ...] = (ENCODE, BINARIZE, CONV_COLUMNS, CONV_PAIRS, CONV_CODES)

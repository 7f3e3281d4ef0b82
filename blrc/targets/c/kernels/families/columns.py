"""Compute dense layers in bit-sliced form, with outputs in the lanes of a word.

The table has for every input a column of the weights, a bit for each output. Only the columns of inputs that are +1 are
added up, or only those of inputs that are -1 if these are fewer (`runtime/src/sliced/blrc_columns.h`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack
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
from blrc.targets.c.kernels.tables import mapped, paired
from blrc.targets.c.kernels.thresholds import most_differing
from blrc.targets.c.runtime_files import constant

LANES = 32
MOST = 2**16 - 1  # the most inputs
LOW_PLANES = constant("BLRC_LOW_PLANES")  # planes of a sum that are kept in registers
LOOKED_AT = 8
"""Instructions to look at one input and note it down where it is of the rarer sign."""
ADDED = {"dense_columns": 4.0, "dense_quads": 5.0}
"""Instructions to add the word of an input to the sums of a word of outputs, for each input, where half of them are of
the rarer sign. These constants give 235 thousand for MNIST's dense layer on a Cortex-M4 and 91 on a Cortex-M55.
Measured are 116 and 51 (docs/performance.md), since fewer inputs are of the rarer sign."""
COMPARED = {"dense_columns": 40, "dense_quads": 60}
"""Instructions to compare a plane of so many sums with their limits, and to clear it."""


def fits(op: Conv) -> bool:
    """Return whether the kernel can compute a layer.

    It computes dense layers of at most 2^16 - 1 inputs whose bits lie without gaps.
    """
    height, width, channels = op.x.shape
    together = channels % LANES == 0 or height * width == 1
    return op.x.dtype == "bits" and is_whole_map(op) and together and op.fan_in <= MOST


def planes(op: Conv) -> int:
    """Return the bits of the number whose sign decides an output.

    They hold twice the number of inputs and a sign, and are at least as many as are kept in registers
    (BLRC_LOW_PLANES).
    """
    return max(LOW_PLANES, op.fan_in.bit_length() + 2)


def scratch_bytes(op: Conv, lanes: int = LANES) -> int:
    """Return the bytes of memory that the kernel needs while it runs.

    It holds the list of inputs to add, and the planes of a sum.
    """
    return 4 * (op.fan_in // 2 + 1 + planes(op) * lanes // LANES)


def columns(weights: NDArray[np.uint32], channels: int, lanes: int = LANES) -> NDArray[np.uint32]:
    """Return the weights by column, ``[block of lanes outputs][input]``, flat, with a bit for each output of the block.

    Bits of missing outputs are 0.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, words(channels))``.
        channels: channels of the input.
        lanes: outputs of a block.
    """
    bits = unpack(weights, channels).reshape(len(weights), -1)
    padded = np.pad(bits, ((0, -len(bits) % lanes), (0, 0)))
    return pack(np.ascontiguousarray(padded.reshape(-1, lanes, bits.shape[1]).transpose(0, 2, 1))).reshape(-1)


def limits(
    op: Conv, weights: NDArray[np.uint32], thresholds: NDArray[np.int32], lanes: int = LANES
) -> NDArray[np.uint32]:
    """Return what sums are compared with, ``[block of lanes outputs][sign][plane]``, flat, with a bit for each output.

    The first sign is for sums over the inputs that are +1, the second for those over the inputs that are -1.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, words(channels))``.
        thresholds: int32 ``(out,)``.
        lanes: outputs of a block.
    """
    ones = unpack(weights, op.group_channels).reshape(len(weights), -1).sum(axis=1).astype(np.int64)
    limit = most_differing(op.fan_in, thresholds).clip(-1, op.fan_in)
    both = np.pad(np.stack([limit - ones, limit + ones]), ((0, 0), (0, -len(ones) % lanes)))
    bits = (both[..., None] >> np.arange(planes(op)) & 1).astype(np.bool_)  # (2, out, planes)
    return pack(np.ascontiguousarray(bits.reshape(2, -1, lanes, planes(op)).transpose(1, 0, 3, 2))).reshape(-1)


def _arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    op = step.op
    assert isinstance(op, Conv)
    sizes = (Number("inputs", op.fan_in), Number("outputs", op.y.shape[2]), Number("planes", planes(op)))
    return [*sizes, "x", *tables, "scratch", "y"]


def _kernel(name: str, about: str, lanes: int) -> Kernel[Conv]:
    """Return the record of the kernel whose words have `lanes` lanes."""

    def lay(task: Task[Conv]) -> Laid:
        op, constants = task.op, task.program.constants
        weights, thresholds = constants[op.weights], constants[op.thresholds]
        tables = (
            mapped("columns", weights, lambda t: columns(t, op.group_channels, lanes)),
            paired("limits", weights, thresholds, lambda w, t: limits(op, w, t, lanes)),
        )
        why = f"columns of at most {op.fan_in // 2} of {op.fan_in} inputs, {lanes} outputs at once"
        return Laid(tables, f"{why}, {scratch_bytes(op, lanes)} bytes of memory besides")

    def cost(task: Task[Conv]) -> float:
        op = task.op
        words = -(-op.y.shape[2] // lanes)
        return LOOKED_AT * op.fan_in + words * (ADDED[name] * op.fan_in + COMPARED[name] * planes(op))

    return Kernel(
        name,
        Conv,
        about=about,
        needs=f"dense layers of at most {MOST:,} inputs, whose bits fill their words or are those of one pixel",
        chosen="where adding half of the inputs takes fewer instructions than `dense`",
        on=lambda cpu: cpu.lanes == lanes,
        fits=lambda task: fits(task.op),
        cost=cost,
        lay=lay,
        arguments=_arguments,
        takes_ram=True,
        scratch=lambda task: scratch_bytes(task.op, lanes),
    )


FAMILY: tuple[Kernel[Any], ...] = (
    _kernel("dense_columns", "adds, for 32 outputs at once, the weights of the inputs whose sign is rarer", LANES),
    _kernel("dense_quads", "as `dense_columns`, for 128 outputs in a vector", 4 * LANES),
)

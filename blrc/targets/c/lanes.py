"""Bit-sliced 3x3 convolutions on x86-64: which can be one, and their tables (``blrc_lanes.h`` of the runtime)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blrc.pack import unpack, words
from blrc.program import Conv, Program
from blrc.targets.c import tiles
from blrc.targets.c.steps import Step, mapped
from blrc.window import Window

VECTOR, EIGHTS, PLANES, FRONT, MASKS = 32, 2, 13, 8, 5  # BLRC_LANES_* and BLRC_MASKS
MOST = 904  # channels: 9 of them, and one more, stay below 2^13
LEAST_OUTPUTS = 32  # that share tables
LEAST_LANES = 0.9  # of those that are computed, so many have to be pixels
LEAST_LANES_OF_FEW = 0.6
FEW = 64  # channels: tiles then take long to gather what they soon have counted
_SAME = Window((3, 3), padding=(1, 1, 1, 1))
_HALF = Window((2, 2), (2, 2))


def step(program: Program, op: Conv) -> Step | None:
    """The step of a binary convolution where being bit-sliced pays on some CPUs, else None."""
    in_tiles = tiles.step(program, op)
    if not pays(op) or in_tiles is None:
        return None
    channels = op.x.shape[2]
    tables = (
        *(table for table in in_tiles.tables if table.role != "bytes"),
        mapped("patterns", program.constants[op.weights], lambda t: patterns(t, channels)),
        mapped("bounds", program.constants[op.thresholds], lambda t: bounds(t, op.fan_in)),
    )
    lanes_used = f"{op.x.shape[0] * op.x.shape[1]} of {lanes(op)}"
    why = f"{op.window.taps * words(channels)} words a row; bit-sliced before AVX-512, {lanes_used} lanes are pixels"
    return Step(op, None, "conv_lanes", why, in_tiles.rows, tables, scratch_bytes(op))


def pays(op: Conv) -> bool:
    """The kernel can compute it, and before AVX-512 it is the fastest."""
    height, width, channels = op.x.shape
    least = LEAST_LANES_OF_FEW if channels <= FEW else LEAST_LANES
    return (
        op.window == _SAME
        and op.groups == 1
        and op.pool in (None, _HALF)
        and channels % 8 == 0
        and channels <= MOST
        and op.y.shape[2] >= LEAST_OUTPUTS
        and height * width >= least * lanes(op)
    )


def lanes(op: Conv) -> int:
    """Lanes of whole vectors for a map whose rows take whole bytes."""
    height, width, _ = op.x.shape
    return -(-height * -(-width // 8) // VECTOR) * VECTOR * 8


def scratch_bytes(op: Conv) -> int:
    """Memory that the kernel needs while it runs: tables of some channels, sums and results, all planes, masks."""
    height, width, channels = op.x.shape
    outputs = op.y.shape[2]
    plane = FRONT + (height + 2) * -(-width // 8) + VECTOR + 8
    tables, sums, results = 8 * EIGHTS * 48 * VECTOR, outputs * PLANES * VECTOR, 32 * words(outputs) * VECTOR
    total = 64 + tables + sums + results + (32 * words(channels) + MASKS) * plane
    return -(-total // 4) * 4


def patterns(weights: NDArray[np.uint32], channels: int) -> NDArray[np.uint8]:
    """Weights ``(out, 3, 3, words)`` as ``[8 channels][out][channel][kernel row]``, flat: 16 times the three bits."""
    bits = unpack(weights, channels).astype(np.uint8)
    three = (bits[:, :, 0] | bits[:, :, 1] << 1 | bits[:, :, 2] << 2) << 4  # (out, kernel row, channel)
    return three.reshape(len(weights), 3, -1, 8).transpose(2, 0, 3, 1).astype(np.uint8).reshape(-1)


def bounds(thresholds: NDArray[np.int32], fan_in: int) -> NDArray[np.int32]:
    """A row passes where fewer bits differ than this, those that are absent counted by halves."""
    return ((fan_in - thresholds.astype(np.int64)) // 2 + 1).astype(np.int32)

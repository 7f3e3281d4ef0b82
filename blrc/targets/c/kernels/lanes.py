"""Bit-sliced 3x3 convolutions on x86-64: which can be one, and their tables (``blrc_lanes.h`` of the runtime)."""

from __future__ import annotations

import numpy as np

from blrc.net.bits import words
from blrc.net.window import Window
from blrc.program.program import Conv, Program
from blrc.targets.c.kernels import slices, tiles
from blrc.targets.c.kernels.cpus import TIERS, X86_64
from blrc.targets.c.kernels.steps import Step, mapped, paired

VECTOR, SHARING, PLANES, FRONT, MASKS = 32, 6, 15, 8, 4  # BLRC_LANES_* and BLRC_MASKS
MOST = 904  # channels: places in the table, times PLACE, stay below 2^16
PLACE = 4  # a list has so many times the place in the table
SHARED = 5  # outputs that share taps, at most: more are slower
LEAST_OUTPUTS = 8  # that share taps
LEAST_LANES = 0.38  # of those that are computed, so many have to be pixels
# The same share at the level of AVX-512, which counts bits in vectors as well. Measured on Zen 4 (us): 128 channels to
# 128 at 32x32, where all lanes are pixels, took 121 in AVX2's lanes and 142 in AVX-512's tiles; 256 to 256 at 14x14,
# where 77 % are pixels, took 102.2 and 99.5; 32 to 64 at 14x14 took 5.7 and 5.1.
LEAST_LANES_AVX512 = 0.9
_SAME = Window((3, 3), padding=(1, 1, 1, 1))
_HALF = Window((2, 2), (2, 2))


def step(program: Program, op: Conv) -> Step | None:
    """The step of a binary convolution where being bit-sliced pays on some CPUs, else None."""
    in_tiles = tiles.step(program, op)
    if not pays(op) or in_tiles is None:
        return None
    channels, sharing = op.x.shape[2], min(SHARED, slices.sharing(op))
    weights, thresholds = program.constants[op.weights], program.constants[op.thresholds]
    front = np.array([sharing, TIERS[X86_64].index(highest_level(op))], np.uint16)
    tables = (
        *(table for table in in_tiles.tables if table.role != "bytes"),
        # Of one length whatever the weights: networks of one structure share a compiled library (`slots`).
        slices.equally_long(
            mapped("lists", weights, lambda t: np.append(front, slices.lists(t, channels, sharing, PLACE))),
            len(front) + slices.longest(op, sharing),
        ),
        paired("starts", weights, thresholds, lambda w, t: slices.limits(op, w, t, sharing)),
    )
    lanes_used = f"{op.x.shape[0] * op.x.shape[1]} of {lanes(op)}"
    until = "at every level with vectors" if highest_level(op) == "avx512" else "before AVX-512"
    why = f"{op.window.taps * words(channels)} words a row; bit-sliced {until}, {lanes_used} lanes are pixels"
    why += f", {sharing} outputs share the taps"
    return Step(op, None, "conv_lanes", why, in_tiles.rows, tables, scratch_bytes(op))


def pays(op: Conv) -> bool:
    """Return whether the kernel can compute the layer and is the fastest at some level of x86-64."""
    height, width, channels = op.x.shape
    return (
        op.window == _SAME
        and op.groups == 1
        and op.pool in (None, _HALF)
        and channels <= MOST
        and op.y.shape[2] >= LEAST_OUTPUTS
        and height * width >= LEAST_LANES * lanes(op)
        and scratch_bytes(op) < 2**31
    )


def highest_level(op: Conv) -> str:
    """Return the highest level of x86-64 at which the bit-sliced kernel is the fastest that the layer has."""
    height, width, _ = op.x.shape
    return "avx512" if height * width >= LEAST_LANES_AVX512 * lanes(op) else "avx2"


def lanes(op: Conv) -> int:
    """Lanes of whole vectors for a map whose rows take whole bytes."""
    height, width, _ = op.x.shape
    return -(-height * -(-width // 8) // VECTOR) * VECTOR * 8


def scratch_bytes(op: Conv) -> int:
    """Memory that the kernel needs while it runs: taps and their opposites, sums, results, all planes, masks."""
    height, width, channels = op.x.shape
    outputs = op.y.shape[2]
    plane = FRONT + (height + 2) * -(-width // 8) + VECTOR + 8
    vectors = 1 + 18 * channels + 24 + (2 + SHARING) * PLANES + 32 * words(outputs)
    total = 128 + vectors * VECTOR + (32 * words(channels) + MASKS) * plane
    return -(-total // 4) * 4

"""Lay out bit-sliced 3x3 convolutions for x86-64 (``blrc_lanes.h`` of the runtime), and say which layers can be one."""

from __future__ import annotations

from typing import Any

import numpy as np

from blrc.net.bits import words
from blrc.net.window import Window
from blrc.program.program import Conv
from blrc.targets.c.kernels.families import slices
from blrc.targets.c.kernels.families.host import tiles
from blrc.targets.c.kernels.kernel import NOT_WORTH_IT, Kernel, Laid, Task, by_geometry
from blrc.targets.c.kernels.tables import mapped, paired
from blrc.targets.c.runtime_files import constant

VECTOR = constant("BLRC_LANES_VECTOR")  # bytes of the longest vector
SHARING = constant("BLRC_LANES_SHARING")  # the most outputs of a group
PLANES = constant("BLRC_LANES_PLANES")  # the most bits of a sum and its sign
FRONT = constant("BLRC_LANES_FRONT")  # bytes before a plane's first row
MASKS = 4  # BLRC_MASKS, which is in an enum of the runtime
MOST = 904  # the most channels: places in the table, times PLACE, stay below 2^16
PLACE = 4  # lists hold the place in the table times this
SHARED = 5  # the most outputs that share taps: more are slower
LEAST_OUTPUTS = 8
"""Is the least number of outputs that share taps for which a bit-sliced convolution is faster than tiles."""
LEAST_LANES = 0.38
"""Is the time of a lane divided by that of a pixel in tiles, before AVX-512: a layer is bit-sliced where so many of
the lanes are pixels. On 8x8 maps, where fewer are, look-ups are faster (docs/decisions/019-x86-64.md)."""
LEAST_LANES_AVX512 = 0.9
"""The same share at the level of AVX-512, which counts bits in vectors as well. Measured on Zen 4 (us): 128 channels to
128 at 32x32, where all lanes are pixels, took 121 in AVX2's lanes and 142 in AVX-512's tiles; 256 to 256 at 14x14,
where 77 % are pixels, took 102.2 and 99.5; 32 to 64 at 14x14 took 5.7 and 5.1."""
_SAME = Window((3, 3), padding=(1, 1, 1, 1))
_HALF = Window((2, 2), (2, 2))


def fits(op: Conv) -> bool:
    """Return whether the kernel can compute a layer.

    At levels of the instruction set that have no lanes, the layer is computed in tiles.
    """
    return (
        tiles.fits(op)
        and op.window == _SAME
        and op.pool in (None, _HALF)
        and op.x.shape[2] <= MOST
        and scratch_bytes(op) < 2**31
    )


def cost(task: Task[Conv]) -> float:
    """Return the cost of a layer at the levels before AVX-512, in whole vectors of lanes."""
    op = task.op
    if op.y.shape[2] < LEAST_OUTPUTS:
        return NOT_WORTH_IT
    return task.cpu.counted * op.fan_in * op.y.shape[2] * (LEAST_LANES * lanes(op))


def _lay(task: Task[Conv]) -> Laid:
    op, constants = task.op, task.program.constants
    in_tiles = tiles.lay_tiles(task)
    channels, sharing = op.x.shape[2], min(SHARED, slices.sharing(op))
    weights, thresholds = constants[op.weights], constants[op.thresholds]
    front = np.array([sharing, task.cpu.levels.index(highest_level(op))], np.uint16)
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
    return Laid(tables, f"{why}, {sharing} outputs share the taps", in_tiles.rows)


def highest_level(op: Conv) -> str:
    """Return the highest level of x86-64 at which the bit-sliced kernel is the layer's fastest."""
    height, width, _ = op.x.shape
    return "avx512" if height * width >= LEAST_LANES_AVX512 * lanes(op) else "avx2"


def lanes(op: Conv) -> int:
    """Return the lanes of whole vectors for a map whose rows take whole bytes."""
    height, width, _ = op.x.shape
    return -(-height * -(-width // 8) // VECTOR) * VECTOR * 8


def scratch_bytes(op: Conv) -> int:
    """Return the bytes of memory that the kernel needs while it runs.

    It holds taps and their opposites, sums, results, the planes of all channels, and masks.
    """
    height, width, channels = op.x.shape
    outputs = op.y.shape[2]
    plane = FRONT + (height + 2) * -(-width // 8) + VECTOR + 8
    vectors = 1 + 18 * channels + 24 + (2 + SHARING) * PLANES + 32 * words(outputs)
    total = 128 + vectors * VECTOR + (32 * words(channels) + MASKS) * plane
    return -(-total // 4) * 4


CONV_LANES = Kernel(
    "conv_lanes",
    Conv,
    about="adds the bits of 128 or 256 pixels at once; outputs share the taps that they add",
    needs=f"what `conv_tiles` needs, 3x3, padded by 1, at most {MOST} channels, without pooling or with 2x2 pooling",
    chosen=f"from {LEAST_OUTPUTS} outputs on, where at least {LEAST_LANES:.0%} of the lanes are pixels",
    fits=lambda task: fits(task.op),
    cost=cost,
    lay=_lay,
    arguments=by_geometry,
    geometry="conv",
    scratch=lambda task: scratch_bytes(task.op),
    asks=tiles.asks,
    companions=("conv_tiles",),
    inner=("lanes", "tile"),
)
FAMILY: tuple[Kernel[Any], ...] = (CONV_LANES,)

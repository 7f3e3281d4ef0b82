"""Bit-sliced convolutions: which can be one, and their weights.

The lanes of a word are pixels, and sums of three taps are looked up in tables that the caller gives memory for
(`runtime/src/blrc_conv_slices.c`): fewer instructions than any kernel that counts bits where there is no popcount.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blrc.pack import pack, unpack
from blrc.program import Conv
from blrc.window import Window

LANES = 32
CHANNELS = 8  # whose patterns share a word of weights
MOST = 1816  # channels: 9 of them stay below 2^14
_SAME = Window((3, 3), padding=(1, 1, 1, 1))
_HALF = Window((2, 2), (2, 2))


def fits(op: Conv) -> bool:
    """The kernel can compute it: 3x3 on a map of at most 32 columns, all channels in eights, pooled by 2x2 or not."""
    channels = op.x.shape[2]
    return (
        op.x.dtype == "bits"
        and op.window == _SAME
        and op.groups == 1
        and op.pool in (None, _HALF)
        and op.x.shape[1] <= LANES
        and channels % CHANNELS == 0
        and channels <= MOST
    )


def scratch_bytes(op: Conv, lanes: int = LANES) -> int:
    """Memory that the kernel needs while it runs: of three words' map rows, 8 patterns a channel, two words each.

    With 128 `lanes`, of a word four times as long.
    """
    return lanes // 8 * 3 * 8 * 2 * op.x.shape[2]


def used_lanes(op: Conv, lanes: int = LANES) -> int:
    """How many of the lanes hold a pixel of the map, where it is high enough."""
    return op.x.shape[1] * lanes // pitch(op)


def pitch(op: Conv) -> int:
    """Lanes from a map row to the next."""
    return next(lanes for lanes in (8, 16, LANES) if op.x.shape[1] <= lanes)


def weight_patterns(weights: NDArray[np.uint32], channels: int) -> NDArray[np.uint32]:
    """Weights as ``[output][kernel row][8 channels]``: a nibble for each channel, bit k of which is kernel column k.

    Args:
        weights: uint32 ``(out, 3, 3, words(channels))``.
    """
    columns = unpack(weights, channels).transpose(0, 1, 3, 2)  # (out, kernel row, channel, column)
    nibbles = np.concatenate([columns, np.zeros_like(columns[..., :1])], axis=3)
    return pack(nibbles.reshape(*columns.shape[:2], channels // CHANNELS, 4 * CHANNELS))[..., 0]

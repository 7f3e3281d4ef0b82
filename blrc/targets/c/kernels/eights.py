"""First layers that compute eight pixels at once in vectors: which can be one, and their memory.

Sums of four codes are looked up, for 8 pixels in the lanes of a vector, in tables that the caller gives memory for
(`runtime/src/blrc_conv_eights.c`): a quarter of the instructions of two pixels in the halves of a word.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blrc.net.window import Window
from blrc.program.program import Conv

LANES = 8
CODES = 32  # of a row of weights, at most: sums are within 2^12, and thresholds less than 2^15 away from them
REACH = 2**16  # bytes from the first pixel's code to the eighth's are less: Helium counts them in a lane
_HALF = Window((2, 2), (2, 2))


def fits(op: Conv) -> bool:
    """The kernel can compute it: codes, few in a row of weights, pooled by 2x2 or not, strides that are not huge."""
    return (
        op.x.dtype == "int8"
        and op.groups == 1
        and op.fan_in <= CODES
        and op.window.dilation == (1, 1)
        and (LANES - 1) * op.window.stride[1] * op.group_channels < REACH
        and op.pool in (None, _HALF)
    )


def scratch_bytes(op: Conv) -> int:
    """Memory that the kernel needs while it runs: tables of 16 sums of 8 pixels for every four codes of a row of
    weights, and the codes of as many rows of the map as the kernel has."""
    columns = (lanes(op) - 1) * op.window.stride[1] + op.window.kernel[1]
    rows = op.window.kernel[0] * columns * op.group_channels
    return -(-op.fan_in // 4) * 16 * LANES * 2 + -(-rows // 4) * 4


def lanes(op: Conv) -> int:
    """Pixels of a map row that are computed: whole vectors."""
    return -(-op.unpooled[1] // LANES) * LANES


def thresholds(of_rows: NDArray[np.int32], largest: int) -> NDArray[np.int16]:
    """Thresholds in 16 bits, for whole blocks of 8 rows: missing rows never pass."""
    padded = np.pad(of_rows, (0, -len(of_rows) % 8), constant_values=largest + 1)
    return padded.clip(-largest, largest + 1).astype(np.int16)

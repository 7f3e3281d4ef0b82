"""Compute eight pixels of a first layer at once, in vectors of 128 bits.

Sums of four codes are looked up for 8 pixels in the lanes of a vector. Their tables lie in memory that the caller gives
(`runtime/src/codes/blrc_conv_eights.c`). This takes a quarter of the instructions of two pixels in the halves of a
word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.window import Window
from blrc.program.program import Conv
from blrc.targets.c.kernels.families.codes import CODES, code_arguments, code_rows, encoded, of_codes, per_column
from blrc.targets.c.kernels.kernel import NOT_WORTH_IT, Kernel, Laid, Task
from blrc.targets.c.kernels.tables import mapped

LANES = 8  # lanes of 16 bits in a vector of 128 bits
VECTOR = 128  # `Cpu.lanes` of the CPUs that have such vectors
REACH = 2**16  # the first and the eighth pixel's codes are fewer bytes apart: Helium counts them in a lane
SHARE = 0.6
"""Is the time of a lane with eight pixels at once, divided by that of a pixel two at a time. MNIST's first layer,
which has 32 outputs and where 28 of 32 lanes are pixels, takes 155 thousand instructions on a Cortex-M55 and not 347:
0.39 (docs/decisions/020-vectors.md). Tables of sums are made once for all outputs: with 16, a lane takes more."""
LEAST_OUTPUTS = 16
"""Is the least number of outputs that share tables of sums for which eight pixels at once are faster than two."""
_HALF = Window((2, 2), (2, 2))


def fits(op: Conv) -> bool:
    """Return whether eight pixels at once can be computed.

    A layer fits if it has few codes in a row of weights, a stride that is not huge, one group, no dilation, and no
    pooling except by 2x2.
    """
    return (
        of_codes(op)
        and op.groups == 1
        and op.fan_in <= CODES  # sums are within 2^12, and thresholds less than 2^15 away from them
        and op.window.dilation == (1, 1)
        and (LANES - 1) * op.window.stride[1] * op.group_channels < REACH
        and op.pool in (None, _HALF)
    )


def cost(task: Task[Conv]) -> float:
    """Return the cost of computing eight pixels at once.

    It includes the unused lanes of the last vector of a map row.
    """
    if task.op.y.shape[2] < LEAST_OUTPUTS:
        return NOT_WORTH_IT
    return per_column(task) * (SHARE * lanes(task.op))


def lanes(op: Conv) -> int:
    """Return how many lanes are computed for a map row: those of whole vectors."""
    return -(-op.unpooled[1] // LANES) * LANES


def scratch_bytes(op: Conv) -> int:
    """Return the bytes of memory that the kernel needs while it runs.

    It holds tables of 16 sums of 8 pixels for every four codes of a row of weights, and the codes of as many rows of
    the map as the kernel has.
    """
    columns = (lanes(op) - 1) * op.window.stride[1] + op.window.kernel[1]
    rows = op.window.kernel[0] * columns * op.group_channels
    return -(-op.fan_in // 4) * 16 * LANES * 2 + -(-rows // 4) * 4


def thresholds(of_rows: NDArray[np.int32], largest: int) -> NDArray[np.int16]:
    """Return thresholds in 16 bits, padded to whole blocks of 8 rows with rows that never pass.

    Args:
        of_rows: int32 ``(out,)``.
        largest: the largest sum of a row.
    """
    padded = np.pad(of_rows, (0, -len(of_rows) % 8), constant_values=largest + 1)
    return padded.clip(-largest, largest + 1).astype(np.int16)


def _lay(task: Task[Conv]) -> Laid:
    op, constants, largest = task.op, task.program.constants, task.program.bounds(task.op)[1]
    weights = mapped("weights", constants[op.weights], lambda t: code_rows(t, op.group_channels, 1))
    limits = mapped("thresholds", constants[op.thresholds], lambda t: thresholds(t, largest))
    why = f"8-bit input, {op.fan_in} codes a row: eight pixels at once, {scratch_bytes(op)} bytes of memory besides"
    return encoded(task, (weights, limits), why)


CONV_EIGHTS = Kernel(
    "conv_eights",
    Conv,
    about="as `conv_pairs`, with eight pixels in the lanes of a vector",
    needs=f"codes in one group, at most {CODES} in a window; no pooling, or by 2x2",
    chosen=f"from {LEAST_OUTPUTS} outputs on, where at least {SHARE:.0%} of the lanes are pixels",
    on=lambda cpu: cpu.lanes == VECTOR,
    fits=lambda task: fits(task.op),
    cost=cost,
    lay=_lay,
    arguments=code_arguments,
    geometry="conv",
    takes_ram=True,
    scratch=lambda task: scratch_bytes(task.op),
)
FAMILY: tuple[Kernel[Any], ...] = (CONV_EIGHTS,)

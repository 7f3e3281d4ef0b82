"""Dense layers whose lanes are outputs: which can be one, and their tables.

Of every input's column of the weights only those of inputs that are +1 are added up, or of those that are -1 where they
are fewer (`runtime/src/blrc_columns.h`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack
from blrc.program.program import Conv, Program
from blrc.targets.c.kernels.steps import Step, mapped, paired

LANES = 32
MOST = 2**16 - 1  # inputs


def fits(op: Conv) -> bool:
    """The kernel can compute it: one window, the whole map, without gaps between the inputs' bits."""
    height, width, channels = op.x.shape
    return (
        op.x.dtype == "bits"
        and op.is_dense
        and op.groups == 1
        and op.pool is None
        and not any(op.window.padding)
        and (channels % LANES == 0 or height * width == 1)
        and op.fan_in <= MOST
    )


def step(program: Program, op: Conv, lanes: int = LANES) -> Step:
    """The step of a layer that fits."""
    scratch = scratch_bytes(op, lanes)
    weights, thresholds = program.constants[op.weights], program.constants[op.thresholds]
    tables = (
        mapped("columns", weights, lambda t: columns(t, op.group_channels, lanes)),
        paired("limits", weights, thresholds, lambda w, t: limits(op, w, t, lanes)),
    )
    why = f"columns of at most {op.fan_in // 2} of {op.fan_in} inputs, {lanes} outputs at once"
    why += f", {scratch} bytes of memory besides"
    return Step(op, None, "dense_columns" if lanes == LANES else "dense_quads", why, 1, tables, scratch)


def pays(op: Conv, lanes: int = LANES) -> bool:
    """It takes fewer instructions than counting bits, whatever the inputs are: half of them are added at most."""
    each, step, counting = (4.0, 40, 0.3) if lanes == LANES else (5.0, 60, 0.12)
    steps = -(-op.y.shape[2] // lanes)
    here = 8 * op.fan_in + steps * (each * op.fan_in + step * planes(op))
    return here < counting * op.fan_in * op.y.shape[2]


def planes(op: Conv) -> int:
    """Bits of what an output's sign is taken of: twice the number of inputs, and a sign; as many as are kept in
    registers (BLRC_LOW_PLANES) at least."""
    return max(4, op.fan_in.bit_length() + 2)


def scratch_bytes(op: Conv, lanes: int = LANES) -> int:
    """Memory that the kernel needs while it runs: which inputs are added, and planes of a sum."""
    return 4 * (op.fan_in // 2 + 1 + planes(op) * lanes // LANES)


def columns(weights: NDArray[np.uint32], channels: int, lanes: int = LANES) -> NDArray[np.uint32]:
    """For each so many outputs for each input a step: a bit for each output. Missing outputs are 0.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, words(channels))``.
    """
    bits = unpack(weights, channels).reshape(len(weights), -1)
    padded = np.pad(bits, ((0, -len(bits) % lanes), (0, 0)))
    return pack(np.ascontiguousarray(padded.reshape(-1, lanes, bits.shape[1]).transpose(0, 2, 1))).reshape(-1)


def limits(
    op: Conv, weights: NDArray[np.uint32], thresholds: NDArray[np.int32], lanes: int = LANES
) -> NDArray[np.uint32]:
    """For each so many outputs the planes of what sums are compared with: if inputs of +1 are added, or of -1."""
    ones = unpack(weights, op.group_channels).reshape(len(weights), -1).sum(axis=1).astype(np.int64)
    limit = ((op.fan_in - thresholds.astype(np.int64)) // 2).clip(-1, op.fan_in)
    both = np.pad(np.stack([limit - ones, limit + ones]), ((0, 0), (0, -len(ones) % lanes)))
    bits = (both[..., None] >> np.arange(planes(op)) & 1).astype(np.bool_)  # (2, out, planes)
    return pack(np.ascontiguousarray(bits.reshape(2, -1, lanes, planes(op)).transpose(1, 0, 3, 2))).reshape(-1)

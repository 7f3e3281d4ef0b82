"""Bit-sliced convolutions: which can be one, and their tables.

The lanes of a word are pixels, and several outputs share one walk over the taps, which are sorted by the outputs' signs
(`runtime/src/blrc_shared_taps.h`): far fewer instructions than any kernel that counts bits, popcount or not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import unpack
from blrc.net.window import Window
from blrc.program.program import Conv
from blrc.targets.c.kernels.kernel import NOT_WORTH_IT, Kernel, Laid, Task, by_geometry
from blrc.targets.c.kernels.tables import Table, mapped, paired
from blrc.targets.c.kernels.thresholds import most_differing
from blrc.targets.c.runtime_files import constant

LANES = 32
MOST = 1816  # channels: 9 of them stay below 2^14
SHARING = constant("BLRC_SHARING")  # outputs that share taps, at most
MOST_PLANES = constant("BLRC_PLANES")  # bits of a sum, and its sign
LEAST_OUTPUTS = 4
"""With fewer outputs that share its taps, a bit-sliced convolution is not faster than counting bits."""
SHARES = {"conv_slices": 0.25, "conv_quads": 0.3}
"""What a bit-sliced lane takes, as a share of what a pixel takes whose bits are counted. Measured where 28 of 32 lanes
are pixels: MNIST's second layer takes 598 thousand instructions on a Cortex-M4 and not 1,574, so 0.33; on a Cortex-M55
282 and not 873, so 0.28. In CIFAR-10's third to sixth layer it is 0.20 to 0.25 on a Cortex-M4 (docs/performance.md,
docs/decisions/020-vectors.md)."""
EIGHT = 8  # taps of a kind that are added at a time
TAP, KIND, MERGED, DECIDED = 8, 25, 11, 18
"""About how many instructions a Cortex-M4 takes to add a tap, to begin a kind of taps, to add a plane of the running
sum to an output's, and to decide by one. They make 4 outputs share 288 taps, and 6
2,304 (docs/decisions/024-shared-taps.md)."""
_SAME = Window((3, 3), padding=(1, 1, 1, 1))
_HALF = Window((2, 2), (2, 2))


def fits(op: Conv) -> bool:
    """The kernel can compute it: 3x3 on a map of at most 32 columns, pooled by 2x2 or not."""
    return (
        op.x.dtype == "bits"
        and op.window == _SAME
        and op.groups == 1
        and op.pool in (None, _HALF)
        and op.x.shape[1] <= LANES
        and op.x.shape[2] <= MOST
    )


def scratch_bytes(op: Conv, lanes: int = LANES) -> int:
    """Memory that the kernel needs while it runs: every tap's bits and their opposites, sums, results, places.

    With 128 `lanes`, of a word four times as long.
    """
    step, channels = lanes // LANES, op.x.shape[2]
    words = LANES + 3 * 8 + (1 + SHARING) * MOST_PLANES + 1 + 18 * channels
    return 4 * (step * words + (step + 2) * channels)


def used_lanes(op: Conv, lanes: int = LANES) -> int:
    """How many of the lanes hold a pixel of the map, where it is high enough."""
    return op.x.shape[1] * lanes // pitch(op)


def pitch(op: Conv) -> int:
    """Lanes from a map row to the next."""
    return next(lanes for lanes in (8, 16, LANES) if op.x.shape[1] <= lanes)


def planes(taps: int) -> int:
    """Bits of a sum of so many taps, and its sign."""
    return taps.bit_length() + 1


def sharing(op: Conv) -> int:
    """How many outputs share a walk over the taps so that one takes fewest instructions.

    Each output more doubles the kinds of taps: every kind is rounded up to eights, and where one ends a sum is added to
    another. Costs are a Cortex-M4's, about.
    """
    taps = op.fan_in
    each = planes(taps)

    def cost(outputs: int) -> float:
        kinds = 1 << (outputs - 1)
        walk = TAP * (taps + kinds * (EIGHT - 1) / 2) + KIND * kinds + MERGED * each * (kinds - 1)
        return walk / outputs + DECIDED * each

    return min(range(1, min(SHARING, op.y.shape[2]) + 1), key=cost)


def lists(weights: NDArray[np.uint32], channels: int, outputs: int, times: int = 1) -> NDArray[np.uint16]:
    """For each group of `outputs` (the last may be smaller), each kind of taps: how many times eight, and which.

    Tap (kernel row, channel, kernel column) is in place 1 + 2 * its number of the kernel's table, or one further where
    the first output's weight is +1. Place 0 has zeros. An output of the others changes its sign where the number of the
    kind in Gray's code has its bit.

    Args:
        weights: uint32 ``(out, 3, 3, words(channels))``.
        times: places are multiplied by it.
    """
    bits = _by_tap(weights, channels)
    found: list[NDArray[np.int64]] = []
    for first in range(0, len(bits), outputs):
        group = bits[first : first + outputs]
        gray = sum((group[j] ^ group[0]) << (j - 1) for j in range(1, len(group))) + np.zeros_like(group[0])
        kind = gray.copy()
        for j in range(1, len(group)):
            kind ^= gray >> j
        places = times * (1 + 2 * np.arange(bits.shape[1]) + group[0])
        for k in range(2 ** (len(group) - 1)):
            chosen = places[kind == k]
            eights = -(-len(chosen) // EIGHT)
            found += [np.array([eights]), np.pad(chosen, (0, EIGHT * eights - len(chosen)))]
    return np.concatenate(found).astype(np.uint16)


def longest(op: Conv, outputs: int) -> int:
    """How long lists of groups of `outputs` are at most, whatever the weights."""
    groups = [outputs] * (op.y.shape[2] // outputs) + [op.y.shape[2] % outputs]
    kinds = [1 << (group - 1) for group in groups if group]
    return sum(k + (op.fan_in + (EIGHT - 1) * k) // EIGHT * EIGHT for k in kinds)


def equally_long(table: Table, length: int = 0) -> Table:
    """All members' arrays as long as the longest, or `length`: they are found by their number (BLRC_MEMBER)."""
    length = max(length, *(len(array) for array in table.arrays))
    return replace(table, arrays=tuple(np.pad(array, (0, length - len(array))) for array in table.arrays))


def limits(op: Conv, weights: NDArray[np.uint32], thresholds: NDArray[np.int32], outputs: int) -> NDArray[np.uint16]:
    """What sums of groups of `outputs` start from: for each output and plane, a bit for each of 3x3 kinds of places.

    With n real taps an output passes where no more than floor((n - t) / 2) of them differ, and with them those outside
    the map whose weight is +1, since they read as -1. A tap that counts with the opposite sign counts 1 first.
    """
    taps, channels = op.fan_in, op.group_channels
    bits = _by_tap(weights, channels)
    ones = bits.reshape(len(bits), 3, channels, 3).sum(axis=2)  # (out, kernel row, kernel column)
    first = bits[np.arange(len(bits)) // outputs * outputs]
    opposite = (bits ^ first).sum(axis=1)
    found = np.zeros((len(bits), planes(taps)), np.int64)
    for i, (top, bottom) in enumerate(_inside(op.x.shape[0])):
        for j, (left, right) in enumerate(_inside(op.x.shape[1])):
            inside = ones[:, top:bottom, left:right].sum(axis=(1, 2))
            real = (bottom - top) * (right - left) * channels
            limit = most_differing(real, thresholds) + ones.sum(axis=(1, 2)) - inside
            start = limit.clip(-1, taps) - opposite
            found |= (start[:, None] >> np.arange(found.shape[1]) & 1) << (3 * i + j)
    return found.reshape(-1).astype(np.uint16)


def _by_tap(weights: NDArray[np.uint32], channels: int) -> NDArray[np.int64]:
    """Bits ``(out, taps)``, taps by kernel row, channel and kernel column."""
    return unpack(weights, channels).transpose(0, 1, 3, 2).reshape(len(weights), -1).astype(np.int64)


def _inside(size: int) -> list[tuple[int, int]]:
    """Taps first <= t < end that are inside the map, for the first place along an axis, one between, and the last."""
    return [(1, 2 if size == 1 else 3), (0, 3), (0, 2)]


def _kernel(name: str, about: str, lanes: int) -> Kernel[Conv]:
    """Return the record of the kernel whose words have so many lanes."""

    def lay(task: Task[Conv]) -> Laid:
        op, constants, outputs = task.op, task.program.constants, sharing(task.op)
        weights, thresholds = constants[op.weights], constants[op.thresholds]
        tables = (
            equally_long(mapped("lists", weights, lambda t: lists(t, op.group_channels, outputs))),
            paired("limits", weights, thresholds, lambda w, t: limits(op, w, t, outputs)),
        )
        why = f"bit-sliced, {used_lanes(op, lanes)} of {lanes} lanes, {outputs} outputs share the taps"
        return Laid(tables, f"{why}, {scratch_bytes(op, lanes)} bytes of tables in the arena", outputs)

    def cost(task: Task[Conv]) -> float:
        op = task.op
        if op.y.shape[2] < LEAST_OUTPUTS:
            return NOT_WORTH_IT
        rows = op.y.shape[0] * (1 if op.pool is None else op.pool.stride[0])
        words = -(-rows // (lanes // pitch(op)))
        return task.cpu.counted * op.fan_in * op.y.shape[2] * (SHARES[name] * lanes * words)

    return Kernel(
        name,
        Conv,
        about=about,
        needs=f"3x3 convolutions in one group on maps of at most {LANES} columns, padded by 1, "
        "without pooling or with 2x2 pooling",
        chosen=f"from {LEAST_OUTPUTS} outputs on, where at least {SHARES[name]:.0%} of the lanes are pixels",
        on=lambda cpu: cpu.lanes == lanes,
        fits=lambda task: fits(task.op),
        cost=cost,
        lay=lay,
        arguments=by_geometry,
        geometry="conv",
        takes_ram=True,
        scratch=lambda task: scratch_bytes(task.op, lanes),
    )


FAMILY: tuple[Kernel[Any], ...] = (
    _kernel("conv_slices", "adds the bits of 32 pixels at once; outputs share the taps that they add", LANES),
    _kernel("conv_quads", "as `conv_slices`, with 128 pixels in a vector", 4 * LANES),
)

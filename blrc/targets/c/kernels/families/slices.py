"""Lay out bit-sliced 3x3 convolutions, and say which layers can be one.

The lanes of a word are pixels. Several outputs share one walk over the taps, which are sorted by the outputs' signs
(`runtime/src/sliced/blrc_shared_taps.h`). This takes far fewer instructions than any kernel that counts bits, with or
without a popcount instruction.
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
MOST = 1816  # the most channels: 9 taps of each stay below 2^14
SHARING = constant("BLRC_SHARING")  # the most outputs that share taps
MOST_PLANES = constant("BLRC_PLANES")  # the most bits of a sum and its sign
LEAST_OUTPUTS = 4
"""Is the least number of outputs that share taps for which a bit-sliced convolution is faster than counting bits."""
SHARES = {"conv_slices": 0.25, "conv_quads": 0.3}
"""Holds the time of a bit-sliced lane, divided by that of a pixel whose bits are counted. Measured where 28 of 32 lanes
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
    """Return whether the kernel can compute a layer.

    It computes 3x3 convolutions on maps of at most 32 columns, padded by 1, in one group, and pooled by 2x2 or not at
    all.
    """
    return (
        op.x.dtype == "bits"
        and op.window == _SAME
        and op.groups == 1
        and op.pool in (None, _HALF)
        and op.x.shape[1] <= LANES
        and op.x.shape[2] <= MOST
    )


def scratch_bytes(op: Conv, lanes: int = LANES) -> int:
    """Return the bytes of memory that the kernel needs while it runs.

    It holds every tap's bits and their opposites, sums, results and places.

    Args:
        lanes: lanes of a word; with 128 of them a word is four times as long.
    """
    step, channels = lanes // LANES, op.x.shape[2]
    words = LANES + 3 * 8 + (1 + SHARING) * MOST_PLANES + 1 + 18 * channels
    return 4 * (step * words + (step + 2) * channels)


def used_lanes(op: Conv, lanes: int = LANES) -> int:
    """Return how many of the lanes hold a pixel of the map, provided that the map is high enough."""
    return op.x.shape[1] * lanes // pitch(op)


def pitch(op: Conv) -> int:
    """Return the number of lanes from one map row to the next."""
    return next(lanes for lanes in (8, 16, LANES) if op.x.shape[1] <= lanes)


def planes(taps: int) -> int:
    """Return the bits of a sum of `taps` taps and its sign."""
    return taps.bit_length() + 1


def sharing(op: Conv) -> int:
    """Return how many outputs share a walk over the taps so that one output takes the fewest instructions.

    Each further output doubles the kinds of taps. Every kind is rounded up to a multiple of eight taps, and where a
    kind ends, a sum is added to another. The costs are about those of a Cortex-M4.
    """
    taps = op.fan_in
    each = planes(taps)

    def cost(outputs: int) -> float:
        kinds = 1 << (outputs - 1)
        walk = TAP * (taps + kinds * (EIGHT - 1) / 2) + KIND * kinds + MERGED * each * (kinds - 1)
        return walk / outputs + DECIDED * each

    return min(range(1, min(SHARING, op.y.shape[2]) + 1), key=cost)


def lists(weights: NDArray[np.uint32], channels: int, outputs: int, times: int = 1) -> NDArray[np.uint16]:
    """Return the lists of taps: for each group of outputs, each kind's number of eights followed by its taps.

    A tap is given by its place in the kernel's table. Tap number i (counted by kernel row, channel, kernel column) has
    place 1 + 2 i, or 2 + 2 i if the first output's weight is +1. Place 0 holds zeros and pads each kind to whole
    eights. Kinds are numbered in the order of a Gray code: output j > 0 of the group has the opposite sign of the first
    output if bit j - 1 of the kind's Gray code is set.

    Args:
        weights: uint32 ``(out, 3, 3, words(channels))``.
        channels: channels of the input.
        outputs: outputs of a group; the last group may be smaller.
        times: a factor by which places are multiplied.
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
    """Return the greatest length that the lists of groups of `outputs` can have, whatever the weights."""
    groups = [outputs] * (op.y.shape[2] // outputs) + [op.y.shape[2] % outputs]
    kinds = [1 << (group - 1) for group in groups if group]
    return sum(k + (op.fan_in + (EIGHT - 1) * k) // EIGHT * EIGHT for k in kinds)


def equally_long(table: Table, length: int = 0) -> Table:
    """Pad all members' arrays with zeros to the length of the longest, or to `length` if that is more.

    Equal lengths let a member's array be found by the member's number (BLRC_MEMBER).
    """
    length = max(length, *(len(array) for array in table.arrays))
    return replace(table, arrays=tuple(np.pad(array, (0, length - len(array))) for array in table.arrays))


def limits(op: Conv, weights: NDArray[np.uint32], thresholds: NDArray[np.int32], outputs: int) -> NDArray[np.uint16]:
    """Return what the sums start from: for each output and plane, a bit for each of the 3x3 kinds of places in the map.

    With n real taps an output passes if at most floor((n - t) / 2) of them differ. Taps outside the map read as -1, so
    those whose weight is +1 differ as well, and the limit is raised by as many. For each tap that an output counts with
    the opposite sign, 1 is subtracted in advance.

    Args:
        weights: uint32 ``(out, 3, 3, words(channels))``.
        thresholds: int32 ``(out,)``.
        outputs: outputs of a group.
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
    """Return the bits of weights as ``(out, taps)``, with taps ordered by kernel row, channel and kernel column."""
    return unpack(weights, channels).transpose(0, 1, 3, 2).reshape(len(weights), -1).astype(np.int64)


def _inside(size: int) -> list[tuple[int, int]]:
    """Return which taps, first <= t < end, lie inside the map, for three places along an axis.

    The places are the first one, one between, and the last one.
    """
    return [(1, 2 if size == 1 else 3), (0, 3), (0, 2)]


def _kernel(name: str, about: str, lanes: int) -> Kernel[Conv]:
    """Return the record of the kernel whose words have `lanes` lanes."""

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

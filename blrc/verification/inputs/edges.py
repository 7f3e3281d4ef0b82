"""Build maps on which the sums of one op lie at, just below and just above every threshold.

For each channel of a `Conv` a random pooled position is chosen, and the inputs that it sees are *steered*: starting
from random values, inputs are changed until the largest pre-activation within the pooling window equals the goal. (A
single decision would be hidden by its neighbours in the window.) Several such places share a map if they do not
overlap. Places at the borders are included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.window import Window
from blrc.program.program import Conv, Encode, Program
from blrc.verification.inputs.steering import steer_bits, steer_codes

_ONE = Window((1, 1))
MOST_THRESHOLDS = 4
"""Thresholds of a channel that are tried: a channel of codes of 8 bits has 255."""
AT_ONCE = 1 << 25  # values of the maps that are there at a time
MOST_SEEN = 1 << 22  # pairs of a sum and an input that it sees, or choices of inputs: 32 MiB in each of some arrays


@dataclass(frozen=True, eq=False)
class EdgeMaps:
    """Hold inputs of one op, ``(N, H, W, C)``: bool for bits, codes, or raw uint8 if an `Encode` feeds the op.

    Attributes:
        maps: the inputs.
        wanted: the number of (channel, side) pairs asked for: below, at and above each threshold that some sums can
            reach and others cannot.
        reached: the number of these pairs that the maps hold; for the others no input was found.
    """

    maps: NDArray[Any]
    wanted: int
    reached: int


@dataclass(frozen=True)
class _Place:
    """Describe which inputs one pooled output position sees, and which weight each of them meets in every sum.

    Attributes:
        rows, columns: the region of the input map.
        taps: (sums, region height, region width): for each sum in the pooling window, the index of the kernel tap that
            meets the input there, or -1.
    """

    rows: slice
    columns: slice
    taps: NDArray[np.int64]


def edge_maps(program: Program, op: Conv, member: int = 0, seed: int = 0) -> Iterator[EdgeMaps]:
    """Yield the maps for one op of one member, some at a time; they are deterministic in `seed`.

    If the op's sums see so many inputs that steering would take too much memory (`MOST_SEEN`), there are no maps.
    """
    rng = np.random.default_rng(seed)
    thresholds = program.constant(op.thresholds, member).astype(np.int64)
    weights = op.numbers(program, member).astype(np.int64)
    low, high = program.bounds(op)
    jobs = [(c, int(t), side) for c, t in _tried(thresholds, low, high) for side in (-1, 0, 1)]
    jobs = [jobs[i] for i in rng.permutation(len(jobs))]
    choices = _choices(program, op, member)
    if not _affordable(op):
        yield EdgeMaps(_as_input(op, choices, np.empty((0, *op.x.shape), np.int16), program), len(jobs), 0)
        return
    raw, codes = _background(op, choices, rng)
    done = []
    most = max(1, AT_ONCE // raw.size)
    wanted, reached = len(jobs), 0
    places = _places(op, rng)
    for channel, threshold, side in jobs:
        place = next(places)
        if place is None:
            done.append(_as_input(op, choices, raw, program))
            if len(done) == most:
                yield EdgeMaps(np.stack(done), wanted, reached)
                done, wanted, reached = [], 0, 0
            raw, codes = _background(op, choices, rng)
            place = next(places)
        if place is None:
            break  # no output sees any input: nothing can be steered
        group = channel // (op.y.shape[2] // op.groups)
        channels = slice(group * op.group_channels, (group + 1) * op.group_channels)
        region = (place.rows, place.columns, channels)
        matrix = _matrix(weights[channel], place.taps)
        goal = threshold + side
        if choices is None:
            steered, good = steer_bits(matrix, codes[region].ravel(), goal, side, rng, op.whole)
            raw[region] = codes[region] = steered.reshape(codes[region].shape)
        else:
            per_input = _per_input(choices, codes[region].shape, channels)
            picked, good = steer_codes(matrix, raw[region].ravel(), per_input, goal, rng, op.whole)
            raw[region] = picked.reshape(raw[region].shape)
            codes[region] = per_input[np.arange(len(picked)), picked].reshape(codes[region].shape)
        reached += good
    done.append(_as_input(op, choices, raw, program))
    yield EdgeMaps(np.stack(done), wanted, reached)


def _tried(thresholds: NDArray[np.int64], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield channels and thresholds that some sums reach and others do not, of each channel `MOST_THRESHOLDS` at most.

    Of more, the first one, the last one, and some as far apart as can be are taken.
    """
    for c, row in enumerate(thresholds.reshape(len(thresholds), -1)):
        live = np.unique(row[(row > low) & (row <= high)])
        places = np.unique(np.linspace(0, len(live) - 1, min(len(live), MOST_THRESHOLDS)).astype(int))
        yield from ((c, int(live[place])) for place in places)


def _affordable(op: Conv) -> bool:
    """Return whether the sums of a pooling window and the inputs that they see are few enough to be steered."""
    pool = op.pool or _ONE
    reach = [(pool.span[axis] - 1) * op.window.stride[axis] + op.window.span[axis] for axis in (0, 1)]
    inputs = min(op.x.shape[0], reach[0]) * min(op.x.shape[1], reach[1]) * op.group_channels
    choices = 1 if op.x.dtype == "bits" else 256
    return max(pool.taps * op.window.taps, pool.taps * inputs, choices * inputs) <= MOST_SEEN


def _choices(program: Program, op: Conv, member: int) -> NDArray[np.int64] | None:
    """Return the codes that each channel's inputs can take, ``(channels, codes)``, or None if the inputs are bits.

    If a table encodes the inputs, the codes are in the order of raw values.
    """
    if op.x.dtype == "bits":
        return None
    channels = op.x.shape[2]
    for other in program.ops:
        if isinstance(other, Encode) and other.y == op.x:
            table = program.constant(other.table, member).astype(np.int64)
            return np.broadcast_to(table, (channels, 256)) if len(table) == 1 else table
    element = op.x.element
    return np.broadcast_to(np.arange(element.low, element.high + 1), (channels, element.high - element.low + 1))


def _per_input(choices: NDArray[np.int64], shape: tuple[int, ...], channels: slice) -> NDArray[np.int64]:
    """Return the choices for every input of a flattened region, ``(inputs, codes)``."""
    pixels = shape[0] * shape[1]
    return np.tile(choices[channels], (pixels, 1))


def _background(
    op: Conv, choices: NDArray[np.int64] | None, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a random map, as indices into the choices (+-1 for bits) and as codes."""
    if choices is None:
        signs = rng.integers(0, 2, op.x.shape, np.int8) * np.int8(2) - np.int8(1)
        return signs, signs.copy()
    raw = rng.integers(0, choices.shape[1], op.x.shape, np.int16)
    return raw, choices[np.arange(op.x.shape[2]), raw].astype(np.int16)


def _as_input(op: Conv, choices: NDArray[np.int64] | None, raw: NDArray[Any], program: Program) -> NDArray[Any]:
    if choices is None:
        return np.asarray(raw > 0)
    if any(isinstance(other, Encode) and other.y == op.x for other in program.ops):
        return raw.astype(np.uint8)
    return (raw + op.x.element.low).astype(op.x.element.value)


def _places(op: Conv, rng: np.random.Generator) -> Iterator[_Place | None]:
    """Yield places whose regions do not overlap, on a grid with a new offset for every map, and None between maps."""
    pool = op.pool or _ONE
    reach = [(pool.span[axis] - 1) * op.window.stride[axis] + op.window.span[axis] for axis in (0, 1)]
    steps = [-(-reach[axis] // (pool.stride[axis] * op.window.stride[axis])) for axis in (0, 1)]
    height, width = op.y.shape[:2]
    live = any(_place(op, pool, y, x) is not None for y in range(height) for x in range(width))
    while True:
        found = False
        top = int(rng.integers(0, min(steps[0], height)))
        left = int(rng.integers(0, min(steps[1], width)))
        for y in range(top, height, steps[0]):
            for x in range(left, width, steps[1]):
                place = _place(op, pool, y, x)
                if place is not None:
                    found = True
                    yield place
        # An offset at which every place sees padding only makes no map.
        if found or not live:
            yield None


def _place(op: Conv, pool: Window, y: int, x: int) -> _Place | None:
    height, width, _ = op.x.shape
    unpooled_height, unpooled_width, _ = op.unpooled
    taps_of: list[list[tuple[int, int, int]]] = []
    for py in range(pool.kernel[0]):
        for px in range(pool.kernel[1]):
            oy = y * pool.stride[0] - pool.padding[0] + py * pool.dilation[0]
            ox = x * pool.stride[1] - pool.padding[1] + px * pool.dilation[1]
            if not (0 <= oy < unpooled_height and 0 <= ox < unpooled_width):
                continue
            taps = []
            for ky in range(op.window.kernel[0]):
                for kx in range(op.window.kernel[1]):
                    iy = oy * op.window.stride[0] - op.window.padding[0] + ky * op.window.dilation[0]
                    ix = ox * op.window.stride[1] - op.window.padding[1] + kx * op.window.dilation[1]
                    if 0 <= iy < height and 0 <= ix < width:
                        taps.append((iy, ix, ky * op.window.kernel[1] + kx))
            taps_of.append(taps)
    seen = [tap for taps in taps_of for tap in taps]
    if not seen:
        return None
    top, left = min(t[0] for t in seen), min(t[1] for t in seen)
    bottom, right = max(t[0] for t in seen) + 1, max(t[1] for t in seen) + 1
    index = np.full((len(taps_of), bottom - top, right - left), -1)
    for row, taps in enumerate(taps_of):
        for iy, ix, tap in taps:
            index[row, iy - top, ix - left] = tap
    return _Place(slice(top, bottom), slice(left, right), index)


def _matrix(weights: NDArray[np.int64], taps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the weight of each input in each sum, ``(sums, inputs of the region)``, or 0 where it has none."""
    flat = np.concatenate([weights.reshape(-1, weights.shape[-1]), np.zeros((1, weights.shape[-1]), dtype=np.int64)])
    matrix: NDArray[np.int64] = flat[taps].reshape(len(taps), -1)
    return matrix

"""Generate inputs of a whole network for verification: random and adversarial ones, in device layout."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.elements import ELEMENTS
from blrc.program.program import Value

AT_ONCE = 1 << 21  # values that are drawn at a time
MOST = 1 << 28  # values of all inputs of a kind together
SPOTTED = 1 << 24  # values of the maps with a single extreme pixel, where that leaves fewer of them


def random_inputs(value: Value, count: int, seed: int) -> NDArray[Any]:
    """Return `count` random inputs ``(N, H, W, C)``: half of them noise over the whole range, half of them mostly flat.

    Raises:
        BlrcError: they would have more than `MOST` values.
    """
    size = prod(value.shape)
    if count * size > MOST:
        raise BlrcError(f"{count:,} random inputs of {value.shape} are too many; ask for at most {MOST // size:,}")
    rng = np.random.default_rng(seed)
    step = max(1, AT_ONCE // size)
    return np.concatenate([_random(value, min(step, count - i), rng) for i in range(0, max(count, 1), step)])


def _random(value: Value, count: int, rng: np.random.Generator) -> NDArray[Any]:
    shape = (count, *value.shape)
    if value.dtype == "bits":
        density = rng.random((count, 1, 1, 1))
        return np.asarray(rng.random(shape) < density)
    low, high = ELEMENTS[value.dtype].low, ELEMENTS[value.dtype].high
    raw = rng.integers(low, high + 1, shape)
    # Real images are flat over large areas, which noise never is.
    flat = rng.random(shape) < rng.random((count, 1, 1, 1))
    flat[: count // 2] = False
    raw = np.where(flat, rng.integers(low, high + 1, (count, 1, 1, 1)), raw)
    return raw.astype(ELEMENTS[value.dtype].value)


def adversarial_inputs(value: Value) -> NDArray[Any]:
    """Return extreme inputs: uniform maps, checkerboards and stripes, and maps with a single extreme value.

    The uniform maps hold the lowest value, the highest value, or the zero code everywhere. The single extreme values
    (at most 128 places, spread over the map and always at its corners) lie on either background.
    """
    low, high = ELEMENTS[value.dtype].low, ELEMENTS[value.dtype].high
    height, width, channels = value.shape
    size = prod(value.shape)
    corners = [0, width - 1, (height - 1) * width, height * width - 1]
    singles = {pixel * channels for pixel in corners} | {size - 1}
    singles |= {int(i) for i in np.linspace(0, size - 1, min(size, 123, SPOTTED // size))}
    dtype = ELEMENTS[value.dtype].value
    y, x, c = (axis % 2 == 1 for axis in np.ogrid[:height, :width, :channels])
    patterns = [y ^ x ^ c, ~(y ^ x ^ c), x, y]  # True: the highest value; of one byte each, as maps can be large
    whole: NDArray[Any] = np.empty((3 + len(patterns) + 2 * len(singles), *value.shape), dtype)
    for i, fill in enumerate((low, high, (low + high + 1) // 2)):
        whole[i] = fill
    for i, pattern in enumerate(patterns):
        whole[3 + i] = np.where(pattern, dtype.type(high), dtype.type(low))
    spotted = whole[3 + len(patterns) :].reshape(len(singles), 2, size)
    for i, (background, spot) in enumerate(((low, high), (high, low))):
        spotted[:, i] = background
        spotted[np.arange(len(singles)), i, sorted(singles)] = spot
    return whole

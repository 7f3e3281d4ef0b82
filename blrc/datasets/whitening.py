"""Whiten images by ZCA in integers, so that the codes are the same on every machine.

The map is fitted on training images x (uint8, flattened to D values) with mean m and covariance C = U diag(l) U^T.

    y = U diag((l + f)^(-1/2)) U^T (x - m),        f = floor x mean of l

has nearly uncorrelated values and still looks like x (ZCA: Bell & Sejnowski 1997; the floor keeps noise in directions
without variance from being blown up). A network sees y divided by its overall deviation as int8 codes with a scale:

    code = clip((A (x - n) + offset + 2^(shift - 1)) >> shift, -127, 127)

Here n is m rounded, A the int16 matrix of ``scale / deviation x U diag(...) U^T x 2^shift`` rounded, and the offset
is A (n - m), rounded. A is symmetric, so a checkpoint holds only its upper triangle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief
from blrc.errors import BlrcError
from blrc.net.encoding import InputEncoding, int8_codes
from blrc.net.standardising import LEAST
from blrc.reading.schema import unknown_field

FLOOR = 0.1
SCALE = 16.0  # codes per deviation: they saturate at 8 deviations
CHUNK = 2_000  # images at a time
_LARGEST = (1 << 15) - 1


@dataclass(frozen=True, eq=False, repr=False)
class Whitening(Brief):
    """Hold a fitted map from uint8 images to int8 codes.

    Attributes:
        shape: shape of an image, ``(C, H, W)``; D = C H W.
        scale: codes per unit of the network's input.
        matrix: A, int16 ``(D, D)``, symmetric.
        centre: n, uint8 ``(D,)``.
        offset: int64 ``(D,)``.
        shift: the number of bits by which sums are shifted.
    """

    shape: tuple[int, ...]
    scale: float
    matrix: NDArray[np.int16]
    centre: NDArray[np.uint8]
    offset: NDArray[np.int64]
    shift: int

    @property
    def encoding(self) -> InputEncoding:
        """Return the input encoding of a network that takes the codes."""
        return int8_codes(self.shape, scale=self.scale)

    def codes(self, images: NDArray[Any]) -> NDArray[np.int8]:
        """Return the whitened codes of raw images, uint8 ``(N, C, H, W)``; they are int8 of the same shape.

        Raises:
            BlrcError: the images have another type or shape.
        """
        if images.dtype != np.uint8 or images.shape[1:] != self.shape or images.ndim != len(self.shape) + 1:
            raise BlrcError(f"whitening: takes uint8 images (N, {', '.join(map(str, self.shape))}), "
                            f"got {images.dtype} {images.shape}")  # fmt: skip
        # Products of integers in float64 (BLAS has no integers): below 2^53, so exact in any order.
        matrix = self.matrix.astype(np.float64)
        out = np.empty((len(images), self.matrix.shape[0]), np.int8)
        half = np.int64((1 << self.shift) >> 1)
        for part, raw in _chunks(images):
            centred = raw.astype(np.float64) - self.centre
            sums = (centred @ matrix).astype(np.int64) + self.offset
            out[part] = np.clip((sums + half) >> self.shift, -127, 127)
        return out.reshape(images.shape)


def fit(images: NDArray[Any], floor: float = FLOOR, scale: float = SCALE) -> Whitening:
    """Fit the ZCA whitening of training images, uint8 ``(N, C, H, W)``.

    Args:
        floor: added to every variance, as a share of the mean variance of a pixel; above 0.
        scale: codes per deviation.

    Raises:
        BlrcError: there are fewer than two images, they have another type or shape or are all the same, or an option is
            not positive.
    """
    if images.dtype != np.uint8 or images.ndim != 4 or len(images) < 2:
        raise BlrcError(
            f"whitening: is fitted on 2 or more uint8 images (N, C, H, W), got {images.dtype} {images.shape}"
        )
    for name, value in (("floor", floor), ("scale", scale)):
        if not (math.isfinite(value) and value > 0):
            raise BlrcError(f"whitening: {name} {value}: must be positive")
    mean, covariance = _moments(images)
    variance, directions = np.linalg.eigh(covariance)
    variance = variance.clip(0.0)
    if not variance.any():
        raise BlrcError("whitening: the images are all the same")
    floored = variance + floor * variance.mean()
    deviation = math.sqrt(float((variance / floored).mean()))
    real = (directions * (scale / deviation / np.sqrt(floored))) @ directions.T
    shift = math.floor(math.log2(_LARGEST / float(np.abs(real).max())))
    if shift < 0:
        raise BlrcError(f"whitening: the images differ too little for scale {scale}; give a smaller scale")
    matrix = np.rint(np.ldexp(0.5 * (real + real.T), shift)).astype(np.int16)
    centre = np.rint(mean).astype(np.uint8)
    offset = np.rint(matrix.astype(np.float64) @ (centre - mean)).astype(np.int64)
    return Whitening(images.shape[1:], float(scale), matrix, centre, offset, shift)


def pack(whitening: Whitening) -> dict[str, Any]:
    """Return a whitening as plain data and arrays; `unpack` is the inverse."""
    upper = whitening.matrix[np.triu_indices(len(whitening.matrix))]
    return {"shape": list(whitening.shape), "scale": whitening.scale, "shift": whitening.shift, "upper": upper,
            "centre": whitening.centre, "offset": whitening.offset}  # fmt: skip


def unpack(content: dict[str, Any]) -> Whitening:
    """Return the whitening that `pack` gave as plain data.

    A stranger may have changed the data, so the type and size of everything are checked.

    Raises:
        BlrcError: the data is no valid whitening.
    """
    if (key := unknown_field(content, ("shape", "scale", "shift", "upper", "centre", "offset"))) is not None:
        raise BlrcError(f"its whitening has a field {key}, which this version of blrc does not know")
    shape, scale, shift = (content.get(key) for key in ("shape", "scale", "shift"))
    upper, centre, offset = (content.get(key) for key in ("upper", "centre", "offset"))
    if not (isinstance(shape, list) and len(shape) == 3 and all(type(n) is int and n > 0 for n in shape)):
        raise BlrcError("its whitening is damaged (the shape); train it again")
    size = math.prod(shape)
    arrays = ((upper, np.int16, size * (size + 1) // 2), (centre, np.uint8, size), (offset, np.int64, size))
    for array, dtype, count in arrays:
        if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == (count,)):
            raise BlrcError("its whitening is damaged (its tables); train it again")
    if not (type(shift) is int and 0 <= shift < 32) or type(scale) not in (int, float):
        raise BlrcError("its whitening is damaged (its scale); train it again")
    assert isinstance(scale, int | float)
    if not LEAST <= scale <= 1 / LEAST:
        raise BlrcError("its whitening is damaged (its scale); train it again")
    assert isinstance(upper, np.ndarray) and isinstance(centre, np.ndarray) and isinstance(offset, np.ndarray)
    matrix = np.zeros((size, size), np.int16)
    start = 0
    for row in range(size):
        matrix[row, row:] = matrix[row:, row] = upper[start : start + size - row]
        start += size - row
    return Whitening(tuple(shape), float(scale), matrix, centre.astype(np.uint8), offset.astype(np.int64), shift)


def _moments(images: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and covariance (over N - 1) from exact integer sums."""
    count, size = len(images), math.prod(images.shape[1:])
    total, squares = np.zeros(size), np.zeros((size, size))
    for _, raw in _chunks(images):
        x = raw.astype(np.float64)
        total += x.sum(0)
        squares += x.T @ x
    mean = total / count
    return mean, (squares - np.outer(total, mean)) / (count - 1)


def _chunks(images: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    flat = images.reshape(len(images), -1)
    for start in range(0, len(flat), CHUNK):
        part = slice(start, start + CHUNK)
        yield part, flat[part]

"""Standardise pixels, ``(x / 255 - mean) / std``, as torchvision does, and round the result to codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError

RAW_VALUES = 256
"""How many values a uint8 has."""

MIDDLE = 128
"""Subtract this from pixels, so that they are int8 codes."""

LEAST = 1e-30
"""Scales and deviations, and the inverse of the largest: no quotient of them overflows float64, nor codes / scale
float32."""


def check_moments(mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> None:
    """Refuse means that are not finite, deviations that are not positive, and others than one for each channel.

    Raises:
        BlrcError: names the range, or the numbers.
    """
    if len(mean) != channels or len(std) != channels:
        raise BlrcError(
            f"input mean and std need one value for each of {channels} channels, got {len(mean)} and {len(std)}"
        )
    if not all(abs(m) <= 1 / LEAST for m in mean) or not all(LEAST <= s <= 1 / LEAST for s in std):
        raise BlrcError(
            f"input mean must be finite and std positive in every channel, from {LEAST} to {1 / LEAST}; "
            f"got mean {mean} and std {std}"
        )


def full_scale(mean: tuple[float, ...], std: tuple[float, ...]) -> float:
    """Return the largest number of codes per unit that saturates no pixel."""
    return 127.0 / max(max(abs(m), abs(1.0 - m)) / s for m, s in zip(mean, std, strict=True))


def standardised(
    raw: NDArray[Any], mean: tuple[float, ...], std: tuple[float, ...], dtype: type[np.floating[Any]]
) -> NDArray[Any]:
    """Return ``(x / 255 - mean) / std`` of pixels ``(N, channels, ...)``, computed in a type of real numbers."""
    column = (-1, *[1] * (raw.ndim - 2))
    rows = (np.array(row, dtype=dtype).reshape(column) for row in (mean, std))
    return np.asarray((raw.astype(dtype) / dtype(255) - next(rows)) / next(rows))


def standardised_codes(mean: tuple[float, ...], std: tuple[float, ...], scale: float) -> NDArray[np.int8]:
    """Return the code of every pixel value, (channels, 256)."""
    # float64 +, *, / and rint are exactly specified by IEEE 754, so this table is the same on every machine.
    x = np.arange(256, dtype=np.float64)[None, :] / 255.0
    real = (x - np.array(mean)[:, None]) / np.array(std)[:, None]
    return np.asarray(np.clip(np.rint(scale * real), -127, 127), dtype=np.int8)

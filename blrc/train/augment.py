"""Augmentation of raw images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def shifted(images: NDArray[Any], reach: int, rng: np.random.Generator) -> NDArray[Any]:
    """Each image moved by its own random (dy, dx), uniform over |dy| + |dx| <= reach; pixels that come in are 0.

    Args:
        images: ``(N, C, H, W)``.
    """
    if reach == 0:
        return images
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    places = np.argwhere(np.abs(np.arange(-reach, reach + 1))[:, None] + np.abs(np.arange(-reach, reach + 1)) <= reach)
    top, left = places[rng.integers(0, len(places), len(images))].T
    windows = sliding_window_view(padded, (height, width), axis=(2, 3))
    return np.ascontiguousarray(windows[np.arange(len(images)), :, top, left])

"""Shifts of raw images against a shift written out."""

from __future__ import annotations

import numpy as np

from blrc.train.augment import shifted


def moved(image: np.ndarray, dy: int, dx: int) -> np.ndarray:
    out = np.zeros_like(image)
    height, width = image.shape[1:]
    for y in range(height):
        for x in range(width):
            if 0 <= y - dy < height and 0 <= x - dx < width:
                out[:, y, x] = image[:, y - dy, x - dx]
    return out


def test_every_shift_within_reach_equally_often() -> None:
    image = np.random.default_rng(1).integers(1, 256, (2, 5, 6), dtype=np.uint8)
    names = {moved(image, dy, dx).tobytes(): (dy, dx) for dy in range(-5, 6) for dx in range(-5, 6)}
    draws = 13_000
    out = shifted(np.broadcast_to(image, (draws, 2, 5, 6)), 2, np.random.default_rng(2))
    assert out.dtype == np.uint8
    places, counts = np.unique([names[one.tobytes()] for one in out], axis=0, return_counts=True)
    assert {tuple(place) for place in places.tolist()} == {
        (dy, dx) for dy in range(-2, 3) for dx in range(-2, 3) if abs(dy) + abs(dx) <= 2
    }
    assert np.abs(counts - draws / 13).max() < 5 * np.sqrt(draws / 13)


def test_no_reach_moves_nothing() -> None:
    images = np.arange(24, dtype=np.uint8).reshape(2, 1, 3, 4)
    assert np.array_equal(shifted(images, 0, np.random.default_rng(0)), images)

"""Shifts, turns and stretches of raw images against loops written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from blrc.net import encoding as encode
from blrc.training.recipe import Recipe
from blrc.training.stages.augment import augmentation, distorted, flipped, shifted, translated, zero

ENCODING = encode.pixels((1, 9, 9), mean=(0.5,), std=(0.25,))


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


def turned(image: np.ndarray, angle: float, tall: float, wide: float) -> np.ndarray:
    """One image about its centre: bilinear, 0 outside. y points down."""
    _, height, width = image.shape
    out = np.zeros(image.shape)
    for y in range(height):
        for x in range(width):
            dx, dy = x - (width - 1) / 2, y - (height - 1) / 2
            from_x = (math.cos(angle) * dx - math.sin(angle) * dy) / wide + (width - 1) / 2
            from_y = (math.sin(angle) * dx + math.cos(angle) * dy) / tall + (height - 1) / 2
            left, top = math.floor(from_x), math.floor(from_y)
            for row in (top, top + 1):
                for column in (left, left + 1):
                    if 0 <= row < height and 0 <= column < width:
                        share = (1 - abs(from_x - column)) * (1 - abs(from_y - row))
                        out[:, y, x] += share * image[:, row, column]
    return out


@pytest.mark.parametrize("shape", [(1, 7, 7), (2, 5, 9), (1, 8, 3)])
def test_turns_and_stretches_are_those_of_a_loop(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(1).integers(0, 256, (20, *shape), dtype=np.uint8)
    out = distorted(images, 40.0, 0.3, np.random.default_rng(5))
    rng = np.random.default_rng(5)  # draws as documented: angles, then factors of height and width
    angles = np.radians(rng.uniform(-40.0, 40.0, len(images)))
    factors = rng.uniform(0.7, 1.3, (2, len(images)))
    assert out.dtype == np.uint8
    for image, one, angle, tall, wide in zip(images, out, angles, *factors, strict=True):
        assert np.abs(turned(image, float(angle), float(tall), float(wide)) - one).max() <= 0.502  # rounded


def test_a_batch_does_not_depend_on_anything_but_the_generator() -> None:
    images = np.random.default_rng(1).integers(0, 256, (6, 1, 9, 9), dtype=np.uint8)
    augment = augmentation(Recipe(shifts=1, rotation=10.0, zoom=0.1, translate=2, flip=True), ENCODING)
    first, second = (augment(images, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second) and not np.array_equal(first, images)


def test_no_turn_and_no_stretch_change_nothing() -> None:
    images = np.arange(24, dtype=np.uint8).reshape(2, 1, 3, 4)
    assert np.array_equal(augmentation(Recipe(), ENCODING)(images, np.random.default_rng(0)), images)


@pytest.mark.parametrize(("dtype", "low"), [(np.uint8, 0), (np.int8, -128)])
def test_every_translation_equally_often(dtype: type, low: int) -> None:
    image = np.random.default_rng(1).integers(low, low + 256, (2, 5, 6)).astype(dtype)
    fill = np.array([7, 9], dtype)
    names = {}
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            place = np.zeros_like(image)
            place[:, max(dy, 0) : 5 + min(dy, 0), max(dx, 0) : 6 + min(dx, 0)] = 1
            names[np.where(place == 1, moved(image, dy, dx), fill[:, None, None]).tobytes()] = (dy, dx)
    draws = 25_000
    out = translated(np.broadcast_to(image, (draws, 2, 5, 6)), 2, fill, np.random.default_rng(2))
    assert out.dtype == dtype and len(names) == 25
    _, counts = np.unique([names[one.tobytes()] for one in out], axis=0, return_counts=True)
    assert len(counts) == 25 and np.abs(counts - draws / 25).max() < 5 * np.sqrt(draws / 25)


def test_half_of_the_images_are_flipped() -> None:
    image = np.random.default_rng(1).integers(0, 256, (2, 3, 4), dtype=np.uint8)
    out = flipped(np.broadcast_to(image, (10_000, 2, 3, 4)), np.random.default_rng(2))
    turned_over = [bool((one == image[:, :, ::-1]).all()) for one in out]
    assert all(other or (one == image).all() for one, other in zip(out, turned_over, strict=True))
    assert abs(sum(turned_over) - 5_000) < 250


@pytest.mark.parametrize(
    ("encoding", "bound"),
    [
        (encode.pixels((3, 2, 2), mean=(0.4914, 0.4823, 0.4468), std=(0.247, 0.243, 0.261)), 1),
        (encode.int8_codes((3, 2, 2), scale=16.0), 0),
    ],
)
def test_what_comes_in_is_close_to_code_0(encoding: encode.InputEncoding, bound: int) -> None:
    fill = zero(encoding)
    codes = encoding.codes(np.broadcast_to(fill[:, None, None], (1, *encoding.shape)))
    assert np.abs(codes).max() <= bound


def test_the_options_of_a_recipe_are_all_applied() -> None:
    images = np.random.default_rng(1).integers(0, 256, (9, 1, 9, 9), dtype=np.uint8)
    out = augmentation(Recipe(translate=1, flip=True), ENCODING)(images, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    assert np.array_equal(out, flipped(translated(images, 1, np.array([128], np.uint8), rng), rng))

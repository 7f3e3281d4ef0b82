"""Inputs for verification cover what they say, and are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from blrc.program.program import Value
from blrc.verification.inputs.stimuli import adversarial_inputs, random_inputs

RANGES = {"uint8": (0, 255, np.uint8), "int8": (-128, 127, np.int8), "bits": (0, 1, np.bool_)}
SHAPES = [(1, 1, 1), (1, 1, 9), (1, 7, 2), (5, 4, 3), (28, 28, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", RANGES)
def test_adversarial(kind: str, shape: tuple[int, int, int]) -> None:
    low, high, dtype = RANGES[kind]
    maps = adversarial_inputs(Value("input", kind, shape))  # type: ignore[arg-type]
    assert maps.dtype == dtype
    assert maps.shape[1:] == shape
    plain = maps.astype(int).reshape(len(maps), -1)
    assert plain[0].tolist() == [low] * plain.shape[1]
    assert plain[1].tolist() == [high] * plain.shape[1]
    assert set(np.unique(plain)) <= {low, high, (low + high + 1) // 2}
    # Single pixels: every corner, the last value, on both backgrounds.
    singles = {
        (background, int(np.flatnonzero(row != background)[0]))
        for row in plain
        for background in (low, high)
        if (row != background).sum() == 1
    }
    height, width, channels = shape
    corners = {0, (width - 1) * channels, (height - 1) * width * channels, (height * width - 1) * channels}
    for position in corners | {plain.shape[1] - 1}:
        assert (low, position) in singles
        assert (high, position) in singles
    assert len(maps) <= 7 + 256
    if plain.shape[1] <= 123:
        assert len(singles) == 2 * plain.shape[1]


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("kind", RANGES)
def test_random(kind: str, shape: tuple[int, int, int]) -> None:
    low, high, dtype = RANGES[kind]
    value = Value("input", kind, shape)  # type: ignore[arg-type]
    maps = random_inputs(value, 400, 3)
    assert maps.dtype == dtype
    assert maps.shape == (400, *shape)
    assert {int(maps.min()), int(maps.max())} == {low, high}
    np.testing.assert_array_equal(maps, random_inputs(value, 400, 3))
    assert not np.array_equal(maps, random_inputs(value, 400, 4))
    assert random_inputs(value, 0, 0).shape == (0, *shape)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_half_of_the_random_inputs_have_flat_areas(kind: str) -> None:
    maps = random_inputs(Value("input", kind, (8, 8, 1)), 200, 0).reshape(200, -1)  # type: ignore[arg-type]
    largest = np.array([np.unique(row, return_counts=True)[1].max() for row in maps])
    assert (largest[:100] < 8).all()
    assert (largest[100:] > 16).sum() > 50

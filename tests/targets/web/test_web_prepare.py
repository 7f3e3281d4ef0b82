"""What the page makes of drawings and pictures, against MNIST itself and against plain NumPy."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from web_node import node

IMAGES = Path(__file__).parents[3] / "examples" / "mnist" / "data" / "t10k-images-idx3-ubyte.gz"

pytestmark = pytest.mark.needs("node")


def digits(step: int = 1) -> NDArray[np.uint8]:
    """MNIST's test images, every `step`-th: uint8 ``(N, 28, 28)``."""
    data = gzip.decompress(IMAGES.read_bytes())[16:]
    return np.frombuffer(data, np.uint8).reshape(-1, 28, 28)[::step]


def on_a_sheet(digit: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """A digit enlarged by a whole number, somewhere on a larger sheet of zeros."""
    factor = int(rng.integers(2, 6))
    rows, columns = np.flatnonzero(digit.any(1)), np.flatnonzero(digit.any(0))
    part = digit[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    large = np.kron(part, np.ones((factor, factor), digit.dtype))
    sheet = np.zeros((large.shape[0] + rng.integers(2, 50), large.shape[1] + rng.integers(2, 50)), digit.dtype)
    top, left = (rng.integers(1, sheet.shape[axis] - large.shape[axis]) for axis in (0, 1))
    sheet[top : top + large.shape[0], left : left + large.shape[1]] = large
    return sheet


def prepared(function: str, maps: list[NDArray[Any]], model: dict[str, int]) -> NDArray[Any]:
    """``function(map, width, height, model)`` of every map, whose last axes may be channels."""
    given = [{"map": m.reshape(-1).tolist(), "width": m.shape[1], "height": m.shape[0]} for m in maps]
    call = f"given.maps.map((m) => [...({function}(m.map, m.width, m.height, given.model) || [])])"
    return np.array(node(["prepare.js"], call, {"maps": given, "model": model}))


MNIST = {"width": 28, "height": 28, "channels": 1}


def test_every_test_image_of_mnist_is_its_own_preparation() -> None:
    """So scale, place and rounding are those of MNIST's makers. (Three images touch the edge and are shorter than 20
    pixels: a row of theirs was lost when they were made.)"""
    images = digits()
    heights, widths = (np.ptp([np.flatnonzero(image.any(axis))[[0, -1]] for image in images], 1) + 1 for axis in (1, 0))
    whole = np.maximum(heights, widths) == 20
    assert np.count_nonzero(~whole) == 3
    changed = node(
        ["prepare.js"],
        """(() => {
          const all = Buffer.from(given, "hex");
          const changed = [];
          for (let i = 0; i < all.length; i += 784) {
            const image = all.subarray(i, i + 784);
            changed.push(Buffer.compare(Buffer.from(asMnist(image, 28, 28)), image) !== 0);
          }
          return changed;
        })()""",
        images.tobytes().hex(),
    )
    assert np.array_equal(changed, ~whole)


def test_a_digit_of_any_size_anywhere_on_the_sheet_is_found() -> None:
    rng = np.random.default_rng(0)
    images = digits(200)
    sheets = [on_a_sheet(image, rng) for image in images]
    assert np.array_equal(prepared("fromDrawing", sheets, MNIST), images.reshape(len(images), -1))


@pytest.mark.parametrize("light", [False, True])
def test_ink_may_be_dark_on_light_paper_or_light_on_dark(light: bool) -> None:
    """Only black and white: what is in between is made steeper, because it may be a shadow."""
    rng = np.random.default_rng(1)
    images = (digits(500) > 127) * np.uint8(255)
    sheets = [on_a_sheet(image, rng) for image in images]
    paper, ink = (30, 220) if light else (210, 10)
    photos = [np.where(sheet > 0, ink, paper).astype(np.uint8) for sheet in sheets]
    rgba = [np.concatenate([np.repeat(p[..., None], 3, 2), np.full_like(p[..., None], 255)], 2) for p in photos]
    found = prepared("fromPicture", rgba, MNIST)
    assert np.array_equal(found, prepared("fromDrawing", sheets, MNIST))
    assert found.any(axis=1).all()


def test_shadows_and_grain_are_not_ink() -> None:
    rng = np.random.default_rng(2)
    ink = on_a_sheet((digits(5000)[0] > 127) * np.uint8(255), rng)
    noise = rng.integers(0, 40, ink.shape)
    photo = np.where(ink > 0, 20, 200 + noise).astype(np.uint8)
    rgba = np.concatenate([np.repeat(photo[..., None], 3, 2), np.full_like(photo[..., None], 255)], 2)
    assert np.array_equal(prepared("fromPicture", [rgba], MNIST), prepared("fromDrawing", [ink], MNIST))


def test_nothing_is_seen_on_an_empty_sheet() -> None:
    blank = np.zeros((30, 40), np.uint8)
    assert prepared("fromDrawing", [blank], MNIST).size == 0
    assert prepared("fromDrawing", [blank], {"width": 9, "height": 5, "channels": 1}).size == 0
    paper = np.full((30, 40, 4), 250, np.uint8)
    assert prepared("fromPicture", [paper], MNIST).size == 0


@pytest.mark.parametrize("lean", [False, True])
def test_no_ink_is_cut_off(lean: bool) -> None:
    """A drawing whose centre of mass is at its edge would leave the 28 x 28 pixels."""
    ink = np.full((100, 100), 1, np.uint8)
    ink[:, -10:] = 255
    ink = ink if lean else ink[:, ::-1]
    (seen,) = prepared("fromDrawing", [np.ascontiguousarray(ink)], MNIST)
    assert np.count_nonzero(seen) == 400


def test_a_picture_of_the_network_s_size_is_taken_as_it_is() -> None:
    rng = np.random.default_rng(3)
    colour = rng.integers(0, 256, (9, 7, 3)).astype(np.uint8)
    rgba = np.concatenate([colour, np.full((9, 7, 1), 255, np.uint8)], 2)
    found = prepared("fromPicture", [rgba], {"width": 7, "height": 9, "channels": 3})
    assert np.array_equal(found[0], colour.reshape(-1))
    digit = digits(5000)[1]
    grey = np.concatenate([np.repeat(digit[..., None], 3, 2), np.full((28, 28, 1), 255, np.uint8)], 2)
    assert np.array_equal(prepared("fromPicture", [grey], MNIST)[0], digit.reshape(-1))


def test_a_transparent_picture_lies_on_white() -> None:
    rgba = np.zeros((2, 2, 4), np.uint8)
    rgba[0, 0] = (10, 20, 30, 255)
    (found,) = prepared("fromPicture", [rgba], {"width": 2, "height": 2, "channels": 3})
    assert found.tolist() == [10, 20, 30, *[255] * 9]


@pytest.mark.parametrize(
    ("height", "width", "rows", "columns"), [(9, 7, 5, 3), (28, 28, 20, 20), (4, 5, 7, 8), (6, 6, 6, 1)]
)
def test_averages_are_those_of_areas(height: int, width: int, rows: int, columns: int) -> None:
    rng = np.random.default_rng(height)
    values = rng.integers(0, 256, (height, width))
    # Every pixel as rows x columns small ones: then each cell is a whole number of them.
    small = np.kron(values, np.ones((rows, columns), np.int64))
    sums = small.reshape(rows, height, columns, width).sum(axis=(1, 3))
    call = "[...averaged(given.map, given.width, given.part, given.columns, given.rows)]"
    part = {"left": 0, "top": 0, "width": width, "height": height}
    given = {"map": values.reshape(-1).tolist(), "width": width, "part": part, "columns": columns, "rows": rows}
    found = np.array(node(["prepare.js"], call, given)) * height * width
    assert np.array_equal(np.rint(found).astype(np.int64), sums.reshape(-1))


def test_the_middle_of_a_picture_has_the_shape_of_the_input() -> None:
    picture = np.zeros((4, 10, 4), np.uint8)
    picture[..., 3] = 255
    picture[:, 3:7, 1] = np.arange(16).reshape(4, 4) * 10
    (found,) = prepared("fromPicture", [picture], {"width": 4, "height": 4, "channels": 3})
    assert np.array_equal(found.reshape(4, 4, 3), picture[:, 3:7, :3])

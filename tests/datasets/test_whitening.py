"""ZCA whitening: what it is for, and that its integers are those of the formula."""

from __future__ import annotations

import numpy as np
import pytest

from blrc.datasets import whitening as whiten
from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError


def blurred(count: int, shape: tuple[int, int, int] = (3, 5, 4), seed: int = 0) -> np.ndarray:
    """Images whose neighbours are alike, of another mean in each channel."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 60, (count, shape[0], shape[1] + 1, shape[2] + 1))
    x = x[:, :, 1:, 1:] + x[:, :, :-1, 1:] + x[:, :, 1:, :-1] + x[:, :1, 1:, 1:]
    x += rng.normal(0, 100, (count, 1, 1, 1))
    return np.clip(x / 6 + 100 + 20 * np.arange(shape[0])[:, None, None], 0, 255).astype(np.uint8)


IMAGES = blurred(4_000)


@pytest.fixture(scope="module")
def fitted() -> Whitening:
    return whiten.fit(IMAGES)


def exact(whitening: Whitening, images: np.ndarray) -> np.ndarray:
    """The formula of the module in Python's integers."""
    matrix = whitening.matrix.astype(object)
    rows = []
    for image in images.reshape(len(images), -1):
        centred = [int(a) - int(b) for a, b in zip(image, whitening.centre, strict=True)]
        sums = [sum(int(w) * x for w, x in zip(row, centred, strict=True)) for row in matrix]
        rows.append(
            [max(-127, min(127, (s + int(o) + 2 ** (whitening.shift - 1)) // 2**whitening.shift))
             for s, o in zip(sums, whitening.offset, strict=True)]
        )  # fmt: skip
    return np.array(rows).reshape(images.shape)


def test_codes_are_those_of_integers(fitted: Whitening) -> None:
    largest = np.where(fitted.matrix[7] > 0, 255, 0).reshape(3, 5, 4)
    extremes = np.stack([largest, 255 - largest]).astype(np.uint8)
    images = np.concatenate([IMAGES[:40], extremes])
    codes = fitted.codes(images)
    assert codes.dtype == np.int8 and np.array_equal(codes, exact(fitted, images))
    assert np.abs(codes).max() == 127  # of the extremes


def test_chunks_do_not_matter(fitted: Whitening, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted.codes(IMAGES[:50])
    monkeypatch.setattr(whiten, "CHUNK", 7)
    assert np.array_equal(fitted.codes(IMAGES[:50]), whole)


def test_it_whitens(fitted: Whitening) -> None:
    def off_diagonal(x: np.ndarray) -> float:
        correlation = np.corrcoef(x.reshape(len(x), -1).T.astype(float))
        return float(np.abs(correlation - np.eye(len(correlation))).max())

    codes = fitted.codes(IMAGES)
    assert off_diagonal(IMAGES) > 0.6 and off_diagonal(codes) < 0.25
    assert abs(codes.mean()) < 0.5 and codes.std() == pytest.approx(whiten.SCALE, rel=0.03)
    smaller = whiten.fit(IMAGES, floor=1e-3).codes(IMAGES)
    assert off_diagonal(smaller) < off_diagonal(codes)


def test_it_is_zca() -> None:
    """The matrix is the one of the formula up to rounding, from a covariance computed otherwise, and symmetric."""
    fitted = whiten.fit(IMAGES, floor=0.1)
    covariance = np.cov(IMAGES.reshape(len(IMAGES), -1).T)
    inverse = np.linalg.inv(covariance + 0.1 * np.trace(covariance) / len(covariance) * np.eye(len(covariance)))
    square = fitted.matrix.astype(float) @ fitted.matrix.astype(float)  # (C + f)^(-1), up to a factor
    assert np.array_equal(fitted.matrix, fitted.matrix.T)
    assert np.allclose(square / np.trace(square), inverse / np.trace(inverse), atol=1e-5)
    assert 1 << 13 <= np.abs(fitted.matrix).max() < 1 << 15


def test_a_packed_whitening_is_the_same(fitted: Whitening) -> None:
    again = whiten.unpack(whiten.pack(fitted))
    assert np.array_equal(again.codes(IMAGES[:9]), fitted.codes(IMAGES[:9])) and again.encoding == fitted.encoding
    assert (fitted.encoding.kind, fitted.encoding.shape, fitted.encoding.scale) == ("int8", (3, 5, 4), 16.0)


@pytest.mark.parametrize(
    "change",
    [
        {"upper": np.zeros(3, np.int16)},
        {"shape": [3, 5]},
        {"shift": -1},
        {"centre": None},
        {"offset": np.zeros(60)},
        {"scale": True},
        {"scale": np.inf},
        {"scale": 0},
        {"scale": 10**400},
    ],
)
def test_a_damaged_one_is_refused(fitted: Whitening, change: dict[str, object]) -> None:
    with pytest.raises(BlrcError, match="its whitening is damaged"):
        whiten.unpack({**whiten.pack(fitted), **change})


@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (IMAGES[:1], {}, "2 or more uint8 images"),
        (IMAGES.astype(float), {}, "got float64"),
        (np.full((5, 3, 2, 2), 7, np.uint8), {}, "are all the same"),
        (IMAGES, {"floor": 0.0}, "floor 0.0: must be positive"),
        (IMAGES, {"scale": float("nan")}, "scale nan"),
        (IMAGES, {"scale": 1e9}, "give a smaller scale"),
    ],
)
def test_refusals(images: np.ndarray, options: dict[str, float], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        whiten.fit(images, **options)


def test_other_images_are_refused(fitted: Whitening) -> None:
    for images in (IMAGES.astype(np.int8), IMAGES[:, :, :4], IMAGES[0]):
        with pytest.raises(BlrcError, match=r"takes uint8 images \(N, 3, 5, 4\)"):
            fitted.codes(images)

"""JPEG streams in an .npz become the pixels that Pillow decodes, and damage gets one line."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from blrc.datasets import jpeg, labelled
from blrc.errors import BlrcError
from blrc.program.program import Value
from blrc.reading import inflate

RNG = np.random.default_rng(0)


def stream(pixels: NDArray[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "jpeg", **options)
    return buffer.getvalue()


def packed(*streams: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    offsets = np.cumsum([0, *map(len, streams)])
    return np.frombuffer(b"".join(streams), np.uint8), offsets


def flat(*colour: int, height: int = 6, width: int = 5) -> NDArray[np.uint8]:
    """One colour throughout, which JPEG at its best quality keeps to within its rounding."""
    return np.broadcast_to(np.array(colour, np.uint8), (height, width, len(colour))).copy()


def test_axes_and_channels() -> None:
    colours = ((250, 20, 60), (0, 0, 0), (30, 200, 90))
    found = jpeg.decode(*packed(*(stream(flat(*colour), quality=100, subsampling=0) for colour in colours)))
    assert found.dtype == np.uint8 and found.shape == (3, 3, 6, 5)
    expected = np.array(colours)[:, :, None, None]
    assert np.abs(found.astype(int) - expected).max() <= 2  # colour space and back
    left = np.zeros((8, 16, 3), np.uint8)
    left[:, 8:] = 255
    (image,) = jpeg.decode(*packed(stream(left, quality=100)))
    assert image.shape == (3, 8, 16) and (image[:, :, :8] < 8).all() and (image[:, :, 8:] > 247).all()


def test_grey() -> None:
    found = jpeg.decode(*packed(stream(flat(77)[..., 0], quality=100), stream(flat(200)[..., 0], quality=100)))
    assert found.shape == (2, 1, 6, 5) and set(found[0].flat) == {77} and set(found[1].flat) == {200}


def test_labelled_reads_them(tmp_path: Path) -> None:
    streams = [stream(RNG.integers(0, 256, (6, 5, 3)).astype(np.uint8)) for _ in range(4)]
    data, offsets = packed(*streams)
    np.savez(tmp_path / "d.npz", jpeg=data, offsets=offsets, labels=np.arange(4))
    found = labelled.load(tmp_path / "d.npz", Value("input", "uint8", (6, 5, 3)), 4)
    np.testing.assert_array_equal(found.labels, np.arange(4))
    for raw, one in zip(found.raw, streams, strict=True):
        np.testing.assert_array_equal(raw, np.asarray(Image.open(io.BytesIO(one))))


WHOLE = packed(stream(flat(1, 2, 3)), stream(flat(4, 5, 6)))


@pytest.mark.parametrize(
    ("data", "offsets", "says"),
    [
        (WHOLE[0].astype(np.int16), WHOLE[1], r"jpeg is int16 .*; expected streams of uint8"),
        (WHOLE[0], WHOLE[1].astype(float), r"offsets float64 \(3,\)"),
        (WHOLE[0], WHOLE[1][::-1], "offsets must rise"),
        (WHOLE[0], WHOLE[1] + 1, "offsets must rise"),
        (WHOLE[0], WHOLE[1] - 1, "offsets must rise"),
        (WHOLE[0], WHOLE[1][:1], "offsets must rise"),
        (WHOLE[0], np.array([0, 9, WHOLE[1][2]]), "image 0 is no whole JPEG"),
        (WHOLE[0], np.array([*WHOLE[1][:2], WHOLE[1][2] - 40]), "image 1 is no whole JPEG"),
        (WHOLE[0], np.array([0, 0]), "image 0 is no whole JPEG"),
        (*packed(stream(flat(1, 2, 3)), stream(flat(4, 5, 6, width=9))), r"image 1 is \(6, 9, 3\) \(H, W, C\)"),
        (*packed(stream(flat(1, 2, 3)), stream(flat(4)[..., 0])), r"image 1 is \(6, 5, 1\) \(H, W, C\)"),
    ],
)
def test_what_is_refused(data: Any, offsets: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match=says):
        jpeg.decode(data, offsets)
    np.savez(tmp_path / "d.npz", jpeg=data, offsets=offsets, labels=np.zeros(2, int))
    with pytest.raises(BlrcError, match=rf"d\.npz: .*{says}"):
        labelled.load(tmp_path / "d.npz", Value("input", "uint8", (6, 5, 3)), 4)


def test_another_format_than_jpeg_is_not_opened() -> None:
    buffer = io.BytesIO()
    Image.fromarray(flat(1, 2, 3)).save(buffer, "png")
    with pytest.raises(BlrcError, match="image 0 is no whole JPEG"):
        jpeg.decode(*packed(buffer.getvalue()))


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BlrcError, match=r"pip install 'blrc\[jpeg\]'"):
        jpeg.decode(*WHOLE)


def test_regression_training_images_are_no_test_data(tmp_path: Path) -> None:
    """A file of all images, as examples/cifar10/gpu.py reads it, was taken for test images."""
    data, offsets = packed(stream(flat(1, 2, 3)), stream(flat(4, 5, 6)))
    np.savez(tmp_path / "d.npz", jpeg=data, offsets=offsets, labels=np.zeros(2, int), is_test=np.array([False, True]))
    with pytest.raises(BlrcError, match=r"d\.npz: holds training images, too"):
        labelled.load(tmp_path / "d.npz", Value("x", "uint8", (6, 5, 3)), 10)


def test_regression_headers_are_read_before_any_pixel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flat image of 9,400 x 9,400 pixels took 1.25 GB before its size was compared."""
    data, offsets = packed(stream(flat(1, 2, 3)), stream(flat(1, 2, 3, height=940, width=940)))
    np.savez(tmp_path / "d.npz", jpeg=data, offsets=offsets, labels=np.zeros(2, int))
    decoded = []
    monkeypatch.setattr(JpegImageFile, "load", lambda image: decoded.append(image.size))
    with pytest.raises(BlrcError, match=r"image 1 is \(940, 940, 3\) \(H, W, C\), but this network takes \(6, 5, 3\)"):
        labelled.load(tmp_path / "d.npz", Value("x", "uint8", (6, 5, 3)), 10)
    assert decoded == []


def test_images_are_no_larger_together_than_their_streams_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "FREE", 100)
    data, offsets = packed(stream(flat(1, 2, 3, height=300, width=300)))
    with pytest.raises(BlrcError, match=r"are more than the .* bytes that are decoded"):
        jpeg.decode(data, offsets, (300, 300, 3))

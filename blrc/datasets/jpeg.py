"""Read test images that are held as JPEG streams, which take a tenth of the pixels' size.

An ``.npz`` holds ``jpeg``, uint8, all streams end to end, and ``offsets``, integers ``(N + 1,)``: image i is
``jpeg[offsets[i]:offsets[i + 1]]``. This needs Pillow. Another decoder may round otherwise, so where the exact pixels
matter, compare a checksum of them.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.extras import require
from blrc.reading import inflate

RATIO = 32
"""Bytes of pixels for a byte of JPEG, at most, where that is more than `blrc.reading.inflate.FREE`: photographs have
10."""


def decode(
    jpeg: NDArray[Any], offsets: NDArray[Any], expected: tuple[int, int, int] | None = None
) -> NDArray[np.uint8]:
    """Decode images to ``(N, C, H, W)``; C is 1 where all are grey, else 3, and the two cannot be mixed.

    The headers of all streams are read before any pixel is decoded.

    Args:
        expected: height, width and channels that every image has to have; by default those of the first.

    Raises:
        BlrcError: Pillow is not installed, offsets do not fit, a stream is no JPEG, or images have different sizes. The
            message says which image, not which file.
    """
    require("PIL", "reading JPEG images")
    if jpeg.dtype != np.uint8 or jpeg.ndim != 1 or offsets.ndim != 1 or offsets.dtype.kind not in "iu":
        raise BlrcError(
            f"jpeg is {jpeg.dtype} {jpeg.shape} and offsets {offsets.dtype} {offsets.shape}; expected streams of uint8 "
            "end to end, and integers (N + 1,)"
        )
    rises = len(offsets) > 1 and not (offsets[1:] < offsets[:-1]).any()
    if not rises or int(offsets[0]) < 0 or int(offsets[-1]) > len(jpeg):
        raise BlrcError(f"offsets must rise from 0 to the {len(jpeg)} bytes of jpeg, one more than there are images")
    count, shape = len(offsets) - 1, expected
    for index in range(count):
        with _opened(jpeg, offsets, index) as image:
            found = (image.height, image.width, 1 if image.mode == "L" else 3)
        if shape is None:
            shape = found
        if found != shape:
            other = "image 0 is" if expected is None else "this network takes"
            raise BlrcError(f"image {index} is {found} (H, W, C), but {other} {shape}")
    assert shape is not None
    height, width, channels = shape
    most = max(inflate.FREE, RATIO * len(jpeg))
    if count * math.prod(shape) > most:
        raise BlrcError(f"{count:,} images of {shape} (H, W, C) are more than the {most:,} bytes that are decoded")
    images = np.empty((count, channels, height, width), np.uint8)
    for index in range(count):
        with _opened(jpeg, offsets, index) as image:
            pixels = np.asarray(image if image.mode == "L" else image.convert("RGB"))
        images[index] = pixels.reshape(height, width, channels).transpose(2, 0, 1)
    return images


@contextmanager
def _opened(jpeg: NDArray[np.uint8], offsets: NDArray[Any], index: int) -> Iterator[Any]:
    """Open one image, of which only the header has been read.

    Raises:
        BlrcError: it is no JPEG, or reading its pixels within the block fails.
    """
    from PIL import Image

    stream = io.BytesIO(jpeg[int(offsets[index]) : int(offsets[index + 1])].tobytes())
    try:
        with warnings.catch_warnings(action="error"), Image.open(stream, formats=("JPEG",)) as image:
            yield image
    # Pillow's parser raises almost anything of a damaged stream, and warns of a strange one.
    except Exception as error:
        raise BlrcError(f"image {index} is no whole JPEG ({' '.join(str(error).split())})") from None

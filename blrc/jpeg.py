"""Test images that are held as JPEG streams: a tenth of the pixels' size.

An ``.npz`` holds ``jpeg``, uint8, all streams end to end, and ``offsets``, integers ``(N + 1,)``: image i is
``jpeg[offsets[i]:offsets[i + 1]]``. Needs Pillow. Another decoder may round otherwise: where
the very pixels matter, compare a checksum of them.
"""

from __future__ import annotations

import io
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.bounded import inflate
from blrc.errors import BlrcError
from blrc.extras import require

RATIO = 32
"""Bytes of pixels for a byte of JPEG, at most, where that is more than `blrc.bounded.inflate.FREE`: photographs have
10."""


def decode(jpeg: NDArray[Any], offsets: NDArray[Any]) -> NDArray[np.uint8]:
    """Images ``(N, C, H, W)``: C is 1 where all are grey, else 3; the two cannot be mixed.

    Raises:
        BlrcError: Pillow is not installed; offsets that do not fit; no JPEG; images of different sizes. The message
            says which image, not which file.
    """
    require("PIL", "reading JPEG images")
    from PIL import Image

    if jpeg.dtype != np.uint8 or jpeg.ndim != 1 or offsets.ndim != 1 or offsets.dtype.kind not in "iu":
        raise BlrcError(
            f"jpeg is {jpeg.dtype} {jpeg.shape} and offsets {offsets.dtype} {offsets.shape}; expected streams of uint8 "
            "end to end, and integers (N + 1,)"
        )
    bounds = [int(offset) for offset in offsets]
    if len(bounds) < 2 or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(jpeg):
        raise BlrcError(f"offsets must rise from 0 to the {len(jpeg)} bytes of jpeg, one more than there are images")
    images: list[NDArray[np.uint8]] = []
    left = max(inflate.FREE, RATIO * len(jpeg))
    for index, (start, end) in enumerate(pairwise(bounds)):
        try:
            with (
                warnings.catch_warnings(action="error"),
                Image.open(io.BytesIO(jpeg[start:end].tobytes()), formats=("JPEG",)) as image,
            ):
                left -= (1 if image.mode == "L" else 3) * image.width * image.height
                if left < 0:
                    raise ValueError("together with those before, it is larger than is decoded")
                pixels = np.asarray(image if image.mode == "L" else image.convert("RGB"))
        # Pillow's parser raises almost anything of a damaged stream, and warns of a strange one.
        except Exception as error:
            raise BlrcError(f"image {index} is no whole JPEG ({error})") from None
        images.append(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
        if images[index].shape != images[0].shape:
            raise BlrcError(f"image {index} is {images[index].shape} (C, H, W), image 0 is {images[0].shape}")
    return np.stack(images)

"""Test images that are held as JPEG streams: a tenth of the pixels' size.

An ``.npz`` holds ``jpeg``, uint8, all streams end to end, and ``offsets``, integers ``(N + 1,)``: image i is
``jpeg[offsets[i]:offsets[i + 1]]``. Needs Pillow. Another decoder may round otherwise: where
the very pixels matter, compare a checksum of them.
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.extras import require


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
    for index, (start, end) in enumerate(pairwise(bounds)):
        try:
            with Image.open(io.BytesIO(jpeg[start:end].tobytes()), formats=("JPEG",)) as image:
                pixels = np.asarray(image if image.mode == "L" else image.convert("RGB"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise BlrcError(f"image {index} is no whole JPEG ({error})") from None
        images.append(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
        if images[index].shape != images[0].shape:
            raise BlrcError(f"image {index} is {images[index].shape} (C, H, W), image 0 is {images[0].shape}")
    return np.stack(images)

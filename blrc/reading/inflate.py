"""Inflate compressed data up to a limit on the number of bytes that is set beforehand."""

from __future__ import annotations

import zlib

FREE = 256 << 20
"""Bytes to which any compressed file may inflate: five times MNIST's training images."""

RATIO = 4
"""A larger file may inflate to so many times its own size. Images that are not flat inflate to twice or so."""

_GZIP = 31  # of zlib: a gzip header, and the largest window


def limit(compressed: int) -> int:
    """Return the number of bytes to which a file of `compressed` bytes may inflate."""
    return max(FREE, RATIO * compressed)


def gunzip(content: bytes, most: int) -> bytes:
    """Inflate a gzip file of one member.

    Raises:
        ValueError: the file is damaged or cut off, inflates to more than `most` bytes, or has data behind its end.
    """
    stream = zlib.decompressobj(_GZIP)
    try:
        inflated = stream.decompress(content, most + 1)
    except zlib.error as error:
        raise ValueError(f"its compression is damaged: {error}") from None
    if len(inflated) > most:
        raise ValueError(f"it inflates to more than {most:,} bytes")
    if not stream.eof:
        raise ValueError("its compressed data are cut off")
    if stream.unused_data:
        raise ValueError(f"{len(stream.unused_data):,} bytes lie behind the end of its compressed data")
    return inflated


def first_bytes(content: bytes, count: int) -> bytes:
    """Return the first `count` bytes that a gzip file inflates to, or fewer if it holds fewer.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        return zlib.decompressobj(_GZIP).decompress(content, count)
    except zlib.error as error:
        raise ValueError(f"its compression is damaged: {error}") from None

"""Inflate what was compressed, up to a number of bytes that was settled before."""

from __future__ import annotations

import zlib

FREE = 256 << 20
"""Bytes to which any compressed file may inflate: five times MNIST's training images."""

RATIO = 4
"""A larger file may inflate to so many times its own size. Images that are not flat inflate to twice or so."""

_GZIP = 31  # of zlib: a gzip header, and the largest window


def limit(compressed: int) -> int:
    """Bytes to which a file of `compressed` bytes may inflate."""
    return max(FREE, RATIO * compressed)


def gunzip(content: bytes, most: int) -> bytes:
    """A gzip file of one member, inflated.

    Raises:
        ValueError: it is damaged or cut off, inflates to more than `most` bytes, or something lies behind its end.
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
    """The first `count` bytes that a gzip file inflates to, or fewer where it has no more.

    Raises:
        ValueError: it is damaged.
    """
    try:
        return zlib.decompressobj(_GZIP).decompress(content, count)
    except zlib.error as error:
        raise ValueError(f"its compression is damaged: {error}") from None

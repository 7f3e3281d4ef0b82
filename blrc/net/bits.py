"""Define the order of bits in packed words; no other module knows it.

Bit 1 is +1 and bit 0 is -1. Channel ``c`` is bit ``c % 32`` of word ``c // 32`` of a row of ``uint32`` words. The
unused bits of the last word (the tail) are 0. See docs/decisions/001-bit-order.md.

Ternary weights take two rows of words: bits that are 1 for +1, and bits that are 1 for what is not 0. See
docs/decisions/033-ternary-weights.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 32


def words(channels: int) -> int:
    """Return how many packed words hold `channels` bits."""
    return -(-channels // WORD_BITS)


def pack(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Pack booleans (or 0/1) along the last axis: ``(..., C)`` to uint32 ``(..., words(C))``."""
    channels = bits.shape[-1]
    padded = np.zeros((*bits.shape[:-1], words(channels) * WORD_BITS), dtype=np.uint8)
    padded[..., :channels] = bits != 0
    lanes = np.packbits(padded, axis=-1, bitorder="little")
    packed = np.ascontiguousarray(lanes).view("<u4")
    return packed.astype(np.uint32)


def unpack(packed: NDArray[np.uint32], channels: int) -> NDArray[np.bool_]:
    """Undo `pack`: turn uint32 ``(..., words(channels))`` into bool ``(..., channels)``."""
    lanes = np.ascontiguousarray(packed.astype("<u4")).view(np.uint8)
    return np.unpackbits(lanes, axis=-1, count=channels, bitorder="little").view(np.bool_)


def pack_planes(numbers: NDArray[Any], planes: int) -> NDArray[np.uint32]:
    """Pack numbers below 2^planes along the last axis: all lowest bits first, as `pack` does, then the next ones."""
    return pack(numbers) if planes == 1 else np.concatenate([pack(numbers & 1 << p) for p in range(planes)], axis=-1)


def unpack_planes(packed: NDArray[np.uint32], channels: int, planes: int) -> NDArray[np.uint8]:
    """Undo `pack_planes`: return the numbers as uint8 ``(..., channels)``."""
    each = [unpack(part, channels).astype(np.uint8) for part in np.split(packed, planes, axis=-1)]
    return np.asarray(sum(bits << np.uint8(p) for p, bits in enumerate(each)), dtype=np.uint8)


def pack_signs(signs: NDArray[Any]) -> NDArray[np.uint32]:
    """Pack +-1 values along the last axis (+1 becomes bit 1)."""
    return pack(signs > 0)


def pack_ternary(numbers: NDArray[Any]) -> NDArray[np.uint32]:
    """Pack -1, 0 and +1 along the last axis: ``(..., C)`` to uint32 ``(..., 2, words(C))``.

    The first row says which numbers are +1, the second one which are not 0.
    """
    return np.stack([pack(numbers > 0), pack(numbers)], axis=-2)


def unpack_ternary(packed: NDArray[np.uint32], channels: int) -> NDArray[np.int8]:
    """Undo `pack_ternary`: return the numbers as int8 ``(..., channels)``."""
    plus, real = (unpack(packed[..., plane, :], channels).astype(np.int8) for plane in (0, 1))
    return np.asarray(2 * plus - real)


def unpack_signs(packed: NDArray[np.uint32], channels: int) -> NDArray[np.int8]:
    """Undo `pack_signs`: return the signs as int8 +-1."""
    return 2 * unpack(packed, channels).astype(np.int8) - np.int8(1)

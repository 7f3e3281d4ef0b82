"""Put together the maps that the C's observer saw, as the driver wrote them.

Steps that run row by row give their maps in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError

HEAD = 8  # bytes before each part: whose it is, and how many bytes follow


def together(output: bytes, count: int, sizes: Sequence[int], order: str, name: str) -> list[NDArray[np.uint8]]:
    """Return the maps of `count` samples, ``(count, size)`` each, put together from their parts in order of arrival.

    Args:
        output: for each sample the same parts; each is the uint32 index of its map, its uint32 number of bytes, and the
            bytes.
        sizes: bytes of each map.
        order: order of the bytes in a word, ``<`` or ``>``.
        name: the model's name, for messages.

    Raises:
        BlrcError: the output has another form, or a map has more or fewer bytes.
    """
    if count == 0 or len(output) % count:
        raise BlrcError(f"{name}: {len(output)} bytes for {count} samples, expected as many for each")
    rows = np.frombuffer(output, np.uint8).reshape(count, -1)
    places = _places(rows[0].tobytes(), len(sizes), "little" if order == "<" else "big", name)
    heads = np.array([start - HEAD + i for part in places for start, _ in part for i in range(HEAD)], np.intp)
    if not (rows[:, heads] == rows[0, heads]).all():
        raise BlrcError(f"{name}: the steps of two samples gave parts of different sizes")
    for index, (part, size) in enumerate(zip(places, sizes, strict=True)):
        given = sum(nbytes for _, nbytes in part)
        if given != size:
            raise BlrcError(f"{name}: step {index} gave {given} bytes, expected {size}")
    return [np.concatenate([rows[:, start : start + n] for start, n in part], axis=1) for part in places]


def _places(sample: bytes, maps: int, order: Literal["little", "big"], name: str) -> list[list[tuple[int, int]]]:
    """Return for each map the start and the number of bytes of its parts in a sample."""
    places: list[list[tuple[int, int]]] = [[] for _ in range(maps)]
    at = 0
    while at < len(sample):
        index, nbytes = (int.from_bytes(sample[at + i : at + i + 4], order) for i in (0, 4))
        at += HEAD
        if index >= maps or at + nbytes > len(sample):
            raise BlrcError(f"{name}: step {index} gave {nbytes} bytes; there are {maps - 1} steps")
        places[index].append((at, nbytes))
        at += nbytes
    return places

"""Maps are put together from the parts in which a driver wrote them, and nothing else passes for them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.targets.c.build.observed import together
from blrc.targets.c.machines.linker import overflow


def written(order: str, parts: list[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack(f"{order}2I", index, len(data)) + data for index, data in parts)


@given(st.data(), st.sampled_from("<>"))
def test_parts_in_any_order(data: st.DataObject, order: str) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    count = data.draw(st.integers(1, 3))
    whole = [[bytes(data.draw(st.binary(min_size=n, max_size=n))) for n in sizes] for _ in range(count)]
    # Which map gives its next byte: the same for all samples, whatever the order of maps.
    turns = data.draw(st.permutations([index for index, n in enumerate(sizes) for _ in range(n)]))
    output = b""
    for sample in whole:
        at = [0] * len(sizes)
        for index in turns:
            output += written(order, [(index, sample[index][at[index] : at[index] + 1])])
            at[index] += 1
    for index, found in enumerate(together(output, count, sizes, order, "net")):
        assert [row.tobytes() for row in found] == [sample[index] for sample in whole]


@pytest.mark.parametrize(
    ("output", "count", "complaint"),
    [
        (written("<", [(0, b"ab"), (1, b"c")]), 1, "step 0 gave 2 bytes, expected 3"),
        (written("<", [(0, b"abc"), (0, b"d"), (1, b"c")]), 1, "step 0 gave 4 bytes, expected 3"),
        (written("<", [(0, b"abc")]), 1, "step 1 gave 0 bytes, expected 1"),
        (written("<", [(0, b"abc"), (2, b"d")]), 1, "step 2 gave 1 bytes; there are 1 steps"),
        (written("<", [(0, b"abc"), (1, b"d")])[:-1], 1, "step 1 gave 1 bytes"),
        (written("<", [(0, b"abc"), (1, b"d")]), 3, "20 bytes for 3 samples"),
        (written("<", [(0, b"abc"), (1, b"d"), (1, b"d"), (0, b"abc")]), 2, "parts of different sizes"),
        (b"", 1, "step 0 gave 0 bytes"),
    ],
)
def test_what_is_not_what_was_expected(output: bytes, count: int, complaint: str) -> None:
    with pytest.raises(BlrcError, match=complaint):
        together(output, count, [3, 1], "<", "net")


def test_samples_are_not_mixed_up() -> None:
    output = written(">", [(0, b"ab"), (0, b"c"), (1, b"d")]) + written(">", [(0, b"AB"), (0, b"C"), (1, b"D")])
    first, second = together(output, 2, [3, 1], ">", "net")
    assert first.tobytes() == b"abcABC" and second.tobytes() == b"dD"
    assert first.dtype == np.uint8


def test_what_linkers_say() -> None:
    assert overflow("ld: region `RAM' overflowed by 1234 bytes\n") == ("RAM", 1234)
    assert overflow("ld: region 'FLASH' overflowed by 8 bytes") == ("FLASH", 8)
    assert overflow("ld: undefined reference to `main'") is None

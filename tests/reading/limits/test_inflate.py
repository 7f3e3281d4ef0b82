"""Inflating stops at what was settled before."""

from __future__ import annotations

import gzip
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.reading import inflate

GOOD = gzip.compress(b"0123456789" * 10)


@given(st.binary(max_size=300))
def test_what_was_compressed_comes_back(content: bytes) -> None:
    packed = gzip.compress(content)
    assert inflate.gunzip(packed, len(content)) == content
    assert inflate.first_bytes(packed, 7) == content[:7]
    if content:
        with pytest.raises(ValueError, match="inflates to more than"):
            inflate.gunzip(packed, len(content) - 1)


@pytest.mark.parametrize("end", range(len(GOOD)))
def test_every_part_is_refused(end: int) -> None:
    with pytest.raises(ValueError, match=r"cut off|damaged"):
        inflate.gunzip(GOOD[:end], 1000)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_no_damage_goes_unseen(place: int, change: int) -> None:
    damaged = bytearray(GOOD)
    damaged[place] ^= change
    with suppress(ValueError):
        assert inflate.gunzip(bytes(damaged), 1000) == b"0123456789" * 10  # in the header's time, say


def test_what_lies_behind_the_end_is_refused() -> None:
    for more in (b"x", GOOD):  # a second member would be inflated by gzip itself
        with pytest.raises(ValueError, match="lie behind the end"):
            inflate.gunzip(GOOD + more, 1000)
    with pytest.raises(ValueError, match="damaged"):
        inflate.gunzip(b"text", 1000)


def test_the_limit_grows_with_the_file() -> None:
    assert inflate.limit(0) == inflate.FREE
    assert inflate.limit(inflate.FREE) == inflate.RATIO * inflate.FREE

"""Constant tables as C text: the same numbers whole and in parts."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from by_night import rows_where

from blrc.targets.c.text import stored


def read(text: str) -> list[int]:
    """Every number between braces, in order."""
    bodies = re.findall(r"\{\n(.*?)\}", re.sub(r"#if.*?#endif\n", "", text, flags=re.DOTALL), re.DOTALL)
    return [eval(number.strip()) for body in bodies for number in body.split(",") if number.strip()]


def far(text: str) -> list[tuple[int, int]]:
    """Declared and listed elements of every part on AVR."""
    parts = re.findall(r"\[(\S+|\S+ \S+)\] = \{\n(?:#endif\n)?(.*?)\}", text, re.DOTALL)
    sizes = [re.sub(r"NET_BLRC_PART\(\d+, (\d+)\)", r"\1", size) for size, _ in parts]
    return [
        (int(size), len([n for n in body.split("#if")[0].split(",") if n.strip()]))
        for size, (_, body) in zip(sizes, parts, strict=True)
    ]


TYPES = ("int8", "uint8", "int16", "int32", "uint32")
SIZES = (32_764, 32_768, 65_528, 65_532, 100_000)
BY_DAY = {*zip(TYPES, SIZES, strict=True)}


@pytest.mark.parametrize(("dtype", "nbytes"), rows_where(lambda case: case in BY_DAY, product(TYPES, SIZES)))
def test_parts_hold_the_whole(dtype: str, nbytes: int) -> None:
    kind = np.dtype(dtype)
    array = np.random.default_rng(0).integers(np.iinfo(kind).min, np.iinfo(kind).max, nbytes // kind.itemsize, kind)
    text = stored.define("NET", "table", array)
    assert read(text) == array.tolist()
    parts = far(text)
    assert sum(listed for _, listed in parts) == len(array)
    assert all(size == listed and size * kind.itemsize < 2**15 for size, listed in parts)
    assert len(parts) == -(-nbytes // stored.AVR_OBJECT)
    assert ("PART" in stored.declare("NET", "table", array)) == (len(parts) > 1)


def test_odd_bytes_are_made_even_where_code_may_follow() -> None:
    odd = np.zeros(41, np.int8)
    assert stored.declare("NET", "t", odd) == "extern const int8_t t[NET_BLRC_EVEN(41)]"
    assert "const int8_t t[NET_BLRC_EVEN(41)] = {" in stored.define("NET", "t", odd)
    assert stored.length("NET", np.zeros(41, np.int16)) == "41"
    assert "t_part_2[238] = {" in stored.define("NET", "t", np.zeros(33_001, np.int8))

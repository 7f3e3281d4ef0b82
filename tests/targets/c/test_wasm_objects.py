"""Sections of WebAssembly objects, against objects written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.targets.c.machines.wasm_objects import measure

HEADER = b"\0asm\1\0\0\0"


def leb128(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


@given(st.lists(st.tuples(st.integers(0, 13), st.integers(0, 70_000)), max_size=6))
def test_code_and_data_are_counted(sections: list[tuple[int, int]]) -> None:
    content = HEADER + b"".join(bytes([kind]) + leb128(size) + bytes(size) for kind, size in sections)
    path = Path(__file__).with_name("unused.o")
    found = measure(path, content)
    assert (found.text, found.data) == tuple(sum(size for kind, size in sections if kind == k) for k in (10, 11))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.o"
    path.write_bytes(b"\x7fELF    ")
    with pytest.raises(BlrcError, match=r"a\.o: is no WebAssembly object"):
        measure(path)

"""Measure WebAssembly objects, which not every ``size`` can read."""

from __future__ import annotations

from pathlib import Path

from blrc.errors import BlrcError
from blrc.targets.c.build.compiler import Sizes

CODE, DATA = 10, 11  # section numbers (WebAssembly core specification 2.0, section 5.5.2)


def measure(path: Path, content: bytes | None = None) -> Sizes:
    """Return the bytes of the code section (text) and of the data section (data, which includes constants).

    Args:
        content: the file's content, where it has been read already.

    Raises:
        BlrcError: `path` is not a WebAssembly object.
    """
    content = path.read_bytes() if content is None else content
    if content[:8] != b"\0asm\1\0\0\0":
        raise BlrcError(f"{path}: is no WebAssembly object")
    sizes = {CODE: 0, DATA: 0}
    at = 8
    while at < len(content):
        section, at = content[at], at + 1
        length, at = _unsigned(content, at)
        sizes[section] = sizes.get(section, 0) + length
        at += length
    return Sizes(sizes[CODE], sizes[DATA], 0)


def _unsigned(content: bytes, at: int) -> tuple[int, int]:
    """Return the number in LEB128 at a position, and where the next one starts."""
    value = shift = 0
    while True:
        byte, at = content[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at

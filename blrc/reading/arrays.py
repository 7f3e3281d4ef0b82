"""Read the arrays of an npz file, and check their sizes before anything is inflated.

A zip archive says how many bytes each member inflates to, and an npy header gives the type and shape of an array. Both
are read first. Arrays of Python objects, of records and of text are refused.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from blrc.reading.archive import Opening

HEADER = 10_000
"""Bytes of the longest npy header that is read, as in NumPy."""

LONGEST_MESSAGE = 200
"""Characters of a reason that is shown."""

_KINDS = "biuf"  # of NumPy's types: truth values, integers, unsigned integers, floating-point numbers
_SUFFIX = ".npy"
_ENCRYPTED = 1  # bit 0 of a member's flags


def load(file: BinaryIO, most: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file by name.

    Args:
        file: the file, open at its beginning.
        most: the largest number of bytes that all arrays together may have.

    Raises:
        ValueError: the file is no npz file, is damaged, holds something other than numbers, or holds too much.
    """
    try:
        with zipfile.ZipFile(Opening(file)) as archive:
            members = archive.infolist()
            _check_members(members, most)
            return {info.filename.removesuffix(_SUFFIX): _array(archive, info) for info in members}
    except ValueError as error:
        raise ValueError(_short(str(error))) from None
    # A damaged archive or header raises almost anything: of zlib, zipfile, struct, NumPy's parser and Python's.
    except Exception as error:
        raise ValueError(f"it is no whole npz file: {_short(str(error)) or type(error).__name__}") from None


def _short(message: str) -> str:
    """Put a message on one line and cut it, since it may show a long header or a member's name."""
    line = " ".join(message.split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}..."


def _check_members(members: list[zipfile.ZipInfo], most: int) -> None:
    seen: set[str] = set()
    for info in members:
        if info.filename in seen:
            raise ValueError(f"it holds {info.filename!r} twice")
        seen.add(info.filename)
        if not info.filename.endswith(_SUFFIX):
            raise ValueError(f"it holds {info.filename!r}, which is no array")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"it holds {info.filename!r} encrypted, or in another compression than deflate")
    total = sum(info.file_size for info in members)
    if total > most:
        raise ValueError(f"its arrays have {total:,} bytes; at most {most:,} are read")


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    name = info.filename.removesuffix(_SUFFIX)
    with archive.open(info) as member:
        dtype, shape, columns_first = _header(name, member)
        size = dtype.itemsize * math.prod(shape)
        if member.tell() + size != info.file_size:
            raise ValueError(
                f"array {name!r}: its header says {dtype} {shape}, but it has {info.file_size - member.tell():,} bytes"
            )
        content = bytearray(size)
        done = 0
        for chunk in _chunks(member, size):
            content[done : done + len(chunk)] = chunk
            done += len(chunk)
        if done != size or member.read(1):  # reading on to the end checks the member's checksum
            raise ValueError(f"array {name!r}: is cut off")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if columns_first else "C")


def _header(name: str, member: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return the type and shape of an array, and whether its first axis varies fastest (Fortran order)."""
    version = np.lib.format.read_magic(member)  # type: ignore[no-untyped-call, unused-ignore]
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"array {name!r}: is of npy version {version}; 1.0 and 2.0 are read")
    read: Any = readers[version]  # NumPy 1 declares neither its types nor this argument
    try:
        with warnings.catch_warnings(action="error"):  # of what Python 2 wrote
            shape, columns_first, dtype = read(member, max_header_size=HEADER)
    except Exception:  # Python's parser and NumPy's raise almost anything, and advise to allow pickles
        raise ValueError(f"array {name!r}: its header is damaged, or longer than {HEADER:,} bytes") from None
    if dtype.kind not in _KINDS or dtype.names is not None or dtype.subdtype is not None:
        raise ValueError(f"array {name!r}: is of type {dtype}; only numbers are read")
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"array {name!r}: has shape {shape}")
    return dtype, tuple(shape), bool(columns_first)


def _chunks(member: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield at most `size` bytes of a member, a mebibyte at a time."""
    while size > 0 and (chunk := member.read(min(size, 1 << 20))):
        size -= len(chunk)
        yield chunk

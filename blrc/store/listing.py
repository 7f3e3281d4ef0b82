"""Check how a manifest or a journal lists the files of an export: plain names in the folder, size and SHA-256.

A stranger may have written such a list. A name that passes here means the same file on every system, stays in the
folder, and is none of the hidden names that blrc uses for itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blrc.reading import schema
from blrc.reading.schema import MisfitError, shown
from blrc.store import steps

LONGEST = 255  # bytes of a path, and of a part of it; an export of the longest name has 120
PARTS = 12  # folders in one another; a package's example has six
MOST_FILES = 4096
"""Files of an export: one with every package has 300."""
MOST_BYTES = 4 * 2**30
"""Bytes of all files together: twice what ONNX allows for a file. They are hashed piece by piece."""

_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?", re.ASCII)
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$|clock\$)(?:\..*)?", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PIECE = 2**20  # bytes that are hashed at a time


@dataclass(frozen=True)
class Content:
    """Describe the content of a file by its number of bytes and their SHA-256."""

    size: int
    sha256: str


def content_of(data: bytes) -> Content:
    """Return the size and the SHA-256 of these bytes."""
    return Content(len(data), hashlib.sha256(data).hexdigest())


def holds(path: Path, content: Content) -> bool:
    """Return whether a path is a regular file with this content. Links are not followed, and FIFOs are not waited for.

    Raises:
        OSError: the file cannot be read.
    """
    if steps.kind_of(path) != stat.S_IFREG:
        return False
    with os.fdopen(os.open(path, os.O_RDONLY | steps.NO_FOLLOW | steps.BINARY), "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size != content.size:
            return False
        sha, left = hashlib.sha256(), content.size
        while left >= 0 and (piece := file.read(min(_PIECE, left + 1))):
            sha.update(piece)
            left -= len(piece)
    return left == 0 and sha.hexdigest() == content.sha256


def check_path(name: Any, where: str) -> None:
    """Refuse a name that is not plain.

    A plain name is made of ASCII letters, digits and ``. _ + -``, with ``/`` between folders. No part of it is empty,
    starts with a dot or a dash, ends with a dot, or is the name of a device on Windows.

    Raises:
        MisfitError: the name is not plain.
    """
    plain = isinstance(name, str) and len(name) <= LONGEST and name.count("/") < PARTS
    if not plain or not all(_PART.fullmatch(part) and not _DEVICES.fullmatch(part) for part in name.split("/")):
        raise MisfitError(f"{where}, {shown(name)}, is no plain name of a file in the folder")


def check_sha256(value: Any, where: str) -> None:
    """Refuse a value that is not a SHA-256 in lower-case hexadecimal digits.

    Raises:
        MisfitError: it is not.
    """
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise MisfitError(f"{where} is {shown(value)}, expected 64 hexadecimal digits")


def check_apart(names: Iterable[str]) -> None:
    """Refuse names of which two differ only in case, or of which one is also a folder of another.

    Raises:
        MisfitError: there are such names.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        folded = name.lower()
        if folded in files:
            raise MisfitError(f"files names {shown(files[folded])} and {shown(name)}, which may be one file")
        files[folded] = name
        parts = folded.split("/")
        folders.update({"/".join(parts[:depth]): name for depth in range(1, len(parts))})
    for folder in sorted(folders.keys() & files.keys()):
        raise MisfitError(f"files names {shown(files[folder])}, which is a folder of {shown(folders[folder])}")


def check_total(sizes: Iterable[int], where: str) -> None:
    """Refuse files that have too many bytes together.

    Raises:
        MisfitError: they have.
    """
    total = sum(sizes)
    if total > MOST_BYTES:
        raise MisfitError(f"{where} has {total} bytes in all; {MOST_BYTES} are the most that is read")


_ENTRY = schema.record({"size": schema.whole(0, MOST_BYTES), "sha256": check_sha256})


def files_up_to(most: int) -> schema.Check:
    """Return a check for an object of at most `most` files, which maps each name to size and SHA-256."""
    return schema.mapping(check_path, _ENTRY, most)


def contents(plain: Mapping[str, Any]) -> dict[str, Content]:
    """Return the files of an object that has passed `files_up_to`."""
    return {name: Content(**entry) for name, entry in plain.items()}

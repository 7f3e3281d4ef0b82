"""Read sealed files of tensors and plain data, which `blrc.frontend.saving.write_sealed` writes, without torch.

A sealed file is a torch zip (it loads under ``weights_only=True``) that ends in a zip comment with the SHA-256 of
everything before it. This seal is checked before anything is unpickled, so a damaged file is refused as a whole.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blrc.errors import BlrcError
from blrc.reading import advice
from blrc.reading.torchzip import tensors

SEAL = b"blrc sha256 "
SEAL_BYTES = len(SEAL) + 64
MOST_BYTES = 2**29  # of a file: its content is in memory twice, so that 1 GiB serves for every file


def read(path: Path) -> Mapping[str, Any]:
    """Return the content of a sealed file, with tensors as read-only NumPy arrays.

    Nothing in the file is executed, and no more memory is taken than twice its size.

    Raises:
        BlrcError: there is no such file, or it was not written by blrc, is truncated, damaged or too large, or holds
            more than plain data and tensors.
    """
    raw = _bytes(path)
    if not raw.startswith(b"PK\x03\x04"):
        raise BlrcError(f"{path}: not a blrc checkpoint; {advice.advice(path)}")
    seal = raw[-SEAL_BYTES:]
    if not seal.startswith(SEAL):
        what = advice.advice(path)
        doubt = f", but {what}" if what.startswith(advice.TORCH) else f", or truncated; {what}"
        raise BlrcError(f"{path}: not a blrc checkpoint{doubt}")
    if seal[len(SEAL) :] != hashlib.sha256(memoryview(raw)[:-SEAL_BYTES]).hexdigest().encode():
        raise BlrcError(f"{path}: damaged (its SHA-256 does not match its contents); copy it again")
    try:
        content = tensors.read(raw, SEAL_BYTES)
    except ValueError as error:
        raise BlrcError(f"{path}: refused: not plain tensors and data ({error}); nothing in it was executed") from None
    return content if isinstance(content, dict) else {}


def format_of(content: Mapping[str, Any]) -> str | None:
    """Return the format that a sealed file declares, or None if it declares none or one that is no text."""
    held = content.get("format")
    return held if type(held) is str else None


def _bytes(path: Path) -> bytes:
    """Return the content of a regular file, or only its first bytes if it is no zip file."""
    try:
        # Without O_NONBLOCK, a FIFO that nobody writes to would hang here.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            return _regular(path, handle)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise BlrcError(
            f"{path}: no such file; give the path of a checkpoint written by blrc.save() or 'blrc train'"
        ) from None
    except OSError as error:
        folder = "; give the checkpoint's file, not a folder" if isinstance(error, IsADirectoryError) else ""
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}{folder}") from None
    except ValueError:  # a NUL in it
        raise BlrcError(f"{str(path)!r}: cannot read: no name of a file") from None


def _regular(path: Path, handle: int) -> bytes:
    found = os.fstat(handle)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise BlrcError(f"{path}: cannot read: not a regular file")
    with open(handle, "rb", closefd=False) as file:
        start = file.read(4)
        if start != b"PK\x03\x04":
            return start
        if found.st_size > MOST_BYTES:
            raise BlrcError(
                f"{path}: a checkpoint of {found.st_size} bytes is too large, {MOST_BYTES} are read at most; save it "
                "with compact=True"
            )
        file.seek(0)
        return file.read(found.st_size)

"""Open a file only if it is a regular one, and read no more of it than its reader can want.

A FIFO, a socket or a device can keep its reader waiting for ever, or never end. They are refused before anything is
read. The file is opened without waiting, and the check looks at the opened file, not at its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from blrc.errors import BlrcError

LARGEST = 4 << 30
"""Bytes of the largest file of any kind that is read: no network and no data set of this project is near it."""

_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open the regular file at `path`, and give the open file and its size in bytes.

    Raises:
        OSError: there is no such file, it cannot be opened, it is no regular file, or no file can have its name.
    """
    try:
        handle = os.open(path, _OPEN)
    except ValueError:  # a NUL, or a surrogate that stands for no byte
        raise OSError(errno.EINVAL, "no file can have this name") from None
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"it is a {_kind(found.st_mode)}, not a regular file")
    except BaseException:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        yield file, found.st_size


def read(path: Path, most: int = LARGEST) -> bytes:
    """Return the content of the regular file at `path`, which may have at most `most` bytes.

    Raises:
        OSError: as for `opened`, or the file is larger than `most`, or its size changes meanwhile.
    """
    with opened(path) as (file, size):
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes; at most {most:,} are read")
        content = file.read(size + 1)
        if len(content) != size:  # it grows, or it is of a file system that does not know its sizes
            raise OSError(errno.EINVAL, "its size is not what the system says it is")
        return content


def check_name(path: Path) -> Path:
    """Return `path` if a file can have that name.

    Raises:
        BlrcError: the name holds a NUL character, or one that the file system's encoding cannot express.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return path
        reason = "a NUL character"
    except UnicodeEncodeError:
        reason = "a character that stands for no byte"
    raise BlrcError(f"{str(path)!r}: holds {reason}, which no file's name can; give another name")


def check_place(folder: Path) -> Path:
    """Return `folder` if it is a folder, or if nothing is there and a folder can be made.

    Raises:
        BlrcError: no folder can have the name, something else is there, such as a file or a link to nothing, or the
            system cannot say what is there, as for links that go in a circle.
    """
    try:
        found = check_name(folder).stat()
    except FileNotFoundError:
        if folder.is_symlink():
            raise BlrcError(f"{folder}: is a link to nothing; give another folder") from None
        return folder
    except OSError as error:
        raise BlrcError(f"{folder}: cannot write: {error.strerror or error}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise BlrcError(f"{folder}: is a {_kind(found.st_mode)}, not a folder; give another one")
    return folder


def check_output(path: Path) -> Path:
    """Return `path` if a regular file can be written there: nothing is there yet, or a regular file is.

    Raises:
        BlrcError: no file can have the name, or something else is there, such as a device, which must not be replaced.
    """
    try:
        found = check_name(path).stat()
    except FileNotFoundError:
        return path
    except OSError as error:
        raise BlrcError(f"{path}: cannot write: {error.strerror or error}") from None
    if not stat.S_ISREG(found.st_mode):
        raise BlrcError(f"{path}: is a {_kind(found.st_mode)}, not a regular file; give another name")
    return path


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "device",
        stat.S_IFBLK: "device",
    }
    return kinds.get(stat.S_IFMT(mode), "special file")

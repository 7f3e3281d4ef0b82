"""Decide which files of a cache may be used as code: only those that nobody but this user can have made.

What is compiled or loaded from a cache is run. So each file must be a regular one that belongs to this user and that
nobody else may write, and so must each folder from the cache down. The folders above may belong to the system, and may
be open to all if they are sticky, as ``/tmp`` is: nobody can take another's folder away there. No symbolic link is
followed anywhere on the path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from blrc.store.places import make_private

READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_T = TypeVar("_T")


class UnsafeError(Exception):
    """Report that somebody else can have made what lies in the cache; the message says what is wrong and what to do."""


def private_folder(folder: Path) -> Path:
    """Make a folder of the cache if it is missing, check it, and return its absolute path with links unresolved.

    Raises:
        UnsafeError: the folder or the cache around it is not this user's alone, or is no folder.
        OSError: it cannot be made.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100  (links must stay visible)
    make_private(folder)
    _check_above(folder.parent.parent)
    for each in (folder.parent, folder):
        found = os.lstat(each)
        _check_own(each, found)
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafeError(f"{each}: is no folder; move it away, or set BLRC_CACHE to a folder")
    return folder


def is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Return whether something of this kind is there.

    Args:
        kind: ``stat.S_ISREG`` or ``stat.S_ISDIR``, say.

    Raises:
        UnsafeError: something is there, but is not this user's alone, or is a link to something.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode) and not path.exists():
        return False  # a link to nothing is damage
    _check_own(path, found)
    return kind(found.st_mode)


def read_regular(path: Path, what: Callable[[int], _T], largest: int) -> _T:
    """Open a regular file of at most `largest` bytes, and return what `what` reads from its descriptor.

    Raises:
        OSError: it cannot be read, or another kind of file, which is never waited for, took its place meanwhile.
    """
    file = os.open(path, READ)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > largest:
            raise OSError(errno.EINVAL, "not a regular file of the expected size", str(path))
        return what(file)
    finally:
        os.close(file)


def _check_above(folder: Path) -> None:
    """Check that the folders above the cache are the system's or this user's, and that nobody else can replace one."""
    for each in (*reversed(folder.parents), folder):
        found = os.lstat(each)
        if stat.S_ISLNK(found.st_mode):
            raise _linked(each)
        mine = not hasattr(os, "getuid") or found.st_uid in (0, os.getuid())
        if not mine or (hasattr(os, "getuid") and found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX):
            raise UnsafeError(f"{each}: others may write there; set BLRC_CACHE to a folder of your own")


def _check_own(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _linked(path)
    if hasattr(os, "getuid"):
        if found.st_uid != os.getuid():
            raise UnsafeError(f"{path}: is another user's; delete it, or set BLRC_CACHE to a folder of your own")
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise UnsafeError(f"{path}: others may write it (mode {mode:o}); delete it, then it is made again")


def _linked(path: Path) -> UnsafeError:
    return UnsafeError(f"{path}: is a symbolic link; set BLRC_CACHE to the folder that is meant, without links")

"""Which entries of the cache of compiled libraries may be loaded: those that only this user can have made.

A library that is loaded runs. So each file has to be a regular one of this user that nobody else may write, and so has
each folder from the cache down; the folders above may be the system's, and open to all where they are sticky, as
``/tmp`` is: nobody can take another's folder away there. No symbolic link is followed anywhere on the path. What is
damaged, in folders that are safe, is built again; what is not safe is neither loaded nor touched. What a killed build
left goes with a later one: a build holds a lock on its folder as long as it lives.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blrc.store.lock import UnknownLockError, take
from blrc.store.places import make_private

LIBRARY, CHECKSUM = "library.so", "sha256"
LARGEST = 1 << 31  # bytes of a library: what x86-64 code can address without another memory model
ATTEMPTS = 3
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_BUILD = re.compile(r"\.[0-9a-f]{16}\.[a-z0-9_]{8}")  # the start of a key, and what tempfile.mkdtemp adds
DEAD_AFTER = 3600  # seconds: a folder is made before it can be locked; and no build takes as long, where none can be
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class UnsafeError(Exception):
    """Somebody else can have made what lies in the cache; the message says what is wrong and how to mend it."""


def library(cache: Path, key: str, build: Callable[[Path], Path]) -> Path | None:
    """Return the library of an entry, which is built where it is missing or damaged; None: nothing can be kept there.

    Args:
        cache: the folder of all entries; it is made where it is missing.
        key: name of the entry.
        build: compile the library into an empty folder that it is given, and return its path.

    Raises:
        UnsafeError: the cache or the entry is not this user's alone.
    """
    cache = Path(os.path.abspath(cache))  # noqa: PTH100  (links must stay visible)
    try:
        make_private(cache)
        _check_above(cache.parent.parent)
        for folder in (cache.parent, cache):
            _check_own(folder, os.lstat(folder))
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                raise UnsafeError(f"{folder}: is no folder; move it away, or set BLRC_CACHE to a folder")
        for _ in range(ATTEMPTS):
            if (found := whole(cache / key)) is not None:
                return found
            _fill(cache / key, build)
    except OSError:
        pass
    return None


def whole(entry: Path) -> Path | None:
    """Return the library of an entry that is as it was written; None: it is missing or damaged.

    Raises:
        UnsafeError: it is there, and not this user's alone.
    """
    if not _own(entry, stat.S_ISDIR) or not all(_own(entry / name, stat.S_ISREG) for name in (LIBRARY, CHECKSUM)):
        return None
    try:
        checksum = _read(entry / CHECKSUM, lambda file: os.read(file, 65).decode("ascii"))
        return entry / LIBRARY if _read(entry / LIBRARY, _sha256) == checksum else None
    except (OSError, ValueError):
        return None


def _fill(entry: Path, build: Callable[[Path], Path]) -> None:
    """Build the entry beside its place and put it there, unless another process was faster."""
    _sweep(entry.parent)
    with tempfile.TemporaryDirectory(prefix=f".{entry.name[:16]}.", dir=entry.parent) as folder, _locked(folder):
        beside, new = Path(folder), Path(folder) / "new"
        built = build(beside)
        new.mkdir(mode=0o700)
        built.rename(new / LIBRARY)
        (new / LIBRARY).chmod(0o700)
        (new / CHECKSUM).write_text(_read(new / LIBRARY, _sha256), encoding="ascii")
        (new / CHECKSUM).chmod(0o600)
        if os.path.lexists(entry) and whole(entry) is None:
            if stat.S_ISDIR(os.lstat(entry).st_mode):
                entry.chmod(0o700)  # a folder that may not be written cannot be moved
            entry.rename(beside / "damaged")
        try:
            new.rename(entry)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _sweep(cache: Path) -> None:
    """Remove the folders of builds that were killed: old ones of this user alone, which no process has locked."""
    with suppress(OSError), os.scandir(cache) as entries:
        for each in [Path(entry.path) for entry in entries if _BUILD.fullmatch(entry.name)]:
            with suppress(OSError, UnsafeError):
                if _own(each, stat.S_ISDIR) and time.time() - os.lstat(each).st_mtime > DEAD_AFTER:
                    with _locked(each) as dead:
                        if dead:
                            shutil.rmtree(each, ignore_errors=True)


@contextmanager
def _locked(folder: str | Path) -> Iterator[bool]:
    """Lock a folder while the block runs; False: another process has. Where folders cannot be locked, nobody has."""
    if not hasattr(os, "O_DIRECTORY"):
        yield True
        return
    descriptor = os.open(folder, _READ | os.O_DIRECTORY)
    try:
        try:
            free = take(descriptor)
        except UnknownLockError:
            free = True
        yield free
    finally:
        os.close(descriptor)


def _check_above(folder: Path) -> None:
    """The folders above the cache are the system's or this user's, and nobody else can put another in their place."""
    for each in (*reversed(folder.parents), folder):
        found = os.lstat(each)
        if stat.S_ISLNK(found.st_mode):
            raise _linked(each)
        mine = not hasattr(os, "getuid") or found.st_uid in (0, os.getuid())
        if not mine or (hasattr(os, "getuid") and found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX):
            raise UnsafeError(f"{each}: others may write there; set BLRC_CACHE to a folder of your own")


def _own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether it is there and of this kind.

    Raises:
        UnsafeError: it is there, and not this user's alone, or a link to something.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode) and not path.exists():
        return False  # a link to nothing is damage
    _check_own(path, found)
    return kind(found.st_mode)


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


def _read(path: Path, what: Callable[[int], str]) -> str:
    """What a regular file holds; another that took its place meanwhile is an error, and never waited for."""
    file = os.open(path, _READ)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise OSError(errno.EINVAL, "not a regular file of a library's size", str(path))
        return what(file)
    finally:
        os.close(file)


def _sha256(file: int) -> str:
    sha = hashlib.sha256()
    while chunk := os.read(file, 2**20):
        sha.update(chunk)
    return sha.hexdigest()

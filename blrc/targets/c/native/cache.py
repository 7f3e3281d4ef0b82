"""Manage the folder of compiled libraries: build entries that are missing or damaged, and load those that are safe.

`blrc.store.private` says what is safe. A damaged entry in a safe folder is built again; an entry that is not safe is
neither loaded nor touched. A build holds a lock on its folder as long as it lives, so later builds can find and remove
what killed ones have left.
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
from blrc.store.private import READ, UnsafeError, is_own, private_folder, read_regular

LIBRARY, CHECKSUM = "library.so", "sha256"
LARGEST = 1 << 31  # bytes of a library: what x86-64 code can address without another memory model
ATTEMPTS = 3
_BUILD = re.compile(r"\.[0-9a-f]{16}\.[a-z0-9_]{8}")  # the start of a key, and what tempfile.mkdtemp adds
DEAD_AFTER = 3600  # seconds: a folder is made before it can be locked; and no build takes as long, where none can be


def library(cache: Path, key: str, build: Callable[[Path], Path]) -> Path | None:
    """Return the library of an entry, built if it is missing or damaged, or None where the cache cannot keep it.

    Args:
        cache: the folder of all entries; it is made where it is missing.
        key: name of the entry.
        build: compiles the library into the empty folder that it is given, and returns its path.

    Raises:
        UnsafeError: the cache or the entry does not belong to this user alone.
    """
    try:
        cache = private_folder(cache)
        for _ in range(ATTEMPTS):
            if (found := whole(cache / key)) is not None:
                return found
            _fill(cache / key, build)
    except OSError:
        pass
    return None


def whole(entry: Path) -> Path | None:
    """Return the library of an entry that is undamaged, or None where it is missing or damaged.

    Raises:
        UnsafeError: the entry is there, but does not belong to this user alone.
    """
    if not is_own(entry, stat.S_ISDIR) or not all(is_own(entry / name, stat.S_ISREG) for name in (LIBRARY, CHECKSUM)):
        return None
    try:
        checksum = read_regular(entry / CHECKSUM, lambda file: os.read(file, 65).decode("ascii"), LARGEST)
        return entry / LIBRARY if read_regular(entry / LIBRARY, _sha256, LARGEST) == checksum else None
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
        (new / CHECKSUM).write_text(read_regular(new / LIBRARY, _sha256, LARGEST), encoding="ascii")
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
    """Remove what killed builds have left: old folders of this user alone that no process has locked."""
    with suppress(OSError), os.scandir(cache) as entries:
        for each in [Path(entry.path) for entry in entries if _BUILD.fullmatch(entry.name)]:
            with suppress(OSError, UnsafeError):
                if is_own(each, stat.S_ISDIR) and time.time() - os.lstat(each).st_mtime > DEAD_AFTER:
                    with _locked(each) as dead:
                        if dead:
                            shutil.rmtree(each, ignore_errors=True)


@contextmanager
def _locked(folder: str | Path) -> Iterator[bool]:
    """Lock a folder while the block runs, and yield whether that succeeded; False means that another process holds it.

    Where folders cannot be locked, it yields True.
    """
    if not hasattr(os, "O_DIRECTORY"):
        yield True
        return
    descriptor = os.open(folder, READ | os.O_DIRECTORY)
    try:
        try:
            free = take(descriptor)
        except UnknownLockError:
            free = True
        yield free
    finally:
        os.close(descriptor)


def _sha256(file: int) -> str:
    sha = hashlib.sha256()
    while chunk := os.read(file, 2**20):
        sha.update(chunk)
    return sha.hexdigest()

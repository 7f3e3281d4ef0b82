"""Find the cache, and check folders before they are used. `blrc.store.atomic` writes the files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from blrc.errors import BlrcError
from blrc.reading.regular import check_name, check_output
from blrc.store import atomic
from blrc.store.atomic import cannot_write

__all__ = [
    "cache_folder",
    "expect_folder",
    "fill_cache",
    "is_folder",
    "make_private",
    "writable",
    "write_atomically",
]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the regular file at `path` by `content`, or leave it as it was.

    Raises:
        BlrcError: something other than a regular file is there, or it cannot be written.
    """
    check_output(path)
    atomic.write_atomically(path, content)


def cache_folder(name: str) -> Path:
    """Return the folder of the cache for `name`.

    It is ``$BLRC_CACHE/<name>``; if that is not set, ``$XDG_CACHE_HOME/blrc/<name>``, or ``~/.cache/blrc/<name>``.

    Raises:
        BlrcError: neither variable is set and the user has no home folder.
    """
    if own := os.environ.get("BLRC_CACHE", ""):
        return Path(own) / name
    try:
        base = os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache"
    except RuntimeError:
        raise BlrcError("no home folder for files to keep; set BLRC_CACHE to a folder") from None
    return Path(base) / "blrc" / name


def make_private(folder: Path) -> None:
    """Make a folder and the missing ones above it, for this user alone whatever the umask.

    Raises:
        OSError: that cannot be done.
    """
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def fill_cache(path: Path, content: bytes) -> None:
    """Write a file of the cache, and make its folders for this user alone, because compiled libraries lie there too.

    Raises:
        BlrcError: it cannot be written.
    """
    try:
        make_private(path.parent)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise cannot_write(path, error) from None
    write_atomically(path, content)


def is_folder(path: Path) -> bool:
    """Return whether `path` is a folder.

    Raises:
        BlrcError: the system cannot say, as for a name that is too long.
    """
    try:
        return path.is_dir()
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None


def expect_folder(path: Path, content: str) -> None:
    """Check that `path` is a folder.

    Args:
        content: what the folder should hold, for the message.

    Raises:
        BlrcError: it is not.
    """
    if not is_folder(path):
        what = "is a file, not a folder" if path.exists() else "no such folder"
        raise BlrcError(f"{path}: {what}; give one with {content}")


def writable(folder: Path) -> None:
    """Make `folder` if it is missing, and check that a file can be written into it.

    Raises:
        BlrcError: it cannot.
    """
    check_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise cannot_write(folder, error) from None

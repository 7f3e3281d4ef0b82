"""Replace one file: its new content is written beside it, synced, and renamed into place.

A process that is killed leaves the file as it was, and at most a hidden file ``.NAME.blrc-XXXXXXXX`` beside it. The
next write of the same file removes that hidden file, unless a lock shows that its process is still alive.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from blrc.errors import BlrcError
from blrc.store import steps
from blrc.store.lock import ATTEMPTS, UnknownLockError, same, take, unstable

_SUFFIX_BYTES = 20  # of the longest ending that `hidden` is given
_NAME_BYTES = 255  # of a file's name, on every common file system


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`, or leave it as it was.

    Raises:
        BlrcError: the folder is missing or read-only, the disk is full, or a folder or device has the name.
    """
    try:
        _refuse_devices(path)
        steps.make_folders(path.parent)
        _sweep(path)
        beside, descriptor = _create_beside(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise cannot_write(path, error) from None
    try:
        try:
            steps.write(descriptor, beside, content)
            steps.sync(descriptor, beside)
            if sys.platform == "win32":  # where an open file cannot be renamed
                os.close(descriptor)
                descriptor = -1
            steps.rename(beside, path)
        except BaseException:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        steps.sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from None


def hidden(name: str, ending: str) -> str:
    """Return ``.NAME.blrc-ENDING``, with the name cut if the whole would be too long for a file system."""
    while len(os.fsencode(name)) > _NAME_BYTES - _SUFFIX_BYTES:
        name = name[:-1]
    return f".{name}.blrc-{ending}"


def cannot_write(path: Path, error: OSError | ValueError) -> BlrcError:
    """Return the error which says that a file or folder could not be written."""
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return BlrcError(f"{path}: cannot write: {reason}; nothing was changed")


def _refuse_devices(path: Path) -> None:
    """Refuse a device such as /dev/stdout, because renaming a file over it would replace the device."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise OSError(errno.EINVAL, "it is a device, not a file")


def _create_beside(path: Path) -> tuple[Path, int]:
    """Create a hidden file beside `path`, and lock it so that no other process takes it for a leftover."""
    for _ in range(ATTEMPTS):
        beside = path.with_name(hidden(path.name, secrets.token_hex(4)))
        try:
            descriptor = steps.create(beside)
        except FileExistsError:
            continue
        try:
            kept = sys.platform == "win32" or take(descriptor)  # there, a lock would keep it from being renamed
        except UnknownLockError:
            kept = True
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                steps.remove(beside)
            raise
        if kept and same(descriptor, beside):
            return beside, descriptor
        os.close(descriptor)  # it was swept away before it was locked
    raise unstable()


def _sweep(path: Path) -> None:
    """Remove the hidden files that killed processes left beside `path`."""
    left = re.compile(re.escape(hidden(path.name, "")) + "[0-9a-f]{8}")
    found: list[Path] = []
    with suppress(OSError), os.scandir(path.parent) as entries:  # a folder that may be written need not be readable
        found = [Path(entry.path) for entry in entries if left.fullmatch(entry.name)]
    for file in found:
        with suppress(OSError, UnknownLockError):
            descriptor = os.open(file, os.O_RDWR | steps.NO_FOLLOW)
            try:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                if regular and steps.is_mine(file) and take(descriptor) and same(descriptor, file):
                    steps.remove(file)  # Windows refuses to remove what is open: there it stays
            finally:
                os.close(descriptor)

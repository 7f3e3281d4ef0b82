"""Lock files and folders with locks that the kernel releases when their process dies, however it dies.

On Linux and macOS a folder is locked by ``flock`` on the folder itself, which leaves no file behind and does not hold
up readers. Where a folder cannot be locked (Windows, some network file systems), a hidden lock file takes its place. A
lock file is removed by the process that holds its lock. A process that gets the lock of a file which has lost its name
meanwhile tries again, so that two processes never hold the lock of one name.

Where a file system has no locks at all, nobody is refused.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blrc.errors import BlrcError
from blrc.store import steps

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# What systems answer that cannot lock this file or folder; EBADF: NFS locks only what is open for writing.
_UNKNOWN = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
ATTEMPTS = 100  # to get hold of a name that others remove meanwhile; a file system may also be odd for ever


class UnknownLockError(Exception):
    """Report that the file system cannot lock a file or folder."""


@dataclass(frozen=True)
class Lock:
    """Hold a lock of this process.

    Attributes:
        descriptor: the descriptor of the open file or folder that is locked.
        file: the lock file that goes with the lock, or None for a folder's own lock.
    """

    descriptor: int
    file: Path | None = None

    def guards(self, path: Path) -> bool:
        """Return whether `path` is still the name of what is locked."""
        return same(self.descriptor, path)

    def release(self) -> None:
        """Release the lock, and remove its file."""
        if self.file is not None and sys.platform != "win32":
            with suppress(OSError):
                self.file.unlink()
        os.close(self.descriptor)
        if self.file is not None and sys.platform == "win32":  # an open file cannot be removed there
            with suppress(OSError):
                self.file.unlink()


def take(descriptor: int) -> bool:
    """Try to lock an open file or folder without waiting; return False if another descriptor holds the lock.

    The other descriptor may belong to another process, or to another part of this one.

    Raises:
        UnknownLockError: the file system cannot lock it.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno in _UNKNOWN:
            raise UnknownLockError from None
        raise
    return True


def lock_file(path: Path, held: str) -> Lock:
    """Lock the file `path`, which is created if it is missing. Its content is neither read nor written.

    Args:
        held: the message for the case that another process holds the lock.

    Raises:
        BlrcError: it is locked, or something that is not a plain file has its name.
        OSError: it cannot be created.
    """
    for _ in range(ATTEMPTS):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | steps.NO_FOLLOW, 0o666)
        except OSError as error:
            if steps.kind_of(path) not in (None, stat.S_IFREG):
                raise BlrcError(f"{path}: is in the way of a lock, and no file; remove it") from None
            raise error
        if _hold(descriptor, path, held):
            return Lock(descriptor, path)
    raise unstable()


def lock_folder(folder: Path, file: Path, held: str) -> Lock | None:
    """Lock a folder that exists, or `file` in its stead; return None if the folder has lost its name meanwhile.

    Args:
        file: the lock file for systems that cannot lock a folder.
        held: the message for the case that another process holds the lock.

    Raises:
        BlrcError: it is locked.
        OSError: it cannot be opened, for example because it is no folder.
    """
    if sys.platform == "win32":
        return lock_file(file, held)
    else:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if not take(descriptor):
                raise BlrcError(held)
            if same(descriptor, folder):
                return Lock(descriptor)
        except UnknownLockError:
            os.close(descriptor)
            return lock_file(file, held)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None


def _hold(descriptor: int, path: Path, held: str) -> bool:
    """Lock an open lock file; if it has lost its name meanwhile, close it and return False."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BlrcError(f"{path}: is in the way of a lock, and no file; remove it")
        try:
            if not take(descriptor):
                raise BlrcError(held)
        except UnknownLockError:
            pass
        if same(descriptor, path):
            return True
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return False


def unstable() -> OSError:
    """Return the error for a name that does not stay what it was just made or found to be."""
    return OSError(errno.ESTALE, "it is removed or renamed again and again")


def same(descriptor: int, path: Path) -> bool:
    """Return whether `path` is the name of this open file or folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False

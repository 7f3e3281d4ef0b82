"""Change the disk: each write, sync, rename and removal of `blrc.store` is one function here.

Every function first calls `before` with what it is about to do and where. A test puts its own function there, to kill
the process or to raise an error at each step in turn. Otherwise `before` does nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform == "darwin":
    import fcntl

Before = Callable[[str, Path], None]

# What systems answer that cannot sync a folder (some network and FUSE file systems), or do not let it be opened.
NO_FOLDER_SYNC = (errno.EINVAL, errno.EBADF, errno.EACCES, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EISDIR)

# Flags that Windows lacks. A name that turns out to be a symbolic link is refused, and a FIFO does not hang.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
BINARY = getattr(os, "O_BINARY", 0)


def _go_on(what: str, path: Path) -> None:
    """Do nothing before a step."""


before: Before = _go_on


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create one folder whose parent exists; raise a `FileExistsError` if the name is taken."""
    before("make folder", path)
    path.mkdir(mode)


def make_folders(path: Path) -> list[Path]:
    """Create `path` and the missing folders above it, and return those that were created, outermost first."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    made = []
    for folder in reversed(missing):
        try:
            make_folder(folder)
        except FileExistsError:
            if not folder.is_dir():  # another process may have made it meanwhile
                raise
            continue
        sync_folder(folder.parent)
        made.append(folder)
    return made


def create(path: Path) -> int:
    """Create a file that must not exist yet, and return its descriptor."""
    before("create", path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY, 0o666)


def write(descriptor: int, path: Path, content: bytes) -> None:
    """Write all of `content` to an open file."""
    before("write", path)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync(descriptor: int, path: Path) -> None:
    """Wait until an open file's content is on the disk."""
    before("sync", path)
    if sys.platform == "darwin":  # there, fsync does not reach through the drive's own cache
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError:  # a file system that does not know it
            pass
    os.fsync(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries (names created, renamed or removed) are on the disk, if the system can do that."""
    before("sync folder", path)
    if sys.platform != "win32":  # where a folder cannot be opened
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno in NO_FOLDER_SYNC:
                return
            raise
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in NO_FOLDER_SYNC:
                raise
        finally:
            os.close(descriptor)


def rename(source: Path, target: Path) -> None:
    """Rename a file or a folder on the same disk in one step; a file at `target` is replaced."""
    before("rename", target)
    source.replace(target)


def remove(path: Path) -> None:
    """Remove a file, or a symbolic link itself."""
    before("remove", path)
    path.unlink()


def remove_folder(path: Path) -> None:
    """Remove an empty folder."""
    before("remove folder", path)
    path.rmdir()


def write_new(path: Path, content: bytes) -> None:
    """Create a file, write it and sync it."""
    descriptor = create(path)
    try:
        write(descriptor, path, content)
        sync(descriptor, path)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a folder and everything in it; symbolic links in it are removed, and never followed."""
    folders = list(_folders(path))
    for folder in folders:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if not entry.is_dir(follow_symlinks=False):
                remove(Path(entry.path))
    for folder in reversed(folders):
        remove_folder(folder)


def sync_tree(path: Path) -> None:
    """Sync a folder and every folder in it."""
    for folder in reversed(list(_folders(path))):
        sync_folder(folder)


def _folders(path: Path) -> Iterator[Path]:
    """Yield `path` and all folders below it, each before its contents; symbolic links do not count as folders."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        yield folder
        with os.scandir(folder) as entries:
            waiting += sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))


def kind_of(path: Path) -> int | None:
    """Return the file type bits of a name (`stat.S_IFREG`, ...) without following links, or None if nothing has it."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_mine(path: Path) -> bool:
    """Return whether this user owns what has this name; on Windows, which has no user numbers, return True."""
    return sys.platform == "win32" or path.lstat().st_uid == os.geteuid()

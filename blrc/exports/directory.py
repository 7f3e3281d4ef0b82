"""Open a folder once, and read its regular files through no symbolic link.

Every step goes through the descriptor of the folder before it, so that nobody can put another folder or file into a
path between the check and the reading. Only regular files are opened, because a FIFO would wait and a device may act.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from blrc.errors import BlrcError

CHUNK = 2**20
# Windows has neither; there, paths are looked at before and after they are opened.
_HERE = {os.open, os.stat} <= os.supports_dir_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class _MissingError(BlrcError):
    """Report that nothing has the name."""


_Place = int | Path
"""A folder: its descriptor, or where there are none, its path."""


class Directory:
    """Give access to one folder, which is opened once.

    The path itself may be a symbolic link, because the user gave it. Below it, no link is followed.

    Args:
        path: the path of the folder.

    Raises:
        BlrcError: the folder cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._place: _Place = os.open(path, _FOLDER | getattr(os, "O_CLOEXEC", 0)) if _HERE else path
        except OSError as error:
            raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None

    def __enter__(self) -> Directory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._place, int):
            os.close(self._place)

    def names(self) -> list[str]:
        """Return the names in the folder, sorted.

        Raises:
            BlrcError: the folder cannot be read.
        """
        try:
            return sorted(os.listdir(self._place))  # noqa: PTH208  (of a descriptor)
        except OSError as error:
            raise BlrcError(f"{self.path}: cannot read: {error.strerror or error}") from None

    def has(self, name: str) -> bool:
        """Return whether something has this name, reached through no symbolic link.

        Raises:
            BlrcError: it is reached through a symbolic link, or cannot be examined.
        """
        try:
            with self._parent(name) as (place, last):
                self._look(place, last, name)
        except _MissingError:
            return False
        return True

    def size(self, name: str) -> int:
        """Return the size of a regular file in bytes; `name` is a plain path with slashes.

        Raises:
            BlrcError: it is no regular file, is reached through a symbolic link, or is not there.
        """
        with self._parent(name) as (place, last):
            return self._regular(place, last, name).st_size

    def read(self, name: str, size: int, keep: bool = True) -> tuple[bytes, str]:
        """Read a regular file once, at most `size` bytes of it, and return its content and the content's SHA-256.

        Args:
            size: the size that the file must have, in bytes.
            keep: whether to return the content; if not, it is only hashed, and b"" is returned for it.

        Raises:
            BlrcError: as for the method `size`, or the file has another size.
        """
        with self._parent(name) as (place, last):
            seen = self._regular(place, last, name)
            try:
                descriptor = _open(place, last, _FILE | _NO_LINK)
            except OSError as error:
                raise self._unreadable(name, error) from None
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                there = os.fstat(descriptor)
                if (there.st_dev, there.st_ino, there.st_mode) != (seen.st_dev, seen.st_ino, seen.st_mode):
                    raise BlrcError(f"{self.path / name}: was replaced while it was read; try again")
                if there.st_size != size:
                    raise self._changed(name, there.st_size, size)
                sha, parts, left = hashlib.sha256(), list[bytes](), size
                try:
                    while chunk := file.read(left + 1 if keep else min(CHUNK, left + 1)):  # kept in one piece
                        left -= len(chunk)
                        if left < 0:
                            break
                        sha.update(chunk)
                        parts += [chunk] if keep else []
                except OSError as error:
                    raise self._unreadable(name, error) from None
                if left:
                    raise self._changed(name, size - left, size)
                return b"".join(parts), sha.hexdigest()

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[_Place, str]]:
        """Open the folder that holds a file, step by step, and give it with the file's name in it."""
        *folders, last = name.split("/")
        opened: list[int] = []
        place = self._place
        try:
            for depth, part in enumerate(folders):
                inner = "/".join(folders[: depth + 1])
                self._entered(place, part, inner)
                try:
                    place = _open(place, part, _FOLDER | _NO_LINK) if isinstance(place, int) else place / part
                except OSError as error:
                    raise self._unreadable(inner, error) from None
                opened += [place] if isinstance(place, int) else []
            yield place, last
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _entered(self, place: _Place, part: str, name: str) -> None:
        mode = self._look(place, part, name).st_mode
        if not stat.S_ISDIR(mode):
            raise BlrcError(f"{self.path / name}: is {kind_of(mode)}, and should be a folder; move it away")

    def _regular(self, place: _Place, last: str, name: str) -> os.stat_result:
        seen = self._look(place, last, name)
        if not stat.S_ISREG(seen.st_mode):
            raise BlrcError(f"{self.path / name}: is {kind_of(seen.st_mode)}, not a regular file; export again")
        return seen

    def _look(self, place: _Place, part: str, name: str) -> os.stat_result:
        try:
            if isinstance(place, int):
                return os.stat(part, dir_fd=place, follow_symlinks=False)
            return os.lstat(place / part)
        except OSError as error:
            raise self._unreadable(name, error) from None

    def _unreadable(self, name: str, error: OSError) -> BlrcError:
        kind = _MissingError if isinstance(error, FileNotFoundError) else BlrcError
        return kind(f"{self.path / name}: cannot be read ({error.strerror or error}); export again")

    def _changed(self, name: str, found: int, size: int) -> BlrcError:
        return BlrcError(
            f"{self.path / name}: was changed since the export (it has {found} bytes, and had {size}); export again"
        )


def kind_of(mode: int) -> str:
    """Return in words what kind of file a mode describes."""
    return _KINDS.get(stat.S_IFMT(mode), "something unknown")


def _open(place: _Place, name: str, flags: int) -> int:
    if isinstance(place, int):
        return os.open(name, flags, dir_fd=place)
    return os.open(place / name, flags)

"""Claim the place of an export, so that only one process at a time writes there and nobody else is held up.

A folder that exists is claimed by a lock on the folder itself (`blrc.store.replace` writes into it). A new folder is
built beside its place, as ``.NAME.blrc-new``, and stays locked until it is renamed. So of two exports into the same new
folder, one is refused at once. Before the rename there is no folder, and after it there is a complete one. A killed
process leaves ``.NAME.blrc-new``, which the next export to that place takes over.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from blrc.errors import BlrcError
from blrc.reading.schema import MisfitError
from blrc.store import steps
from blrc.store.atomic import cannot_write
from blrc.store.journal import LOCK
from blrc.store.leftover import beside, expect_grown, expect_own_folder, lock_beside
from blrc.store.listing import Content, check_apart, check_path
from blrc.store.lock import ATTEMPTS, Lock, lock_folder, unstable
from blrc.store.replace import replace, write_all


@dataclass
class Place:
    """Hold the place of an export; no other process writes there as long as it is claimed.

    Attributes:
        folder: the place itself.
        lock: the lock on the folder, or on the new folder that is built beside it.
        new: whether the folder did not exist.
        made: the folders that were created above it.
        written: whether the export is in its place.
    """

    folder: Path
    lock: Lock
    new: bool
    made: list[Path] = field(default_factory=list)
    written: bool = False

    def write(self, files: Mapping[str, bytes], replaced: Mapping[str, Content] | None = None) -> None:
        """Put `files` (relative name -> content) into the folder, all of them or none.

        Args:
            replaced: the files of an earlier export that are removed, with what they hold; all other files in the
                folder stay.

        Raises:
            BlrcError: a file that is not of the earlier export is in the way, a file of that export was changed, the
                folder cannot be written, or the disk is full. What was there is still there.
        """
        replaced = replaced or {}
        try:
            for name in (*files, *replaced):
                check_path(name, "a file's name")
            check_apart(files)
        except MisfitError as error:
            raise BlrcError(f"{self.folder}: {error}; nothing was changed") from None
        try:
            if self.lock.file is None and not self.lock.guards(beside(self.folder) if self.new else self.folder):
                raise FileNotFoundError(errno.ENOENT, "it was moved or removed while the export was running")
            if self.new:
                self._write_new(files)
            else:
                replace(self.folder, files, replaced)
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        self.written = True

    def _write_new(self, files: Mapping[str, bytes]) -> None:
        growing = beside(self.folder)
        for left in sorted(growing.iterdir()):  # by a process that was killed
            if steps.kind_of(left) == stat.S_IFDIR:
                steps.remove_tree(left)
            else:
                steps.remove(left)
        write_all(growing, files)
        if steps.kind_of(self.folder) is not None:
            raise FileExistsError(errno.EEXIST, "it appeared while the export was running")
        steps.rename(growing, self.folder)
        with suppress(OSError):  # it is in place
            steps.sync_folder(self.folder.parent)

    def release(self) -> None:
        """Let other processes have the place, and remove what was made for an export that was not written."""
        try:
            if self.new and not self.written:
                growing = beside(self.folder)
                if self.lock.file is not None or self.lock.guards(growing):
                    with suppress(OSError):
                        steps.remove_tree(growing)
        finally:
            self.lock.release()
        if not self.written:
            _remove_made(self.made)


@contextmanager
def claimed(folder: Path) -> Iterator[Place]:
    """Claim the place for an export; `folder` need not exist, and does not appear before `Place.write`.

    Raises:
        BlrcError: another process has claimed it, it is a file, or it cannot be written.
    """
    try:
        place = _claim(folder.resolve())
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise cannot_write(folder, error) from None
    except RuntimeError:  # a symbolic link that leads to itself
        raise cannot_write(folder, OSError(errno.ELOOP, os.strerror(errno.ELOOP))) from None
    try:
        yield place
    finally:
        place.release()


def _claim(folder: Path) -> Place:
    held = f"{folder}: another blrc export into it is running; wait for it to end, or choose another folder with -o"
    changed: OSError = unstable()
    for _ in range(ATTEMPTS):
        kind = steps.kind_of(folder)
        if kind not in (None, stat.S_IFDIR):
            raise BlrcError(f"{folder}: is a file, not a folder; choose another folder with -o")
        try:
            if kind is None:
                if (place := _claim_new(folder, held)) is not None:
                    return place
            elif (lock := lock_folder(folder, folder / LOCK, held)) is not None:
                return Place(folder, lock, new=False)
        except FileNotFoundError as error:  # another process has finished meanwhile, or given up
            changed = error
    raise changed


def _claim_new(folder: Path, held: str) -> Place | None:
    """Claim a place that has no folder; return None if another process has changed that meanwhile."""
    made = steps.make_folders(folder.parent)
    there = False
    try:
        try:
            steps.make_folder(beside(folder))
        except FileExistsError:  # left over, or another process's: its lock tells
            there = True
            expect_own_folder(beside(folder))
        lock = lock_beside(folder, held)
        if there and lock is not None:
            try:
                expect_grown(beside(folder))
            except BaseException:
                lock.release()
                raise
    except BaseException:
        _remove_made(made)
        raise
    if lock is None:
        _remove_made(made)
        return None
    place = Place(folder, lock, True, made)
    if steps.kind_of(folder) is not None:  # another process has finished meanwhile
        place.release()
        return None
    return place


def _remove_made(made: list[Path]) -> None:
    for folder in reversed(made):
        with suppress(OSError):  # it is not empty: somebody else uses it, too
            steps.remove_folder(folder)

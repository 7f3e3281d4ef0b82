"""Remove what killed exports left in a folder and beside it, recognised by name, owner, mode and structure.

A stranger's folder may hold anything under these names. What blrc cannot have left is not touched, and is reported as
being in the way.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from blrc.errors import BlrcError
from blrc.reading.schema import MisfitError
from blrc.store import steps
from blrc.store.atomic import hidden
from blrc.store.journal import JOURNAL, MOST_OLD, STAGE, Journal
from blrc.store.listing import check_path, holds
from blrc.store.lock import Lock, lock_folder

NEW, OLD = "new", "old"  # inside STAGE
_EARLIER_STAGE = re.compile(r"\.blrc-[a-z0-9_]{8}")  # as tempfile.mkdtemp named it for versions without a journal


def beside(folder: Path) -> Path:
    """Return where a new folder is built until it is complete."""
    return folder.with_name(hidden(folder.name, "new"))


def lock_beside(folder: Path, held: str) -> Lock | None:
    """Lock the place of `beside`, as `blrc.store.lock.lock_folder` does."""
    return lock_folder(beside(folder), folder.with_name(hidden(folder.name, "lock")), held)


def expect_own_folder(path: Path, others: int = stat.S_IWOTH) -> None:
    """Check that a path is a folder of this user.

    Args:
        others: the mode bits that the folder must not have, because they let others write there.

    Raises:
        BlrcError: it is not.
    """
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode) or not steps.is_mine(path) or (sys.platform != "win32" and mode & others):
        raise _foreign(path)


def expect_grown(path: Path) -> None:
    """Check that a locked folder holds only what a killed export into a new folder can have left.

    Raises:
        BlrcError: it holds something that no export writes.
    """
    _files(path)


def remove_left_over(folder: Path, journal: Journal | None) -> None:
    """Remove what killed exports left in the folder and beside it.

    Args:
        journal: the folder's journal, if an export into it was interrupted.

    Raises:
        BlrcError: something that blrc did not make has the name of the stage, or a file in it was changed; nothing was
            removed.
    """
    stage = folder / STAGE
    if steps.kind_of(stage) is not None:
        _expect_stage(stage, journal)
        steps.remove_tree(stage)
    for path in sorted(folder.iterdir()):
        if _EARLIER_STAGE.fullmatch(path.name):
            with suppress(OSError, BlrcError):  # it is somebody's own
                _expect_stage(path, None)
                steps.remove_tree(path)
    with suppress(OSError, BlrcError):  # another user's, or one that is at work, stays
        expect_own_folder(beside(folder))
        lock = lock_beside(folder, "")
        if lock is not None:
            try:
                expect_grown(beside(folder))
                steps.remove_tree(beside(folder))
            finally:
                lock.release()


def _expect_stage(stage: Path, journal: Journal | None) -> None:
    """Check that a folder is a stage: it holds nothing but a journal, and plain files in `NEW` and `OLD`.

    If files had been moved to `OLD` when the export was killed, they must also be what the journal says, because
    somebody may have changed one before.
    """
    expect_own_folder(stage, stat.S_IWGRP | stat.S_IWOTH)
    for entry in _entries(stage, (NEW, OLD, JOURNAL)):
        if entry.name == JOURNAL:
            if not entry.is_file(follow_symlinks=False):
                raise _foreign(Path(entry.path))
            continue
        for name in _files(Path(entry.path)):
            kept = journal.old.get(name) if journal is not None and entry.name == OLD else None
            if journal is not None and entry.name == OLD and (kept is None or not holds(Path(entry.path, name), kept)):
                raise BlrcError(f"{Path(entry.path, name)}: was changed while an export was replacing it; move it away")


def _files(root: Path) -> list[str]:
    """List the files in a tree that holds only this user's folders and files with plain names."""
    found, waiting = list[str](), [""]
    while waiting:
        inner = waiting.pop()
        place = root / inner
        if steps.kind_of(place) != stat.S_IFDIR or not steps.is_mine(place):
            raise _foreign(place)
        for entry in _entries(place):
            name = f"{inner}/{entry.name}" if inner else entry.name
            try:
                check_path(name, "a name")
            except MisfitError:
                raise _foreign(place / entry.name) from None
            if entry.is_dir(follow_symlinks=False):
                waiting.append(name)
            elif entry.is_file(follow_symlinks=False):
                found.append(name)
            else:
                raise _foreign(place / entry.name)
        if len(found) + len(waiting) > MOST_OLD:
            raise _foreign(root)
    return found


def _entries(folder: Path, known: Collection[str] | None = None) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        found = []
        for entry in entries:
            if known is not None and entry.name not in known:
                raise _foreign(Path(entry.path))
            found.append(entry)
            if len(found) > MOST_OLD:
                raise _foreign(folder)
    return sorted(found, key=lambda entry: entry.name)


def _foreign(path: Path) -> BlrcError:
    return BlrcError(f"{path}: is in the way and was not left by an export of yours; look at it, then move it away")

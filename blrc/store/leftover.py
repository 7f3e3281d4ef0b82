"""What killed exports leave in a folder and beside it: recognised by name, kind and owner, and removed."""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from pathlib import Path

from blrc.errors import BlrcError
from blrc.store import steps
from blrc.store.atomic import hidden
from blrc.store.journal import STAGE
from blrc.store.lock import Lock, lock_folder

NEW, OLD = "new", "old"  # inside STAGE
_EARLIER_STAGE = re.compile(r"\.blrc-[a-z0-9_]{8}")  # as tempfile.mkdtemp named it for versions without a journal


def beside(folder: Path) -> Path:
    """Return where a new folder grows until it is whole."""
    return folder.with_name(hidden(folder.name, "new"))


def lock_beside(folder: Path, held: str) -> Lock | None:
    """Lock that place; see `blrc.store.lock.lock_folder`."""
    return lock_folder(beside(folder), folder.with_name(hidden(folder.name, "lock")), held)


def expect_own_folder(path: Path) -> None:
    """See that `path` is free, or a folder of this user.

    Raises:
        BlrcError: it is something else, a symbolic link for example.
    """
    kind = steps.kind_of(path)
    if kind not in (None, stat.S_IFDIR) or (kind is not None and not steps.is_mine(path)):
        raise BlrcError(f"{path}: is in the way and was not left by an export of yours; remove it")


def remove_left_over(folder: Path) -> None:
    """Remove what killed exports left in the folder and beside it.

    Raises:
        BlrcError: something that blrc did not make has the name of its stage.
    """
    stage = folder / STAGE
    if steps.kind_of(stage) is not None:
        expect_own_folder(stage)
        steps.remove_tree(stage)
    for path in sorted(folder.iterdir()):
        if _EARLIER_STAGE.fullmatch(path.name) and _is_earlier_stage(path):
            steps.remove_tree(path)
    with suppress(OSError, BlrcError):  # another user's, or one that is at work, stays
        expect_own_folder(beside(folder))
        lock = None if steps.kind_of(beside(folder)) is None else lock_beside(folder, "")
        if lock is not None:
            try:
                steps.remove_tree(beside(folder))
            finally:
                lock.release()


def _is_earlier_stage(path: Path) -> bool:
    """Return whether a folder is what a killed export of an earlier version left: nothing but files in new and old."""
    waiting = [path]
    while waiting:
        place = waiting.pop()
        if steps.kind_of(place) != stat.S_IFDIR or not steps.is_mine(place):
            return False
        for inner in place.iterdir():
            if place == path and inner.name not in (NEW, OLD):
                return False
            if place == path or steps.kind_of(inner) != stat.S_IFREG:
                waiting.append(inner)
    return True

"""The journal of a folder whose export is being replaced: `interrupted` recognises such a folder.

`JOURNAL` lies in the folder from the moment before its first file is touched until its last file is in place. So a
folder with a journal holds files of two exports, and one without holds those of one (`blrc.store.replace` has all
states). The journal names the files of both; no name, length or type in it is trusted, as a stranger may have made the
folder.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blrc.errors import BlrcError
from blrc.store import steps

JOURNAL = ".blrc-journal"
STAGE = ".blrc-export"  # the folder inside the folder, where new files wait and old ones are kept until all is in place
LOCK = ".blrc-lock"  # only where a folder cannot be locked itself
OWN = frozenset({JOURNAL, STAGE, LOCK})

_FORMAT = 1
BYTES = 1 << 20  # of a journal; an export with every package has some 150 names of at most 100 characters


@dataclass(frozen=True)
class Journal:
    """What an export does to a folder.

    Attributes:
        placed: names of the new files, relative, with ``/`` between folders.
        removed: names of files of the earlier export which the new one does not have.
    """

    placed: frozenset[str]
    removed: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """All names of files that are blrc's, whichever of the two exports they belong to."""
        return self.placed | self.removed


def interrupted(folder: Path) -> str | None:
    """Return what to say of a folder whose export was interrupted, None where it holds one export or none.

    Raises:
        BlrcError: there is a journal, but it is not one that blrc wrote.
    """
    if read_journal(folder) is None:
        return None
    return (
        f"{folder}: an export into it was interrupted; run the same blrc export with --force to complete it "
        "(if one is still running, wait for it)"
    )


def read_journal(folder: Path) -> Journal | None:
    """Return the journal of a folder, None where there is none.

    Raises:
        BlrcError: it is no regular file, too long, damaged, or has names that reach out of the folder.
    """
    path = folder / JOURNAL
    try:
        content = _read(path)
        if content is None:
            return None
        plain = json.loads(content)
        if not isinstance(plain, dict) or plain.keys() != {"format", "placed", "removed"}:
            raise ValueError("its fields are not format, placed and removed")
        if type(plain["format"]) is not int or plain["format"] != _FORMAT:
            raise ValueError(f"its format is not {_FORMAT}")
        return Journal(_names(plain["placed"]), _names(plain["removed"]))
    except PermissionError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror}") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise BlrcError(
            f"{path}: is not the journal of an export that was interrupted, or damaged ({reason}); "
            "look at what the folder holds, then remove this file or the folder"
        ) from None


def to_bytes(journal: Journal) -> bytes:
    """Return the content of the file."""
    plain = {"format": _FORMAT, "placed": sorted(journal.placed), "removed": sorted(journal.removed)}
    return (json.dumps(plain, indent=1) + "\n").encode()


def check_names(names: Iterable[Any]) -> None:
    """See that each name is that of a file inside a folder: relative, in its plainest form, and not one of `OWN`.

    Raises:
        ValueError: one is not.
    """
    for name in names:
        if not isinstance(name, str) or not name.isprintable() or "\\" in name or ":" in name:
            raise ValueError(f"{name!r} is not a plain name")
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or parts[0].lower() in OWN:
            raise ValueError(f"{name!r} is not the name of a file in the folder")


def _names(names: Any) -> frozenset[str]:
    if not isinstance(names, list):
        raise ValueError("it has no list of names")
    check_names(names)
    return frozenset(names)


def _read(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | steps.NO_FOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > BYTES:
        raise ValueError(f"it is longer than {BYTES} bytes")
    return content


def clashing(names: Collection[str]) -> str | None:
    """Return a name that others need as a folder, None where there is none."""
    folders = {"/".join(name.split("/")[:depth]) for name in names for depth in range(1, name.count("/") + 1)}
    return min(folders & set(names), default=None)

"""Read and write the journal of a folder whose export is being replaced.

`JOURNAL` lies in the folder from the moment before its first file is touched until its last file is in place. So a
folder with a journal holds files of two exports, and a folder without one holds those of a single export
(`blrc.store.replace` lists all states). The journal lists the files of both exports with size and SHA-256; a file that
it does not describe belongs to somebody else. Nothing in the journal is trusted beyond that, because the folder may
come from a stranger.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from blrc.errors import BlrcError
from blrc.reading import schema
from blrc.store import steps
from blrc.store.listing import MOST_FILES, Content, check_total, contents, files_up_to

JOURNAL = ".blrc-journal"
STAGE = ".blrc-export"  # the folder inside the folder, where new files wait and old ones are kept until all is in place
LOCK = ".blrc-lock"  # only where a folder cannot be locked itself
OWN = frozenset({JOURNAL, STAGE, LOCK})

_FORMAT = 2
BYTES = 4 * 2**20  # of a journal; an export with every package has some 300 names of at most 120 characters
MOST_OLD = 2 * MOST_FILES  # of a folder that was interrupted, files of two exports are replaced

_SCHEMA = schema.record(
    {"format": schema.whole(_FORMAT, _FORMAT), "old": files_up_to(MOST_OLD), "new": files_up_to(MOST_FILES)}
)


@dataclass(frozen=True)
class Journal:
    """Describe what an export does to a folder.

    Attributes:
        old: the files that were there before and are replaced or removed, as relative name (with ``/`` between folders)
            to content.
        new: the files that are placed, in the same form.
    """

    old: Mapping[str, Content]
    new: Mapping[str, Content]

    def contents(self, name: str) -> list[Content]:
        """Return what a file of this name may hold, whichever of the two exports it belongs to."""
        return [files[name] for files in (self.old, self.new) if name in files]


def interrupted(folder: Path) -> str | None:
    """Return the message for a folder whose export was interrupted, or None if the folder holds one export or none.

    Raises:
        BlrcError: there is a journal, but blrc did not write it.
    """
    if read_journal(folder) is None:
        return None
    return (
        f"{folder}: an export into it was interrupted; run the same blrc export with --force to complete it "
        "(if one is still running, wait for it)"
    )


def read_journal(folder: Path) -> Journal | None:
    """Return the journal of a folder, or None if there is none.

    Raises:
        BlrcError: the journal is no regular file, is too long or damaged, or lists a name that no file of an export
            has.
    """
    path = folder / JOURNAL
    try:
        content = _read(path)
        if content is None:
            return None
        plain = schema.read_json(content)
        _SCHEMA(plain, schema.WHOLE)
        journal = Journal(contents(plain["old"]), contents(plain["new"]))
        for where, files in (("old", journal.old), ("new", journal.new)):
            check_total((entry.size for entry in files.values()), where)
        return journal
    except PermissionError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror}") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise BlrcError(
            f"{path}: is not the journal of an export that was interrupted, or damaged ({reason}); "
            "look at what the folder holds, then remove this file or the folder"
        ) from None


def to_bytes(journal: Journal) -> bytes:
    """Return the content of the journal's file."""
    plain = {"format": _FORMAT} | {
        key: {name: asdict(content) for name, content in files.items()}
        for key, files in (("old", journal.old), ("new", journal.new))
    }
    return (json.dumps(plain, indent=1, sort_keys=True) + "\n").encode()


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

"""The names that a manifest may list: plain paths inside the folder, the same file on every system."""

from __future__ import annotations

import re
from collections.abc import Iterable

from blrc.exports.schema import MisfitError, shown

LONGEST = 255  # bytes of a path, and of a part of it; an export of the longest name has 120
PARTS = 12  # folders in one another; a package's example has six
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+-]*[A-Za-z0-9_+-])?", re.ASCII)
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$|clock\$)(?:\..*)?", re.IGNORECASE)


def check_path(name: str, where: str) -> None:
    """Refuse a name that is not plain.

    It is made of ASCII letters, digits and ``. _ + -``, with ``/`` between folders; no part is empty, starts with a dot
    or a dash, ends with a dot, or is the name of a device on Windows.

    Raises:
        MisfitError: it is not.
    """
    parts = name.split("/")
    plain = len(name) <= LONGEST and len(parts) <= PARTS
    if not plain or not all(_PART.fullmatch(part) and not _DEVICES.fullmatch(part) for part in parts):
        raise MisfitError(f"{where}, {shown(name)}, is no plain name of a file in the folder")


def check_apart(names: Iterable[str]) -> None:
    """Refuse names of which two are one file where letters' case does not count, or one is a folder in another.

    Raises:
        MisfitError: they are not apart.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        folded = name.lower()
        if folded in files:
            raise MisfitError(f"files names {shown(files[folded])} and {shown(name)}, which may be one file")
        files[folded] = name
        parts = folded.split("/")
        folders.update({"/".join(parts[:depth]): name for depth in range(1, len(parts))})
    for folder in sorted(folders.keys() & files.keys()):
        raise MisfitError(f"files names {shown(files[folder])}, which is a folder of {shown(folders[folder])}")

"""Hash what a compiler reads, so that the same files are preprocessed once in a process, wherever they lie.

The hash covers the command without its include folders, the source, every header that lies in these folders, and what
else the source includes by name. Headers of the system do not change while a process runs. Where it is not certain that
this is all, there is no hash, and the file is preprocessed each time: an include of another form than the usual ones, a
macro whose value is a place or a time, folders in an include folder, variables that add such folders.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

LARGEST = 4 * 2**20  # bytes of a file: where one is larger, there is no hash
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables that add include folders."""
_PLACE_OR_TIME = re.compile(
    rb"__(?:(?:BASE_)?FILE(?:_NAME)?|DATE|TIME(?:STAMP)?|INCLUDE_LEVEL)__|\bassert\.h\b|\bcassert\b"
)
"""Macros whose values are places or times; ``assert`` names its file."""
_UNUSUAL = re.compile(rb"\b(?:\w*include|include_next|import|embed|define\s+\w+_HOOKS)\b|\?\?/")
"""Words that begin an include or decide what it includes, and what may hide one, where `_USUAL` has been taken away."""
_USUAL = re.compile(rb'^#include ["<]?([\w+-](?:[\w./+-]*(?=[">])|\w*_HOOKS$))[">]?$', re.MULTILINE)
"""Match includes of a name, or of the macro of an export's hooks."""
_looked_at: dict[bytes, list[str] | None] = {}
"""Keep what texts include, by their hashes; None where that is uncertain."""


class _UncertainError(Exception):
    """Say that more may be read than is known."""


def digest(command: Sequence[str], source: Path) -> bytes | None:
    """Return a hash of all that the preprocessor reads under this command, or None where that is not certain.

    Args:
        command: the compiler and its flags.
    """
    flags = [flag for flag in command if not flag.startswith("-I")]
    folders = list(dict.fromkeys([source.parent, *(Path(flag[2:]) for flag in command if flag.startswith("-I"))]))
    whole = hashlib.sha256(repr(flags).encode("utf-8", "surrogateescape"))
    try:
        if any(map(os.environ.get, _VARIABLES)):
            return None
        for name, content in _files(folders, source, flags):
            whole.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
            whole.update(hashlib.sha256(content).digest())
    except (_UncertainError, OSError):  # of an error, the compiler itself says best what is wrong
        return None
    return whole.digest()


def _files(folders: Sequence[Path], source: Path, flags: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the source, the headers in the folders, and what else they include there, each with a name for its place.

    Raises:
        _UncertainError: there may be more.
    """
    queue, seen = [(0, source.name)], set[tuple[int, str]]()
    for at, folder in enumerate(folders):
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.is_dir():
                    raise _UncertainError
                if entry.name.endswith(".h") or "." not in entry.name:  # C++ has headers without a suffix
                    queue.append((at, entry.name))
    for at, name in queue:  # which grows
        if (at, name) in seen:
            continue
        seen.add((at, name))
        content = _content(folders[at] / name)
        yield f"{at}/{name}", content
        if "." in name:
            for other in _included(content, flags):
                queue += [(i, other) for i, folder in enumerate(folders) if (folder / other).exists()]


def _content(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise _UncertainError
    return path.read_bytes()


def _included(content: bytes, flags: Sequence[str]) -> list[str]:
    """Return the names of the files that a text includes.

    Raises:
        _UncertainError: it may include others, or what it says depends on where or when it is read.
    """
    which = hashlib.sha256(content).digest()
    if which not in _looked_at:
        content = content.replace(b"\\\n", b"")  # a line that goes on
        certain = not _UNUSUAL.search(_USUAL.sub(b"", content)) and not _PLACE_OR_TIME.search(content)
        _looked_at[which] = [name.decode() for name in _USUAL.findall(content)] if certain else None
    names = _looked_at[which]
    if names is None or any(
        flag.startswith(f"-D{name}") for name in names if name.endswith("_HOOKS") for flag in flags
    ):
        raise _UncertainError
    return names

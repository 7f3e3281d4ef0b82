"""Read from ``taken_names.txt`` the names that toolchains have taken for headers, libraries, macros and functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "taken_names.txt"
KINDS = ("header", "library", "prefix", "macro", "package")

Taken = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each of `KINDS` who has each name; names are in lower case, since some file systems ignore it."""


@cache
def taken() -> Taken:
    """Return the names that ``tests/targets/c/taken_names.py`` has collected."""
    return parse(FILE.read_text(encoding="ascii"))


def parse(text: str) -> Taken:
    """Read the list of taken names: sections ``[KIND OWNER]``, each followed by names; ``#`` begins a comment.

    >>> parse("[header glibc]\\nfeatures\\n[header musl]\\nfeatures")["header"]
    {'features': ('glibc', 'musl')}
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in KINDS}
    kind = owner = ""
    for line in text.splitlines():
        if title := re.fullmatch(r"\[(\w+) ([^]]+)\]", line):
            kind, owner = title[1], title[2]
        elif not line.startswith("#"):
            for name in line.split():
                found[kind][name] = (*found[kind].get(name, ()), owner)
    return found

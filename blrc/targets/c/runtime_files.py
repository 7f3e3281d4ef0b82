"""Find the files of the portable C runtime, in the source tree or in an installed wheel."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from blrc.errors import BlrcError


def runtime_dir() -> Path:
    """Return the folder that holds ``include/blrc.h`` and the rooms of ``src/``.

    A wheel carries it as ``blrc/_runtime`` (pyproject.toml puts it there). In a checkout, editable installs included,
    it is ``runtime/`` beside the package.

    Raises:
        BlrcError: neither folder is there, so the installation is damaged.
    """
    package = Path(__file__).resolve().parents[2]
    for folder in (package / "_runtime", package.parent / "runtime"):
        if (folder / "include" / "blrc.h").is_file():
            return folder
    raise BlrcError(f"the C runtime is missing beside {package}: install blrc again")


@cache
def runtime_files() -> dict[str, Path]:
    """Return every header and source of the runtime by its name, sorted by name.

    No two files share a name.
    """
    folder = runtime_dir()
    paths = [*(folder / "include").iterdir(), *(folder / "src").rglob("*.[ch]")]
    return {path.name: path for path in sorted(paths, key=lambda path: path.name)}


@cache
def _constants() -> dict[str, set[int]]:
    """Return the macros that the runtime's headers define as whole numbers, each with all its values."""
    found: dict[str, set[int]] = {}
    for path in runtime_files().values():
        for line in path.read_text(encoding="ascii").splitlines() if path.suffix == ".h" else []:
            if match := re.match(r"#define (BLRC_\w+) (\d+)(?:\s|$)", line):
                found.setdefault(match[1], set()).add(int(match[2]))
    return found


def constant(macro: str) -> int:
    """Return the value of a macro in the runtime's headers.

    Raises:
        BlrcError: no header defines the macro, or two define it differently, so the installation is damaged.
    """
    values = _constants().get(macro, set())
    if len(values) != 1:
        raise BlrcError(f"the C runtime does not define {macro}: install blrc again")
    return next(iter(values))


def is_for_hosts(path: Path) -> bool:
    """Return whether a file of the runtime serves only exports for hosts."""
    return "host" in path.relative_to(runtime_dir()).parts


def runtime_sources() -> list[Path]:
    """Return the runtime's C files, sorted by name."""
    return [path for path in runtime_files().values() if path.suffix == ".c"]


def include_flags() -> tuple[str, ...]:
    """Return the compiler's flags with which every file of the runtime finds the headers of all rooms in ``src/``."""
    headers = (path for path in runtime_files().values() if path.name != "blrc.h")
    return tuple(f"-I{folder}" for folder in dict.fromkeys(path.parent for path in headers) if folder.name != "include")

"""Where the portable C runtime lies: in the source tree or in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from blrc.errors import BlrcError


def runtime_dir() -> Path:
    """The folder that holds ``include/blrc.h`` and ``src/*.c``.

    A wheel carries it as ``blrc/_runtime`` (setup.py puts it there); in a checkout, editable installs included, it is
    ``runtime/`` beside the package.

    Raises:
        BlrcError: neither folder is there, so the installation is damaged.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_runtime", package.parent / "runtime"):
        if (folder / "include" / "blrc.h").is_file():
            return folder
    raise BlrcError(f"the C runtime is missing beside {package}: install blrc again")

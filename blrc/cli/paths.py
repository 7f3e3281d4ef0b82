"""Options that are paths: names that a file can have, and for files that are written, places where one can be put."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from blrc.errors import BlrcError
from blrc.reading.regular import check_name, check_output


class Named(click.Path):
    """A path, which need not exist."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            return self.checked(Path(value))
        except BlrcError as error:
            self.fail(str(error), param, ctx)

    def checked(self, path: Path) -> Path:
        return check_name(path)


class Output(Named):
    """A file that is written: a new one, or a regular one, which is replaced."""

    def checked(self, path: Path) -> Path:
        return check_output(path)


PATH = Named()
OUTPUT = Output()

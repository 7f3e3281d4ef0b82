"""Fill the template of a page."""

from __future__ import annotations

from pathlib import Path

from jinja2 import ChainableUndefined, Environment, FileSystemLoader


def fill(name: str, **values: object) -> str:
    """Return the text of a template of this folder; what a record does not have is undefined, and false."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=ChainableUndefined,
    )
    return environment.get_template(name).render(**values).rstrip("\n") + "\n"

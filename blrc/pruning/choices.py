"""Name the weights by which channels are ranked. This imports nothing, so that help can show the names at once."""

from __future__ import annotations

from typing import Literal, get_args

from blrc.errors import BlrcError

By = Literal["outputs", "inputs", "both"]
"""Name the weights that rank a channel: those that compute it, that read it (the next layer's columns), or both."""
BY: tuple[By, ...] = get_args(By)
SIDES: tuple[By, ...] = ("outputs", "inputs")
"""List the weights that ``both`` stands for."""


def parse_by(by: str) -> By:
    """Return the option ``by``.

    Raises:
        BlrcError: it is none of the choices.
    """
    for known in BY:
        if by == known:
            return known
    raise BlrcError(f"--by {by!r}: expected {', '.join(BY)}")

"""Read the option ``norms``: which statistics norms have. Help shows its choices, so nothing heavy is loaded."""

from __future__ import annotations

from typing import Literal, get_args

from blrc.errors import BlrcError

Norms = Literal["given", "estimated"]
NORMS: tuple[Norms, ...] = get_args(Norms)


def parse_norms(norms: str | None) -> Norms | None:
    """Return the option ``norms``; None leaves the choice to the checkpoint.

    Raises:
        BlrcError: it is none of the choices.
    """
    if norms is None:
        return None
    for known in NORMS:
        if norms == known:
            return known
    raise BlrcError(f"--norms {norms!r}: expected {' or '.join(NORMS)}")

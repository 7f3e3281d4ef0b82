"""Define the exceptions that mean "your input, not our bug", and the exit status that each gives a command."""

from __future__ import annotations

from typing import ClassVar

WELL, DIFFERS, UNCHECKED = 0, 1, 2
"""Exit statuses of every command: all is well; what was checked differs, or does not fit; it could not be checked."""


class BlrcError(Exception):
    """Report a mistake of the user: the message names the file, layer or option and says what to do.

    The command line prints the message and exits with `status`. Any other exception that escapes is a bug in blrc and
    keeps its traceback.
    """

    status: ClassVar[int] = UNCHECKED


class DiffersError(BlrcError):
    """Report that a check failed: something differs from what it should equal, or exceeds a budget."""

    status = DIFFERS

"""The one exception that means "your input, not our bug"."""

from __future__ import annotations


class BlrcError(Exception):
    """A mistake of the user: the message names the file, layer or option and says what to do.

    The command line prints it as one line and exits with status 2. Anything else that escapes is a bug of ours
    and keeps its traceback.
    """

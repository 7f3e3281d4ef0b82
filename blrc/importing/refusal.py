"""Say that a node of a file cannot be taken, why, and what to do."""

from __future__ import annotations

from typing import Any


class RefusalError(Exception):
    """Refuse a node: `why` it has no exact form here, what to do (`remedy`), and with which value the walk goes on.

    Attributes:
        then: what the node would have given, so that the nodes behind it are looked at too; None if that is unknown.
    """

    def __init__(self, why: str, remedy: str, then: Any = None) -> None:
        super().__init__(f"{why}; {remedy}")
        self.why, self.remedy, self.then = why, remedy, then

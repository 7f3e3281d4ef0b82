"""Describe what is to be verified, and how thoroughly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blrc.errors import BlrcError
from blrc.exports.door import check_digest


@dataclass(frozen=True)
class VerifyRequest:
    """Hold what `blrc.verify` is asked for; its fields are described there.

    Attributes:
        machines: the names of the machines, in the order of the table (`blrc.verification.devices.parse_machines`).
        original: a path, a module of torch, or None.

    Raises:
        BlrcError: a number is below 0, ``strict`` is given without machines, or the digest is not a digest.
    """

    folder: Path
    data: Path | None = None
    random: int | None = None
    seed: int = 0
    machines: tuple[str, ...] = ()
    strict: bool = False
    digest: str | None = None
    trust_code: bool = False
    original: Any = None

    def __post_init__(self) -> None:
        if self.seed < 0 or (self.random is not None and self.random < 0):
            raise BlrcError(f"seed {self.seed}, random {self.random}: must not be negative")
        if self.strict and not self.machines:
            raise BlrcError("--strict is about machines; name some with --on")
        if self.digest is not None:
            check_digest(self.digest)

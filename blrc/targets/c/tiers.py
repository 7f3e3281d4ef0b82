"""Levels of the instruction set that an export for x86-64 chooses from when it runs, and how a user chooses less."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from blrc.errors import BlrcError
from blrc.targets.c.layout import PORTABLE, X86_64

VARIABLE = "BLRC_TIER"
TIERS = ("portable", "popcnt", "avx2", "avx512")
"""By BLRC_TIER_*, the runtime's numbers."""


def host_cpu() -> str:
    """What C for this machine is laid out for."""
    return X86_64 if platform.machine() in ("x86_64", "AMD64") else PORTABLE


def tier_flags(name: str, cpu: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Flags of the compiler for model `name`, so that no level above ``$BLRC_TIER`` is chosen.

    Raises:
        BlrcError: there is no such level.
    """
    wanted = (os.environ if environment is None else environment).get(VARIABLE, "")
    if wanted and wanted not in TIERS:
        raise BlrcError(f"{VARIABLE}={wanted}: there is no such level of x86-64; take one of {', '.join(TIERS)}")
    return (f"-D{name.upper()}_BLRC_TIER_MOST={TIERS.index(wanted)}",) if wanted and cpu == X86_64 else ()

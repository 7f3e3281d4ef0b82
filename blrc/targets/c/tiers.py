"""Levels of the instruction set that an export for x86-64 chooses from when it runs, and how a user chooses less."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from blrc.errors import BlrcError
from blrc.targets.c.layout import PORTABLE, X86_64

VARIABLE = "BLRC_TIER"
TIERS = ("portable", "popcnt", "avx2", "avx512")
"""By BLRC_TIER_*, the runtime's numbers."""


def host_cpu() -> str:
    """What C for this machine is laid out for."""
    return X86_64 if platform.machine() in ("x86_64", "AMD64") else PORTABLE


def wanted(environment: Mapping[str, str] | None = None) -> str:
    """The highest level that ``$BLRC_TIER`` allows, or nothing.

    Raises:
        BlrcError: there is no such level.
    """
    tier = (os.environ if environment is None else environment).get(VARIABLE, "")
    if tier and tier not in TIERS:
        raise BlrcError(f"{VARIABLE}={tier}: there is no such level of x86-64; take one of {', '.join(TIERS)}")
    return tier


def tier_flags(name: str, cpu: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Flags of the compiler for model `name`, so that no level above ``$BLRC_TIER`` is chosen.

    Raises:
        BlrcError: there is no such level.
    """
    most = wanted(environment)
    return (f"-D{name.upper()}_BLRC_TIER_MOST={TIERS.index(most)}",) if most and cpu == X86_64 else ()


@contextmanager
def limited(tier: str) -> Iterator[None]:
    """In this block no level above `tier` is chosen by what is compiled."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = tier
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def allowed(tiers: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Those of these levels that ``$BLRC_TIER`` leaves.

    Raises:
        BlrcError: there is no such level.
    """
    most = wanted(environment)
    return tuple(tier for tier in tiers if not most or TIERS.index(tier) <= TIERS.index(most))

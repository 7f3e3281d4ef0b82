"""Levels of the instruction set that an export for hosts chooses from when it runs, and how a user chooses less."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from blrc.errors import BlrcError
from blrc.targets.c.kernels.cpus import CPUS, PORTABLE, TIERS

VARIABLE = "BLRC_TIER"
_MACHINES = {machine: cpu.name for cpu in CPUS.values() for machine in cpu.machines}


def host_cpu() -> str:
    """What C for this machine is laid out for."""
    return _MACHINES.get(platform.machine(), PORTABLE)


def wanted(cpu: str, environment: Mapping[str, str] | None = None) -> str:
    """The highest level that ``$BLRC_TIER`` allows of those of `cpu`, or nothing.

    Raises:
        BlrcError: there is no such level.
    """
    tier = (os.environ if environment is None else environment).get(VARIABLE, "")
    if tier and tier not in TIERS[cpu]:
        raise BlrcError(f"{VARIABLE}={tier}: there is no such level of {cpu}; take one of {', '.join(TIERS[cpu])}")
    return tier


def tier_flags(name: str, cpu: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Flags of the compiler for model `name`, so that no level above ``$BLRC_TIER`` is chosen.

    Raises:
        BlrcError: there is no such level.
    """
    most = wanted(cpu, environment) if cpu in TIERS else ""
    return (f"-D{name.upper()}_BLRC_TIER_MOST={TIERS[cpu].index(most)}",) if most else ()


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
    """Those of these levels of this machine that ``$BLRC_TIER`` leaves.

    Raises:
        BlrcError: there is no such level.
    """
    cpu = host_cpu()
    most = wanted(cpu, environment) if cpu in TIERS else ""
    return tuple(tier for tier in tiers if not most or TIERS[cpu].index(tier) <= TIERS[cpu].index(most))

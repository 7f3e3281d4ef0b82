"""Limit the levels of the instruction set among which an export for hosts chooses when it runs."""

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
    """Return the CPU (``--cpu``) that C for this machine is laid out for."""
    return _MACHINES.get(platform.machine(), PORTABLE)


def wanted(cpu: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the highest level of `cpu` that ``$BLRC_TIER`` allows, or "" if the variable sets no limit.

    Raises:
        BlrcError: `cpu` has no such level.
    """
    tier = (os.environ if environment is None else environment).get(VARIABLE, "")
    if tier and tier not in TIERS[cpu]:
        raise BlrcError(f"{VARIABLE}={tier}: there is no such level of {cpu}; take one of {', '.join(TIERS[cpu])}")
    return tier


def tier_flags(name: str, cpu: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the compiler flags that keep model `name` from choosing a level above ``$BLRC_TIER``.

    Raises:
        BlrcError: `cpu` has no such level.
    """
    most = wanted(cpu, environment) if cpu in TIERS else ""
    return (f"-D{name.upper()}_BLRC_TIER_MOST={TIERS[cpu].index(most)}",) if most else ()


@contextmanager
def limited(tier: str) -> Iterator[None]:
    """Limit what is compiled in this block to levels up to `tier`."""
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
    """Return those of the given levels of this machine that ``$BLRC_TIER`` allows.

    Raises:
        BlrcError: this machine has no such level.
    """
    cpu = host_cpu()
    most = wanted(cpu, environment) if cpu in TIERS else ""
    return tuple(tier for tier in tiers if not most or TIERS[cpu].index(tier) <= TIERS[cpu].index(most))

"""Parse the options of the C target and check which of them go together.

This module imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import get_args

from blrc.errors import BlrcError
from blrc.targets.c.kernels.cpus import CPUS, PORTABLE, TIERS
from blrc.targets.requests import COptions, Optimize

__all__ = ["CPUS", "OPTIMIZE", "PACKAGES", "parse_bytes", "parse_c", "parse_optimize", "parse_packages"]

OPTIMIZE: tuple[Optimize, ...] = get_args(Optimize)
PACKAGES = ("cmake", "arduino", "platformio", "zephyr", "esp-idf")
"""The packages by name, in the order of an export; each has a module in `blrc.targets.c.packages`."""
NO_PACKAGE = "none"
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def parse_c(
    packages: str | Iterable[str] = (),
    optimize: str = "size",
    cpu: str = PORTABLE,
    flash: str | int | None = None,
    ram: str | int | None = None,
) -> COptions:
    """Parse the values of ``--package``, ``--optimize``, ``--cpu``, ``--flash`` and ``--ram``.

    Raises:
        BlrcError: a choice is unknown, a size cannot be read, or two choices exclude each other.
    """
    limits = parse_bytes(flash, "--flash"), parse_bytes(ram, "--ram")
    chosen = COptions(parse_packages(packages), parse_optimize(optimize), cpu, *limits)
    if cpu not in CPUS:
        raise BlrcError(f"--cpu {cpu}: expected {either(CPUS)}")
    if cpu in TIERS and chosen != COptions(cpu=cpu):
        raise BlrcError(
            f"--cpu {cpu} cannot be combined with --flash, --ram, --package or --optimize, which are about small CPUs; "
            "leave out either"
        )
    return chosen


def parse_optimize(optimize: str) -> Optimize:
    """Parse the value of ``--optimize``.

    Raises:
        BlrcError: there is no such choice.
    """
    for choice in OPTIMIZE:
        if optimize == choice:
            return choice
    raise BlrcError(f"--optimize {optimize}: expected {either(OPTIMIZE)}")


def parse_packages(packages: str | Iterable[str]) -> tuple[str, ...]:
    """Return the packages asked for, each once and in the order of `PACKAGES`; ``none`` asks for none.

    Raises:
        BlrcError: there is no such package, or ``none`` stands beside another one.
    """
    chosen = {packages} if isinstance(packages, str) else set(packages)
    if unknown := sorted(chosen - {*PACKAGES, NO_PACKAGE}):
        known = ", ".join((*PACKAGES, NO_PACKAGE))
        raise BlrcError(f"unknown package {', '.join(map(repr, unknown))}; known: {known}")
    if NO_PACKAGE in chosen and len(chosen) > 1:
        raise BlrcError(f"package {NO_PACKAGE} means no package; leave it out, or the others")
    return tuple(package for package in PACKAGES if package in chosen)


def parse_bytes(size: str | int | None, option: str) -> int | None:
    """Parse a size such as ``262144``, ``256K`` or ``0.5M``; None stays None.

    K is 1024 bytes, M is 1024 K and G is 1024 M. A space may precede the unit, and B or iB may follow it.

    Args:
        option: the option's name, for the message.

    Raises:
        BlrcError: the size cannot be read, or is not a whole number of bytes above 0.
    """
    if size is None:
        return None
    # Python makes no number of more than some thousand digits; nothing has as many bytes as twenty can say.
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?) ?([KMG]?)I?B?", str(size).strip(), re.IGNORECASE | re.ASCII)
    nbytes = Fraction(found[1]) * _UNITS[found[2].upper()] if found else Fraction(0)
    if nbytes <= 0 or nbytes.denominator != 1:
        zero = "must be more than 0; " if found and not nbytes else ""
        raise BlrcError(
            f"{option} {str(size)[:40]!r}: {zero}expected a number of bytes such as 262144, 256K or 0.5M (K is 1024)"
        )
    return int(nbytes)


def either(choices: Iterable[str]) -> str:
    """Join choices with commas and a final "or"."""
    *first, last = choices
    return f"{', '.join(first)} or {last}"

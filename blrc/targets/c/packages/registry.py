"""The packages by name: one line each. A package is a folder ``<package>/<name>/`` of the export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from blrc.errors import BlrcError
from blrc.targets.c.packages import arduino, cmake, esp_idf, platformio, zephyr
from blrc.targets.c.packages.library import Library

PACKAGES: Mapping[str, Callable[[Library], Mapping[str, str]]] = {
    "cmake": cmake.files,
    "arduino": arduino.files,
    "platformio": platformio.files,
    "zephyr": zephyr.files,
    "esp-idf": esp_idf.files,
}
NO_PACKAGE = "none"


def parse_packages(packages: str | Iterable[str]) -> tuple[str, ...]:
    """The packages asked for, each once and in order; ``none`` is no package.

    Raises:
        BlrcError: there is no such package, or ``none`` stands beside another.
    """
    chosen = {packages} if isinstance(packages, str) else set(packages)
    if unknown := sorted(chosen - {*PACKAGES, NO_PACKAGE}):
        known = ", ".join((*PACKAGES, NO_PACKAGE))
        raise BlrcError(f"unknown package {', '.join(map(repr, unknown))}; known: {known}")
    if NO_PACKAGE in chosen and len(chosen) > 1:
        raise BlrcError(f"package {NO_PACKAGE} means no package; leave it out, or the others")
    return tuple(package for package in PACKAGES if package in chosen)


def place_of(package: str, name: str) -> str:
    """The package's folder in the export, with slashes."""
    return f"{package}/{name}"


def package_files(packages: Iterable[str], library: Library) -> dict[str, str]:
    """Every file of these packages by its path in the export."""
    return {
        f"{place_of(package, library.name)}/{path}": text
        for package in packages
        for path, text in PACKAGES[package](library).items()
    }

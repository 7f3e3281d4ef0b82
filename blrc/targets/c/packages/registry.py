"""Write an export's packages, each into a folder ``<package>/<name>/`` of the export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from blrc.targets.c.packages.example import image_header
from blrc.targets.c.packages.library import Library
from blrc.targets.c.text.symbols import Symbols
from blrc.targets.options import EmitOptions


def files_of(package: str) -> Callable[[Library], Mapping[str, str]]:
    """Return the function that makes the files of one of `blrc.targets.c.options.PACKAGES`."""
    found: Callable[[Library], Mapping[str, str]] = import_module(
        f"blrc.targets.c.packages.{package.replace('-', '_')}"
    ).files
    return found


def place_of(package: str, name: str) -> str:
    """Return the package's folder in the export, with slashes."""
    return f"{package}/{name}"


def package_files(symbols: Symbols, options: EmitOptions, files: Mapping[str, str]) -> dict[str, bytes]:
    """Return every file of the packages asked for, by its path in the export.

    Args:
        files: the files of the C export. Packages are made of its headers and sources.
    """
    library = Library(
        symbols,
        options.version,
        {file: content for file, content in files.items() if file.endswith((".c", ".h"))},
        image_header(symbols, options.version, options.vectors),
        options.publication,
        options.input_scale,
    )
    return {
        f"{place_of(package, library.name)}/{path}": text.encode("utf-8")
        for package in options.packages
        for path, text in files_of(package)(library).items()
    }

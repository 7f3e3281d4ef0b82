"""Provide what every package is made of: the model's files and their places, a licence, a README and an image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blrc.targets.c.text import text
from blrc.targets.c.text.ends.ensemble import chosen
from blrc.targets.c.text.symbols import Symbols, describe
from blrc.targets.publication import UNSPECIFIED, Publication, markdown
from blrc.targets.runtime_licence import LICENCE, RUNTIME_LICENCE
from blrc.version import LICENSE


@dataclass(frozen=True, eq=False)
class Library:
    """Hold a model on its way into packages.

    Attributes:
        symbols: the names in the export.
        version: the version of blrc.
        files: headers and sources by name. A firmware compiles them all; linkers leave out the self-test if nothing
            calls it.
        image: the text of ``<name>_image.h``, a recorded image for the example.
        publication: what is known of the model, and so of the package.
        input_scale: for a network that takes int8 codes, the codes for one unit of a real value.
    """

    symbols: Symbols
    version: str
    files: Mapping[str, str]
    image: str
    publication: Publication
    input_scale: float | None = None

    @property
    def name(self) -> str:
        return self.symbols.name

    @property
    def sources(self) -> list[str]:
        return sorted(file for file in self.files if file.endswith(".c"))

    @property
    def description(self) -> str:
        """Return one line for the package's metadata."""
        program = self.symbols.layout.program
        members = len(program.members)
        what = "a binary neural network" if members == 1 else f"an ensemble of {members} binary neural networks"
        word = "values" if program.values else "classes"
        classes = f"{program.classes} {word}"
        if program.heads:
            classes = " and ".join(f"{head.classes} {word} of {head.name}" for head in program.heads)
        return f"{self.name}: {what} in integers, {describe(program.input)} to {classes}"

    @property
    def _input(self) -> str:
        """Return sentences for the README that say what the input is, and what the caller has to do to it."""
        dtype = self.symbols.layout.program.input.dtype
        if dtype == "uint8":
            return "The input is raw pixels; their standardisation is part of the network."
        if dtype == "bits":
            return "The input is bits: 1 stands for +1 and 0 for -1."
        times = (
            "" if self.input_scale is None else f": a real value times {self.input_scale!r}, rounded, from -127 to 127"
        )
        return f"The input is codes that the caller makes{times}.\nNo standardisation is part of the network."

    def fill(self, template: str, **more: str) -> str:
        """Return `template` with its placeholders filled in.

        Passages for several heads or for one are chosen first (`blrc.targets.c.text.ends.ensemble.chosen`). The model's
        name replaces ``name_``, ``NAME_``, ``@name@`` and ``@NAME@``. The version of blrc, the package's
        version, the description, the digest, the sentences on the input and the values of `more` replace their words
        between ``@``.
        """
        known = {
            **more,
            "name": self.name,
            "NAME": self.symbols.upper,
            "version": self.version,
            "package_version": self.publication.package_version,
            "description": self.description,
            "digest": self.symbols.digest,
            "input": self._input,
        }
        template = chosen(template, self.symbols.layout.program)
        return text.fill(template, {**text.model(self.name), **{f"@{word}@": value for word, value in known.items()}})

    def placed(self, how: str, include: str = "include", src: str = "src") -> dict[str, str]:
        """Return the model's files by path, with licence and README.

        Args:
            how: Markdown that says how to use the package; its placeholders are filled in.
            include: the folder for the public header.
            src: the folder for the other headers and the sources.
        """
        public = f"{self.name}.h"
        files = {f"{include if file == public else src}/{file}": text for file, text in self.files.items()}
        known = self.publication
        readme = self.fill(
            _README.replace("@how@", how),
            runtime_licence=RUNTIME_LICENCE,
            license=UNSPECIFIED if known.license is None else markdown(known.license),
            author=UNSPECIFIED if known.author is None else markdown(known.author),
            url=UNSPECIFIED if known.url is None else f"<{known.url}>",
            of_model=UNSPECIFIED if known.version is None else known.version,
            runtime=LICENSE,
        )
        return {**files, RUNTIME_LICENCE: LICENCE, "README.md": readme}


def lines(items: Iterable[str], indent: str) -> str:
    """Put each item on a line of its own, without a line end after the last."""
    return f"\n{indent}".join(items)


_README = """\
# @name@

@description@.

Made by blrc @version@ from the program with SHA-256 `@digest@`. Do not edit: change the model and export again.

@how@
`@name@.h` says what the functions take and give. Nothing is allocated; the caller owns the arena.

@input@

`@name@_selftest(arena)` runs the recorded inputs on the device and compares every step with what was recorded; linkers
leave it out where it is not called.

| | the model | its runtime, `src/@name@_blrc*` |
|---|---|---|
| licence | @license@ | @runtime@, in `@runtime_licence@` |
| author | @author@ | the blrc authors |
| address | @url@ | |
| version | @of_model@ | blrc @version@ |

What is unspecified here `blrc export` was not told: `--license`, `--author`, `--url`, `--package-version`.
"""

"""What every package is made of: the model's files, where they go, its licence, its README and its example's image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blrc.targets.c.text import text
from blrc.targets.c.text.symbols import Symbols, describe
from blrc.targets.publication import UNSPECIFIED, Publication, markdown
from blrc.targets.runtime_licence import LICENCE, RUNTIME_LICENCE
from blrc.version import LICENSE


@dataclass(frozen=True, eq=False)
class Library:
    """A model on its way into packages.

    Attributes:
        version: of blrc.
        files: headers and sources by name: what a firmware compiles, and the self-test, which linkers leave out where
            it is not called. Without main functions.
        image: the text of ``<name>_image.h``, a recorded image for the example.
        publication: what is known of the model, and so of the package.
        input_scale: of a network that takes int8 codes: codes for one unit of a real value.
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
        """One line for the package's metadata."""
        program = self.symbols.layout.program
        members = len(program.members)
        what = "a binary neural network" if members == 1 else f"an ensemble of {members} binary neural networks"
        return f"{self.name}: {what} in integers, {describe(program.input)} to {program.classes} classes"

    @property
    def _input(self) -> str:
        """Sentences for the README that say what the input is, and what of it is the caller's to do."""
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
        """Return `template` with the model's name for ``name_``, ``NAME_``, ``@name@`` and ``@NAME@``, and blrc's
        version, the package's, description, digest and `more` for those words between ``@``."""
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
        return text.fill(template, {**text.model(self.name), **{f"@{word}@": value for word, value in known.items()}})

    def placed(self, how: str, include: str = "include", src: str = "src") -> dict[str, str]:
        """The model's files, the public header in one folder and the rest in another, with licence and README.

        Args:
            how: Markdown that says how to use the package, to be filled.
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
    """Each item on a line of its own, without a line's end behind the last."""
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

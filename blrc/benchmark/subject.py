"""Prepare the model to be timed: an exported folder, or what an export of a checkpoint would contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from blrc.app.compile import sources
from blrc.exports.again import code_of, expect_c, vectors_of
from blrc.exports.door import open_export
from blrc.program.program import Program
from blrc.store.places import is_folder
from blrc.targets.c.layout.layout import Layout
from blrc.targets.c.native.library import in_library
from blrc.targets.c.text.header import read_layout
from blrc.verification.inputs.stimuli import random_inputs

if TYPE_CHECKING:
    from blrc.frontend.checkpoint import Checkpoint


@dataclass(frozen=True, eq=False)
class Subject:
    """Hold a model to time.

    Attributes:
        name: name of the model, which is the prefix of its symbols.
        program: the program that it computes.
        files: its C files by name.
        layout: layout of the C, with the kernel of each step.
        sample: a raw input ``(1, H, W, C)``: the first that the export recorded, or a random one.
        optimize: what the export optimises, as its manifest says: ``size``, ``speed`` or ``ram``.
        exported: the export's C and ONNX files and its program by file name; None if the model is no export.
        onnx: the export's ONNX file, or None if it has none.
    """

    name: str
    program: Program = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    layout: Layout = field(repr=False)
    sample: NDArray[Any] = field(repr=False)
    optimize: str = "size"
    exported: Mapping[str, bytes] | None = field(default=None, repr=False)
    onnx: bytes | None = field(default=None, repr=False)


def load(model: str | Path | Program | Checkpoint, digest: str | None = None, trust_code: bool = False) -> Subject:
    """Load a model as `blrc.compile` would compile it.

    Args:
        model, digest, trust_code: as for `blrc.compile`.

    Raises:
        BlrcError: for the same reasons as in `blrc.compile`.
    """
    if isinstance(model, str | Path) and is_folder(Path(model)):
        return _of_folder(Path(model), digest, trust_code)
    name, program, files = sources(model, digest=digest, trust_code=trust_code)
    layout = read_layout(program, name, files[f"{name}.h"])
    return Subject(name, program, files, layout, random_inputs(program.input, 1, 0))


def _of_folder(folder: Path, digest: str | None, trust_code: bool) -> Subject:
    opened = open_export(folder, digest, trust_code)
    expect_c(opened)
    name, program = opened.name, opened.program
    recorded = vectors_of(opened)
    exported = code_of(opened, recorded, ("c", "onnx")).files
    files = {file: content for file, content in exported.items() if in_library(file, name)}
    layout = read_layout(program, name, files.get(f"{name}.h", b""))
    optimize = str(opened.manifest.options.get("optimize", "size"))
    return Subject(name, program, files, layout, recorded.inputs[:1], optimize, exported, exported.get(f"{name}.onnx"))


def told_apart(layout: Layout) -> tuple[object, ...]:
    """Return a key that differs if the C of two layouts of a program differs.

    It holds the kernels and the groups of steps that run row by row.
    """
    return layout.groups, tuple(step.kernel for step in layout.steps)

"""What is timed: an exported folder, or what an export of a checkpoint would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from blrc.app.compile import sources
from blrc.exports.again import code_of, expect_c, vectors_of
from blrc.exports.door import open_export
from blrc.program.program import BinaryScores, Conv, Op, Program, Scores
from blrc.store.places import is_folder
from blrc.targets.c.layout.layout import Layout
from blrc.targets.c.native.library import in_library
from blrc.targets.c.text.header import read_layout
from blrc.verification.inputs.stimuli import random_inputs

if TYPE_CHECKING:
    from blrc.frontend.checkpoint import Checkpoint


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to time.

    Attributes:
        name: of the model, the prefix of its symbols.
        files: its C.
        layout: of the C: the kernel of each step.
        sample: a raw input, ``(1, H, W, C)``: the first that the export recorded, or a random one.
        optimize: what the export traded, as its manifest says: ``size``, ``speed`` or ``ram``.
        exported: all files of the export's C, with the program, where it is an export.
        onnx: the export's ONNX file, where it has one.
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
    """What `blrc.compile` takes, as it would compile it.

    Raises:
        BlrcError: as for `blrc.compile`.
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


def macs(ops: Sequence[Op]) -> int:
    """Multiply-adds of one inference; taps outside a map are not computed, hence not counted."""
    return sum(op.macs for op in ops if isinstance(op, Conv | Scores | BinaryScores))


def told_apart(layout: Layout) -> tuple[object, ...]:
    """What differs where the C of two layouts of a program does: which kernels, and what runs row by row."""
    return layout.groups, tuple(step.kernel for step in layout.steps)

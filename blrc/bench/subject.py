"""What is timed: an exported folder as it lies there, or what an export of a checkpoint would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from blrc import vectors
from blrc.compiling import is_folder, sources
from blrc.errors import BlrcError
from blrc.manifest import Manifest, read_manifest
from blrc.program import BinaryScores, Conv, Op, Program, Scores
from blrc.targets.c.header import read_layout
from blrc.targets.c.layout import Layout
from blrc.verification.stimuli import random_inputs

if TYPE_CHECKING:
    from blrc.checkpoint import Checkpoint


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to time.

    Attributes:
        name: of the model, the prefix of its symbols.
        files: its C.
        layout: of the C: the kernel of each step.
        sample: a raw input, ``(1, H, W, C)``: the first that the export recorded, or a random one.
        optimize: what the export traded, as its manifest says: ``size``, ``speed`` or ``ram``.
        folder: of the export, where it is one.
        onnx: the export's ONNX file, where it has one.
    """

    name: str
    program: Program = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    layout: Layout = field(repr=False)
    sample: NDArray[Any] = field(repr=False)
    optimize: str = "size"
    folder: Path | None = None
    onnx: bytes | None = field(default=None, repr=False)


def load(model: str | Path | Program | Checkpoint) -> Subject:
    """What `blrc.compile` takes, as it would compile it.

    Raises:
        BlrcError: as for `blrc.compile`; or a file of the folder was changed since the export: the manifest would not
            name the kernels that are timed.
    """
    name, program, files = sources(model)
    layout = read_layout(program, name, files[f"{name}.h"].decode("ascii"))
    if not isinstance(model, str | Path) or not is_folder(Path(model)):
        return Subject(name, program, files, layout, random_inputs(program.input, 1, 0))
    folder = Path(model)
    manifest = read_manifest(folder)
    for problem in manifest.changed_files(folder):
        raise BlrcError(problem)
    _check_kernels(folder, manifest, layout)
    recorded, _ = vectors.differences(folder / f"{name}.vectors.npz", program)
    file = folder / f"{name}.onnx"
    onnx = file.read_bytes() if "onnx" in manifest.targets else None
    optimize = str(manifest.targets["c"].get("optimize", "size"))
    return Subject(name, program, files, layout, recorded[:1], optimize, folder, onnx)


def _check_kernels(folder: Path, manifest: Manifest, layout: Layout) -> None:
    """The C calls the kernels that the manifest names."""
    named = [(layer["op"], layer["kernel"]) for layer in manifest.targets["c"]["layers"]]
    called = [(step.op.name, step.kernel) for step in layout.steps]
    if named != called:
        wrong = next((pair for pair in zip(named, called, strict=False) if pair[0] != pair[1]), (named, called))
        raise BlrcError(f"{folder}: the manifest names {wrong[0]}, the C calls {wrong[1]}; export again")


def macs(ops: Sequence[Op]) -> int:
    """Multiply-adds of one inference; taps outside a map are not computed, hence not counted."""
    return sum(op.macs for op in ops if isinstance(op, Conv | Scores | BinaryScores))


def told_apart(layout: Layout) -> tuple[object, ...]:
    """What differs where the C of two layouts of a program does: which kernels, and what runs row by row."""
    return layout.groups, tuple(step.kernel for step in layout.steps)

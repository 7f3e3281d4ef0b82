"""Import a network that another tool wrote as an ONNX file (`blrc.import_onnx`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from blrc.errors import BlrcError
from blrc.frontend import checkpoint
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.origin import Origin
from blrc.importing.declared import Declared, parse_input
from blrc.importing.file import MOST_BYTES, read
from blrc.importing.ops.ending import LEFT_OUT
from blrc.importing.walk import Walked, walk
from blrc.net.heads import Outputs, units_of
from blrc.reading import regular
from blrc.reading.given import path_of
from blrc.store.listing import content_of

SUFFIX = ".onnx"
"""Ends the names of files that are imported where a checkpoint is expected."""


def import_onnx(
    path: str | Path,
    *,
    output: str | Path | None = None,
    input: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    scale: float | None = None,
    heads: Sequence[str] | None = None,
    outputs: Outputs = "labels",
    say: Callable[[str], None] | None = None,
) -> Checkpoint:
    """Read a binary network from an ONNX file: QONNX (Brevitas), FINN, or plain ONNX.

    The file is only read: nothing in it is executed, and no other file. Every number is kept exactly.

    Args:
        path: the ONNX file.
        output: write the checkpoint to this path as well, which needs torch.
        input: what the raw input is, where the file does not say it: ``pixels`` (uint8 x; the network takes
            (x / 255 - mean) / std), ``int8`` (codes; the network takes code / scale), or ``bits`` (the network takes
            -1 and +1). A sign or a threshold directly behind the input says it: the raw input are bits.
        mean, std: of pixels, for each channel or one for all; by default 0 and 1.
        scale: codes per unit; by default 1.
        heads: names for the outputs of a network with several, in the file's order; by default the file's own names,
            which have to be possible in C.
        outputs: whether the outputs are scores of classes or values, as for `blrc.save`.
        say: is told what the raw input is.

    Raises:
        BlrcError: a node has no exact form; the message names it, and says why and what to do.
    """
    walked = look(path, input=input, mean=mean, std=std, scale=scale, heads=heads)
    refusals = walked.refusals
    if walked.checkpoint is None:
        others = len(refusals) - 1
        more = f" ({others} more refused: 'blrc import --dry-run' lists all)" if others else ""
        raise BlrcError(f"{path}: {refusals[0]}{more}")
    checkpoint.check(walked.checkpoint)
    sha256 = content_of(regular.read(path_of(path), MOST_BYTES)).sha256
    units = units_of(outputs, walked.checkpoint.heads, str(path))
    for line in walked.lines:
        if units and line.says.startswith(LEFT_OUT):
            raise BlrcError(
                f"{path}: {line.node}: {line.says}; of a network of values that would change them: export the network "
                "again without it"
            )
    found = replace(walked.checkpoint, original=origin(sha256, parse_input(input, mean, std, scale)), values=units)
    for note in walked.notes:
        if say is not None:
            say(note)
    if output is not None:
        from blrc.extras import require

        require("torch", "writing a checkpoint")
        from blrc.frontend.saving import write

        write(found, path_of(output, "the path of the checkpoint to write"))
    return found


def origin(sha256: str, declared: Declared | None) -> Origin:
    """Return the record of an import for its checkpoint."""
    if declared is None:
        return Origin(sha256)
    return Origin(sha256, declared.kind, declared.mean, declared.std, declared.scale)


def look(
    path: str | Path,
    *,
    input: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    scale: float | None = None,
    heads: Sequence[str] | None = None,
) -> Walked:
    """Return what an import makes of every node of a file. The arguments are those of `import_onnx`."""
    place = path_of(path, "the path of the ONNX file")
    declared = parse_input(input, mean, std, scale)
    try:
        return walk(read(place), declared, str(place), heads)
    except BlrcError as error:
        raise error if str(error).startswith(f"{place}: ") else BlrcError(f"{place}: {error}") from None


def opened(model: str | Path | Checkpoint, say: Callable[[str], None] | None = None) -> Checkpoint:
    """Return a checkpoint as it is, or the one at a path, where an ONNX file is imported."""
    if isinstance(model, Checkpoint):
        return model
    return import_onnx(model, say=say) if Path(path_of(model)).suffix == SUFFIX else checkpoint.load(model)

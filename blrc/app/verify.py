"""Compare everything in an exported folder with the reference (`blrc.verify`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blrc.app.export import build
from blrc.app.import_onnx import SUFFIX, import_onnx, opened
from blrc.errors import BlrcError
from blrc.exports.door import read_manifest
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.origin import origin_of
from blrc.frontend.sample import Member
from blrc.lowering.statistics import as_saved, parse_norms, parse_rounding
from blrc.net.net import Net
from blrc.program.program import Program
from blrc.reading.given import is_module, path_of, typed
from blrc.verification.devices import parse_machines
from blrc.verification.folder import Lower, verify_folder
from blrc.verification.report import Report
from blrc.verification.request import VerifyRequest
from blrc.verification.run import Progress

if TYPE_CHECKING:
    from torch.nn import Module


@typed
def verify(
    folder: str | Path,
    *,
    data: str | Path | None = None,
    model: str | Path | None = None,
    original: str | Path | Module | None = None,
    random: int | None = None,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
    on: str | Sequence[str] | None = None,
    strict: bool = False,
    digest: str | None = None,
    trust_code: bool = False,
) -> Report:
    """Compare everything in an exported folder with the reference, at every layer.

    Args:
        folder: a folder that `export` wrote.
        data: test data (see `blrc.datasets.labelled.load`).
        model: the checkpoint: it is lowered again and must give the same program, and agreement with torch is measured.
            An ONNX file is imported, with what the export's manifest says about its input.
            A network of whitened images takes a folder of `data` only if it is given.
        original: the ONNX file that the network was imported from, which is run in ONNX Runtime, or the torch module
            that was saved, whose own forward is run in float32: every layer's bits, the thresholds on every sum that
            can occur, the scores and the labels are compared with it. A module with random weights has no such values.
        random: the number of random inputs; by default 10,000, fewer for networks over 6 million operations.
        seed: the seed of the random inputs.
        progress: is told what is being compared, how much of it is done, and how much there is.
        on: the machines to run the C on in emulators: a list of names, a text of names separated by commas, or ``all``.
        strict: whether a machine that was not checked (its tools are missing, or it has no room for the test) is an
            error.
        digest: the digest of the program that the folder must hold.
        trust_code: whether to compile and run the folder's own code, whoever wrote it, even that of another version of
            blrc; by default, only code that this blrc would have written itself is compiled and run.

    Raises:
        BlrcError: the folder is no export or does not fit its manifest, or tools are missing. A difference is no error;
            it is in the report.
    """
    if original is not None and not is_module(original):
        original = path_of(original, "the path of the original ONNX file")
    request = VerifyRequest(
        folder=path_of(folder, "the path of an exported folder"),
        data=None if data is None else Path(data),
        random=random,
        seed=seed,
        machines=parse_machines(on),
        strict=strict,
        digest=digest,
        trust_code=trust_code,
        original=original,
    )
    if model is None:
        return verify_folder(request, progress)
    source = _source(request.folder, model)
    return verify_folder(request, progress, _lower_again(request.folder, source), source.whitening)


def _source(folder: Path, model: str | Path) -> Checkpoint:
    """Return a checkpoint, or the import of an ONNX file, of whose input is said what the export's manifest says."""
    held = read_manifest(folder).original if path_of(model).suffix == SUFFIX else None
    if held is None:
        return opened(model)
    origin = origin_of(held)
    pixels = origin.input == "pixels"
    return import_onnx(
        model,
        input=origin.input or None,
        mean=origin.mean if pixels else None,
        std=origin.std if pixels else None,
        scale=origin.scale if origin.input == "int8" else None,
    )


def _lower_again(folder: Path, source: Checkpoint) -> Lower:
    def lower(members: Sequence[str], gate: int, norms: str, rounding: str) -> tuple[Program, list[Net], Net | None]:
        try:
            parsed = [Member.parse(text) for text in members]
        except ValueError:
            raise BlrcError(f"{folder}: its program has members {', '.join(members)}; export it again") from None
        program, nets = build(source, parsed, gate, parse_norms(norms), parse_rounding(rounding))
        return program, nets, as_saved(source) if norms == "estimated" else None

    return lower

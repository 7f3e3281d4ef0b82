"""Compare an export with its original network: bits of every layer, thresholds, scores, labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.exports.door import OpenedExport
from blrc.exports.manifest import SUFFIX, to_bytes
from blrc.frontend.origin import origin_of
from blrc.importing.declared import Declared
from blrc.lowering.lower import lower
from blrc.net.encoding import InputEncoding
from blrc.program import program_file
from blrc.program.program import Encode, Program
from blrc.store.claim import claimed
from blrc.store.listing import content_of
from blrc.verification.original.file import open_file
from blrc.verification.original.module import open_module
from blrc.verification.original.original import Original
from blrc.verification.original.places import places
from blrc.verification.original.report import Against, counts_of
from blrc.verification.original.tally import Tally
from blrc.verification.original.thresholds import Decided, compare_thresholds

OF_TORCH = (".pt", ".pt2", ".pth")
"""Ends of the names of files that torch writes; reading a module or an exported program from one would run its code."""


def against_original(
    opened: OpenedExport,
    given: Any,
    inputs: Sequence[tuple[NDArray[Any], NDArray[Any] | None]],
    progress: Callable[[str, int, int], None],
) -> Against:
    """Compare an exported folder with its original, and keep the counts in the folder's manifest.

    Args:
        given: the path of an ONNX file, or a module of torch.
    """
    found = _against(opened, given, inputs, progress)
    unkept = keep(opened, found)
    return found if unkept is None else replace(found, notes=(*found.notes, unkept))


def _against(
    opened: OpenedExport,
    given: Any,
    inputs: Sequence[tuple[NDArray[Any], NDArray[Any] | None]],
    progress: Callable[[str, int, int], None],
) -> Against:
    """Compare an exported folder with its original, as `compare_original` does, and the files' digests."""
    manifest = opened.manifest
    names = [head.name for head in opened.program.heads] or None
    if not isinstance(given, Path):
        module = open_module(given, encoding_of(opened), manifest.norms, manifest.rounding, names)
        return compare_original(opened.program, module, inputs, progress)
    if given.suffix in OF_TORCH:
        raise BlrcError(
            f"{given}: --original takes the ONNX file that was imported; give a checkpoint as --checkpoint, and a "
            "module from Python: blrc.verify(folder, original=module)"
        )
    held = manifest.original
    origin = None if held is None else origin_of(held)
    declared = None
    if origin is not None and origin.input:
        declared = Declared(origin.input, origin.mean, origin.std, origin.scale)
    original = open_file(given, declared, manifest.rounding, names)
    found = compare_original(opened.program, original, inputs, progress)
    if origin is None or origin.sha256 == original.sha256:
        return found
    return replace(found, notes=(f"the export was made of another file, whose SHA-256 is {origin.sha256}",))


def keep(opened: OpenedExport, found: Against) -> str | None:
    """Write the counts of a comparison into the manifest; all other files stay as they are.

    Returns:
        Why that cannot be done, or None: nobody may write into the folder, or it is no longer the export that was
        compared.
    """
    manifest, name = opened.manifest, f"{opened.name}{SUFFIX}"
    known = to_bytes(manifest)
    counted = to_bytes(replace(manifest, settings={**manifest.settings, "compared": counts_of(found)}))
    if counted == known:
        return None
    try:
        with claimed(opened.folder) as place:
            place.write({name: counted}, {name: content_of(known)})
    except BlrcError as error:
        return f"the counts could not be kept in the manifest: {error}"
    return None


def encoding_of(opened: OpenedExport) -> InputEncoding:
    """Return the input of an exported network; a table of codes is that of the program."""
    held, program = opened.manifest.settings["input"], opened.program
    at, encode = tuple(held.get("at", ())), next((op for op in program.ops if isinstance(op, Encode)), None)
    given: tuple[tuple[int, ...], ...] = ()
    if encode is not None and not held["mean"]:
        given = tuple(tuple(map(int, row)) for row in program.constant(encode.table))
    mean, std = tuple(held["mean"]), tuple(held["std"])
    exact = held.get("exact")
    try:
        return InputEncoding(held["kind"], tuple(held["shape"]), held["scale"], mean, std, given, at, exact)
    except BlrcError as error:
        raise BlrcError(f"{opened.folder / f'{opened.name}{SUFFIX}'}: settings.input: {error}; export again") from None


def compare_original(
    program: Program,
    original: Original,
    inputs: Sequence[tuple[NDArray[Any], NDArray[Any] | None]],
    progress: Callable[[str, int, int], None],
) -> Against:
    """Compare an export's program with the original network.

    Args:
        inputs: raw samples in device layout, and their labels, where known.

    Raises:
        BlrcError: the program has several members, or the original cannot be run.
    """
    if len(program.members) > 1:
        raise BlrcError(f"original {original.name}: is one network, but the export has {len(program.members)}")
    again = lower([original.net])
    problems = _other_tables(program, again)
    same = program_file.digest(again) == program_file.digest(program)
    if not (same or problems):
        problems.append("reading the original gives another program; give what the export was made of")
    if [op.name for op in program.ops] != [op.name for op in again.ops] or program.input != again.input:
        return _nothing(original, problems)
    found = places(program, original)
    decided: dict[str, Decided] = {}
    for number, place in enumerate(found):
        progress("thresholds of the original", number, len(found))
        if place.decision is not None:
            decided[place.layer] = compare_thresholds(program, place.decision, original)
    progress("thresholds of the original", len(found), len(found))
    channels = tuple(channel for each in decided.values() for channel in each.channels)
    problems += [f"{channel}" for channel in channels if not channel.explained]
    tally = Tally(program, original, found, decided)
    for raw, labels in inputs:
        tally.run(raw, labels, progress)
    return Against(
        original.name,
        original.sha256,
        same,
        tally.layers,
        sum(each.decisions for each in decided.values()),
        channels,
        tally.scores,
        tally.farthest,
        tally.bound,
        tally.labels,
        tally.same,
        None if not tally.labelled else 100.0 * tally.correct / tally.labelled,
        (*problems, *tally.problems()),
        (),
    )


def _nothing(original: Original, problems: list[str]) -> Against:
    return Against(original.name, original.sha256, False, {}, 0, (), 0, 0.0, 0.0, 0, 0, None, tuple(problems), ())


def _other_tables(program: Program, again: Program) -> list[str]:
    """Say what of a program is not what importing the original gives: its layers, or the tables of one."""
    ours, theirs = ([(type(op).__name__, op.name, op.y.shape) for op in each.ops] for each in (program, again))
    if ours != theirs or program.input != again.input:
        first = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
        )
        names = [repr(each[first][1]) if first < len(each) else "nothing" for each in (ours, theirs)]
        return [
            f"the original has other layers: {names[1]} where the export has {names[0]}; give the file it was made of"
        ]
    problems = []
    for op in program.ops:
        for name in op.constants:
            a, b = program.constant(name), again.constant(name)
            if a.shape != b.shape:
                problems.append(f"layer {op.name!r}: {name} has the shape {a.shape}, and from the original {b.shape}")
            elif not np.array_equal(a, b):
                rows = np.flatnonzero((a != b).reshape(len(a), -1).any(axis=1))
                problems.append(
                    f"layer {op.name!r}: {name} is not what the original gives, first in channel {rows[0]} "
                    f"({len(rows)} of {len(a)})"
                )
    for (name, scale), (_, other) in zip(_scales(program), _scales(again), strict=False):
        if scale != other:
            problems.append(f"the scores' scale{name} is {scale:g}, and from the original {other:g}")
    return problems


def _scales(program: Program) -> list[tuple[str, float]]:
    """Return the scores' scale of each head, and how messages call the head."""
    return [(f" of head {head.name!r}", head.score_scale) for head in program.heads] or [("", program.score_scale)]

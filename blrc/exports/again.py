"""Emit an export again from its program and options, so that blrc runs only code that it would have written itself.

The same program and options give the same bytes on every machine. So it is known what the files of a folder must be.
Files that are equal may be run, and what is handed on for running are the bytes that were emitted here.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.exports import recorded
from blrc.exports.door import TRUST, OpenedExport
from blrc.exports.manifest import PROGRAM, SUFFIX, VECTORS
from blrc.extras import lacking
from blrc.program import vectors
from blrc.program.vectors import Vectors
from blrc.reading.schema import MisfitError, shown
from blrc.targets.c.build.compiled import temporary_files
from blrc.targets.c.emit import emit_library
from blrc.targets.c.native.library import in_library
from blrc.targets.options import EmitOptions, Emitted
from blrc.targets.registry import TARGETS
from blrc.targets.web.emit import MODEL, page_files
from blrc.targets.web.wasm import find_tools
from blrc.version import VERSION

WEB = "web"
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Code:
    """Hold the files of an export that may be run.

    Attributes:
        files: content by name: what was emitted here and equals what the folder lists, or, if that was asked for, the
            folder's own files.
        skipped: a sentence for each part that is data and could not be compared, and is therefore not among the files.
        unchecked: a sentence for each part that is code for others to run and could not be compared, so that nobody can
            say whether the export is right.
    """

    files: Mapping[str, bytes] = field(repr=False)
    skipped: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


def code_of(opened: OpenedExport, now: Vectors, targets: Collection[str] = tuple(TARGETS)) -> Code:
    """Return the files of an export's targets, with the program and the vectors.

    Args:
        now: what the reference gives for the recorded inputs.
        targets: the targets whose files are returned.

    Raises:
        BlrcError: a file is missing, or is not what blrc writes for this program and these options.
    """
    manifest, own = opened.manifest, {f"{opened.name}{ending}" for ending in (PROGRAM, VECTORS)}
    wanted = set(manifest.targets) & set(targets)
    if opened.trusted:
        if "onnx" in wanted and f"{opened.name}.onnx" not in opened.contents:
            raise BlrcError(f"{opened.folder}: lists no {opened.name}.onnx; export again")
        return Code(
            opened.contents,
            ("code: the folder's own, as --trust-code asks; it was not compared with what this blrc writes",),
        )
    options = _options(opened, now)
    files = {name: opened.contents[name] for name in own}
    skipped, unchecked, unseen = list[str](), list[str](), set[str]()
    for target in sorted(wanted, key=lambda name: (name == WEB, name)):  # the page last: it takes a compiler
        if target == WEB and (reason := _other_tools(manifest.targets[WEB])) is not None:
            files |= _compared(opened, page_files())
            unchecked.append(f"page: {reason}; it is not run")
            unseen.add(MODEL)
            continue
        if target == "onnx" and (needed := lacking("onnx")) is not None:
            skipped.append(f"ONNX: comparing the file with what blrc writes, and running it, needs {needed}")
            unseen.add(f"{opened.name}.onnx")
            continue
        emitted = _emitted(opened, target, options)
        _compare_about(opened, target, emitted)
        files |= _compared(opened, emitted.files)
    if wanted == set(manifest.targets):
        for name in sorted(manifest.files.keys() - files.keys() - unseen):
            raise _not_written(opened, name)
    return Code(files, tuple(skipped), tuple(unchecked))


def vectors_of(opened: OpenedExport) -> Vectors:
    """Return what the reference gives for the inputs that an export recorded.

    Raises:
        BlrcError: the file of the vectors is damaged, or belongs to another program.
    """
    return vectors.record(opened.program, _inputs(opened))


def library_of(opened: OpenedExport) -> dict[str, bytes]:
    """Return the C of an export's library for `blrc.compile`, without self-test, packages and other targets.

    Raises:
        BlrcError: the export holds no C, or a file is not what blrc writes for this program and these options.
    """
    expect_c(opened)
    if opened.trusted:
        return {name: content for name, content in opened.contents.items() if in_library(name, opened.name)}
    # The library depends on how many inputs were recorded, and not on what they give.
    options = _options(opened, vectors.unknown(opened.program, _inputs(opened)))
    library = _again(opened, "c", lambda: emit_library(opened.program, options))
    listed = {name for name in opened.manifest.files if in_library(name, opened.name)}
    for name in sorted(listed - library.keys()):
        raise _not_written(opened, name)
    return _compared(opened, library)


def expect_c(opened: OpenedExport) -> None:
    """Check that an export has C.

    Raises:
        BlrcError: it has none.
    """
    if "c" not in opened.manifest.targets:
        raise BlrcError(f"{opened.folder}: holds no C; export it again with --target c")


@contextmanager
def private_copy(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write files into a temporary folder that only this user can enter and that holds nothing else.

    Raises:
        BlrcError: the disk is full.
    """
    with temporary_files():
        temporary = tempfile.TemporaryDirectory(prefix="blrc-export-")
    with temporary as place:
        folder = Path(place)
        with temporary_files():
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        yield folder


def _inputs(opened: OpenedExport) -> NDArray[Any]:
    return vectors.inputs_of(opened.contents[f"{opened.name}{VECTORS}"], opened.path(VECTORS), opened.program)


def _options(opened: OpenedExport, now: Vectors) -> EmitOptions:
    manifest = opened.manifest
    try:
        return recorded.from_plain(manifest.options, manifest.name, now, VERSION)
    except MisfitError as error:
        raise BlrcError(f"{opened.path(SUFFIX)}: {error}; export again") from None


def _emitted(opened: OpenedExport, target: str, options: EmitOptions) -> Emitted:
    return _again(opened, target, lambda: TARGETS[target](opened.program, options))


def _again(opened: OpenedExport, target: str, emit: Callable[[], T]) -> T:
    try:
        return emit()
    except BlrcError as error:
        raise BlrcError(f"{opened.folder}: its {target} cannot be written again: {error}") from None


def _compared(opened: OpenedExport, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that were emitted here, after checking that the folder lists the same."""
    for name, content in files.items():
        entry = opened.manifest.files.get(name)
        if entry is None:
            raise BlrcError(f"{opened.folder}: lists no {name}, which blrc writes; export again")
        if entry.size != len(content) or entry.sha256 != hashlib.sha256(content).hexdigest():
            raise BlrcError(
                f"{opened.folder / name}: is not what this blrc writes for this program and these options: it was "
                f"changed, or written by another build of blrc; export again, or give {TRUST} to run it as it is"
            )
    return dict(files)


def _compare_about(opened: OpenedExport, target: str, emitted: Emitted) -> None:
    """Check that the manifest says of a target what the target says of itself."""
    said, right = opened.manifest.targets[target], emitted.about
    # As text: true is no 1 there.
    texts = [{key: json.dumps(value, sort_keys=True) for key, value in about.items()} for about in (said, right)]
    if texts[0] != texts[1]:
        other = next(key for key in sorted({*said, *right}) if texts[0].get(key) != texts[1].get(key))
        raise BlrcError(
            f"{opened.path(SUFFIX)}: {shown(other)} of target {target} is not what this blrc says; export again, or "
            f"give {TRUST}"
        )


def _not_written(opened: OpenedExport, name: str) -> BlrcError:
    return BlrcError(
        f"{opened.folder}: lists {name}, which this blrc does not write for these options; export again, or give "
        f"{TRUST}"
    )


def _other_tools(said: Mapping[str, Any]) -> str | None:
    """Return why the page's module cannot be compiled here to the bytes that the folder should have, or None."""
    try:
        here = find_tools()
    except BlrcError as error:
        return f"its module cannot be compared ({error})"
    tools = (here.compiler_version, here.linker_version)
    if (said.get("compiler"), said.get("linker")) == tools:
        return None
    return f"its module was compiled by {shown(said.get('compiler'))}, here is {tools[0]}, so it cannot be compared"

"""Open exported folders: every reader and replacer of one comes through this single door.

Nothing of a folder is used before all of it fits: its manifest has the schema, every listed file is a regular one,
reached through no symbolic link, with the listed size and SHA-256, and the program has the digest. What is used later
was read here, once, and is held in memory, so that changing the folder meanwhile changes nothing. Files that are not
listed are not read.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from blrc.errors import BlrcError
from blrc.exports.directory import Directory
from blrc.exports.manifest import (
    LARGEST,
    MOST_KEPT,
    PROGRAM,
    SUFFIX,
    VECTORS,
    Listed,
    Manifest,
    parse,
    parse_replaceable,
)
from blrc.program import program_file
from blrc.program.program import Program
from blrc.store.journal import OWN, Journal, interrupted, read_journal
from blrc.store.listing import MOST_BYTES, Content, content_of
from blrc.store.places import is_folder
from blrc.version import VERSION

TRUST = "--trust-code (trust_code=True)"


@dataclass(frozen=True, eq=False)
class OpenedExport:
    """Hold a folder that fits its manifest.

    Attributes:
        folder: where the folder was, for messages.
        manifest: the parsed manifest.
        program: the program of the export.
        digest: the digest of the program, computed from it.
        trusted: whether the user trusts the folder's own code (``--trust-code``).
        contents: file contents by name: the program and the vectors, or all files if `trusted`.
    """

    folder: Path
    manifest: Manifest
    program: Program = field(repr=False)
    digest: str
    trusted: bool
    contents: Mapping[str, bytes] = field(repr=False)

    @property
    def name(self) -> str:
        """Return the prefix of all files and symbols."""
        return self.manifest.name

    def path(self, ending: str) -> Path:
        """Return where ``NAME<ending>`` lies, for messages."""
        return self.folder / f"{self.name}{ending}"


def open_export(folder: Path, digest: str | None = None, trust_code: bool = False) -> OpenedExport:
    """Open an exported folder and check all of it.

    Args:
        digest: the digest that the program must have, if given.
        trust_code: whether the folder's own code will be compiled, so that a folder of another version of blrc is
            accepted.

    Raises:
        BlrcError: there is no such folder, it is no export, or something in it does not fit.
    """
    wanted = None if digest is None else check_digest(digest)
    expect_export(folder)
    with Directory(folder) as directory:
        manifest = _manifest(directory)
        if manifest.version != VERSION and not trust_code:
            raise BlrcError(
                f"{folder}: was written by blrc {manifest.version}, this is {VERSION}; export again, or give {TRUST} "
                "to compile its code as it is"
            )
        _check_sizes(directory, manifest.files)
        kept = {name: b"" for name in manifest.files if trust_code or name.endswith((PROGRAM, VECTORS))}
        held = sum(manifest.files[name].size or 0 for name in kept)
        if held > MOST_KEPT:
            raise BlrcError(f"{folder}: {held} bytes of it would be held in memory, at most {MOST_KEPT} are")
        for name, entry in manifest.files.items():
            content = _read(directory, name, entry, name in kept)
            if name in kept:
                kept[name] = content
    for ending in (PROGRAM, VECTORS):
        _expect_stored(kept[manifest.name + ending], folder / f"{manifest.name}{ending}")
    program = program_file.parse(kept[f"{manifest.name}{PROGRAM}"], folder / f"{manifest.name}{PROGRAM}")
    found = program_file.digest(program)
    if found != manifest.digest:
        raise BlrcError(
            f"{folder / f'{manifest.name}{PROGRAM}'}: has digest {found}, but the manifest says {manifest.digest}; "
            "export again"
        )
    if manifest.members != program.members:
        raise BlrcError(f"{folder}: the manifest names other members than the program has; export again")
    expect_digest(folder, found, wanted)
    return OpenedExport(folder, manifest, program, found, trust_code, kept)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder, without looking at the files that it lists.

    Raises:
        BlrcError: there is no such folder, it is no export, or its manifest is none that this blrc writes.
    """
    expect_export(folder)
    with Directory(folder) as directory:
        return _manifest(directory)


def check_digest(digest: str) -> str:
    """Return a digest that a user gave, in lower case.

    Raises:
        BlrcError: it is not 64 hexadecimal digits.
    """
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", digest, re.ASCII):
        raise BlrcError(f"digest {digest!r}: expected all 64 hexadecimal digits, as 'blrc export' prints them")
    return digest.lower()


def expect_digest(model: object, found: str, wanted: str | None) -> None:
    """Refuse a program whose digest is not the one that was asked for.

    Args:
        model: the name or the folder of the model, for the message.
        found: the digest of the program.
        wanted: the digest that was asked for, or None.

    Raises:
        BlrcError: the digests differ.
    """
    if wanted is not None and found != check_digest(wanted):
        raise BlrcError(f"{model}: holds program {found}, not {wanted}, which --digest (digest=) asks for")


def expect_export(folder: Path) -> None:
    """Check that a folder is there, and that no export into it was interrupted.

    Raises:
        BlrcError: it is not, or one was.
    """
    if not is_folder(folder):
        if folder.is_file():
            raise BlrcError(f"{folder}: is a file; give the folder that holds the export")
        raise BlrcError(f"{folder}: no such folder; export a model first: blrc export model.pt --target c -o {folder}")
    if (message := interrupted(folder)) is not None:
        raise BlrcError(message)


def previous_files(folder: Path, force: bool) -> Mapping[str, Content] | None:
    """Return the files of the export in `folder` that a new one may replace, or None if there is no folder.

    An export of an earlier format may be replaced too, and so may one that was interrupted. A file that was changed or
    removed since the export may be somebody's work, and the manifest may be forged: in such a case nothing is replaced.

    Raises:
        BlrcError: the folder exists and `force` is not given, an export into it was interrupted and `force` is not
            given, it holds files but is no export, or a listed file is not what the manifest or the journal says, or is
            no regular file of the folder.
    """
    try:
        if not folder.exists():
            return None
        if not folder.is_dir():
            raise BlrcError(f"{folder}: is a file, not a folder; choose another folder with -o")
        unfinished = read_journal(folder)
        if unfinished is None and all(path.name in OWN for path in folder.iterdir()):
            return {}
    except OSError as error:
        raise BlrcError(f"{folder}: cannot read: {error.strerror or error}; choose another folder with -o") from None
    if not force:
        if (message := interrupted(folder)) is not None:
            raise BlrcError(message)
        ours = next(folder.glob(f"*{SUFFIX}"), None) is not None
        remedy = ", or replace the export in it with --force (force=True)" if ours else ""
        raise BlrcError(f"{folder}: exists already; choose another folder with -o{remedy}")
    with Directory(folder) as directory:
        try:
            return _replaceable(directory) if unfinished is None else _unfinished(directory, unfinished)
        except BlrcError as error:
            why = str(error).removesuffix("; export again")
            raise BlrcError(f"{why}; nothing was replaced: move the folder away, or choose another with -o") from None


def _replaceable(directory: Directory) -> dict[str, Content]:
    """Return the manifest and the files that it lists, after checking that each is as it is listed."""
    file, manifest = _manifest_file(directory)
    name, files = parse_replaceable(manifest, str(directory.path / file))
    _check_name(directory.path, file, name)
    _check_sizes(directory, files)
    found = {file: content_of(manifest)}
    for listed, entry in files.items():
        size = directory.size(listed) if entry.size is None else entry.size
        _read(directory, listed, Listed(size, entry.sha256), keep=False)
        found[listed] = Content(size, entry.sha256)
    return found


def _unfinished(directory: Directory, journal: Journal) -> dict[str, Content]:
    """Return the files that the journal lists, each of which must be as before the export, as after it, or missing."""
    found = {**journal.new, **journal.old}
    for name in sorted(found):
        if not directory.has(name):
            continue
        size = directory.size(name)
        allowed = [content for content in journal.contents(name) if content.size == size]
        content = Content(size, directory.read(name, size, keep=False)[1]) if allowed else None
        if content not in allowed:
            raise BlrcError(f"{directory.path / name}: was changed since an export into the folder was interrupted")
        found[name] = content
    return found


def _manifest(directory: Directory) -> Manifest:
    file, content = _manifest_file(directory)
    manifest = parse(content, str(directory.path / file))
    _check_name(directory.path, file, manifest.name)
    return manifest


def _manifest_file(directory: Directory) -> tuple[str, bytes]:
    """Return the name and the content of the folder's only manifest."""
    found = [name for name in directory.names() if name.endswith(SUFFIX)]
    if len(found) != 1:
        many = "holds several manifests" if found else f"is no export (it has no *{SUFFIX})"
        raise BlrcError(f"{directory.path}: {many}; give a folder written by 'blrc export'")
    size = directory.size(found[0])
    if size > LARGEST:
        raise BlrcError(
            f"{directory.path / found[0]}: has {size} bytes, and a manifest at most {LARGEST}; export again"
        )
    return found[0], directory.read(found[0], size)[0]


def _expect_stored(content: bytes, path: Path) -> None:
    """Refuse an npz whose arrays are larger than the file: blrc neither compresses arrays nor lets them overlap."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inflated = sum(entry.file_size for entry in archive.infolist())
    except Exception:  # whatever is wrong with it, its reader says so
        return
    if inflated > len(content):
        raise BlrcError(f"{path}: holds {inflated} bytes in {len(content)}, and blrc compresses nothing; export again")


def _check_name(folder: Path, file: str, name: str) -> None:
    if file != name + SUFFIX:
        raise BlrcError(f"{folder / file}: is the manifest of {name!r}, and should be named {name}{SUFFIX}")


def _check_sizes(directory: Directory, files: Mapping[str, Listed]) -> None:
    """Check that all files are there and have their sizes, before any of them is read."""
    total = 0
    for name, entry in files.items():
        size = directory.size(name)
        total += size
        if entry.size is not None and size != entry.size:
            raise BlrcError(
                f"{directory.path / name}: was changed since the export (it has {size} bytes, and had {entry.size}); "
                "export again"
            )
    if total > MOST_BYTES:
        raise BlrcError(f"{directory.path}: its files have {total} bytes, at most {MOST_BYTES} are read")


def _read(directory: Directory, name: str, entry: Listed, keep: bool) -> bytes:
    size = directory.size(name) if entry.size is None else entry.size
    content, sha256 = directory.read(name, size, keep)
    if sha256 != entry.sha256:
        raise BlrcError(f"{directory.path / name}: was changed since the export; export again")
    return content

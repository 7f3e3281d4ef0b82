"""The manifest, ``<name>.manifest.json``: what an exported folder is, with the SHA-256 of every file in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blrc.errors import BlrcError
from blrc.store.journal import OWN, interrupted, read_journal

FORMAT = 1
SUFFIX = ".manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What was exported.

    Attributes:
        name: prefix of all files and symbols.
        digest: of the program.
        version: of blrc.
        members: one description each.
        settings: the input's encoding and how the norms were calibrated.
        targets: for each target what it says of itself (C: ABI, arena, kernels and bytes of each layer...).
        files: SHA-256 by name, of every file but the manifest.
    """

    name: str
    digest: str
    version: str
    members: tuple[str, ...]
    settings: Mapping[str, Any]
    targets: Mapping[str, Any]
    files: Mapping[str, str]

    def changed_files(self, folder: Path) -> Iterator[str]:
        """A sentence for every file that is missing or is not as it was written."""
        for name, sha in self.files.items():
            try:
                content = (folder / name).read_bytes()
            except OSError as error:
                yield f"{folder / name}: cannot be read ({error.strerror or error}); export again"
                continue
            if hashlib.sha256(content).hexdigest() != sha:
                yield f"{folder / name}: was changed since the export; export again"


def to_bytes(manifest: Manifest) -> bytes:
    """The file's content: JSON with sorted keys."""
    plain = {
        "format": FORMAT,
        "name": manifest.name,
        "digest": manifest.digest,
        "blrc": manifest.version,
        "members": list(manifest.members),
        "settings": manifest.settings,
        "targets": manifest.targets,
        "files": manifest.files,
    }
    return (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode()


def sha256s(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an exported folder.

    Raises:
        BlrcError: no such folder, an interrupted export, no or several manifests, damaged, or written by a newer blrc.
    """
    if not _is_dir(folder):
        if folder.is_file():
            raise BlrcError(f"{folder}: is a file; give the folder that holds the export")
        raise BlrcError(f"{folder}: no such folder; export a model first: blrc export model.pt --target c -o {folder}")
    if (message := interrupted(folder)) is not None:
        raise BlrcError(message)
    found = sorted(folder.glob(f"*{SUFFIX}"))
    if len(found) != 1:
        many = "holds several manifests" if found else f"is no export (it has no *{SUFFIX})"
        raise BlrcError(f"{folder}: {many}; give a folder written by 'blrc export'")
    path = found[0]
    try:
        plain = json.loads(path.read_bytes())
        _check_types(plain)
        if plain["format"] != FORMAT:
            raise BlrcError(f"{path}: manifest format {plain['format']}, this blrc reads {FORMAT}; export again")
        return Manifest(
            plain["name"],
            plain["digest"],
            plain["blrc"],
            tuple(plain["members"]),
            plain["settings"],
            plain["targets"],
            plain["files"],
        )
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BlrcError(f"{path}: not a manifest, or damaged ({error!r}); export again") from None


def _is_dir(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError as error:
        raise BlrcError(f"{folder}: cannot read: {error.strerror or error}") from None


def _check_types(plain: Mapping[str, Any]) -> None:
    """Raise a `TypeError` where a hand-made manifest would break its readers."""
    for key, kind in {"name": str, "digest": str, "members": list, "targets": dict, "files": dict}.items():
        if not isinstance(plain[key], kind):
            raise TypeError(f"{key} is {plain[key]!r}")


def previous_files(folder: Path, force: bool) -> Collection[str] | None:
    """Names of the files of the export in `folder` that a new one may replace; None where there is no folder.

    Raises:
        BlrcError: the folder exists and `force` is not given, an export into it was interrupted and `force` is not
            given, or it holds files but is no export.
    """
    try:
        if not folder.exists():
            return None
        if not folder.is_dir():
            raise BlrcError(f"{folder}: is a file, not a folder; choose another folder with -o")
        if (unfinished := read_journal(folder)) is not None and force:
            return unfinished.names
        if unfinished is None and all(path.name in OWN for path in folder.iterdir()):
            return ()
    except OSError as error:
        raise BlrcError(f"{folder}: cannot read: {error.strerror or error}; choose another folder with -o") from None
    if not force:
        if (message := interrupted(folder)) is not None:
            raise BlrcError(message)
        ours = next(folder.glob(f"*{SUFFIX}"), None) is not None
        remedy = ", or replace the export in it with --force (force=True)" if ours else ""
        raise BlrcError(f"{folder}: exists already; choose another folder with -o{remedy}")
    manifest = read_manifest(folder)
    return (*manifest.files, f"{manifest.name}{SUFFIX}")

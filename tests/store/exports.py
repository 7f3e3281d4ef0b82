"""Small folders with a manifest, as an export writes them, and what they look like afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from blrc.exports.door import previous_files
from blrc.exports.manifest import SUFFIX
from blrc.store.claim import claimed
from blrc.store.listing import Content

OLD = {
    "net.c": "old",
    "net.h": "same",
    "gone.c": "old",
    "cmake/net/a.txt": "old",
    "cmake/net/gone.txt": "old",
    "e/f": "",
}
NEW = {"net.c": "new", "net.h": "same", "fresh.c": "new", "cmake/net/a.txt": "new", "esp/net/b/c.txt": "new"}
FOREIGN = {"notes.txt": b"mine", "cmake/mine.txt": b"mine", "sub/deep/mine": b"mine"}


def with_manifest(files: Mapping[str, str], name: str = "net") -> dict[str, bytes]:
    """Return the files and a manifest that lists them: in the first format, which has nothing that these files lack."""
    content = {file: text.encode() for file, text in files.items()}
    listed = {file: hashlib.sha256(text).hexdigest() for file, text in content.items()}
    return {**content, f"{name}{SUFFIX}": json.dumps({"format": 1, "name": name, "files": listed}).encode()}


def described(files: Mapping[str, bytes]) -> dict[str, Content]:
    """Return what a journal says of files."""
    return {name: Content(len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items()}


def changed(folder: Path) -> list[str]:
    """Return the files of an export that are missing or have another SHA-256 than its manifest says."""
    (manifest,) = folder.glob(f"*{SUFFIX}")
    found = []
    for name, entry in json.loads(manifest.read_bytes())["files"].items():
        sha256 = entry if isinstance(entry, str) else entry["sha256"]
        if not (folder / name).is_file() or hashlib.sha256((folder / name).read_bytes()).hexdigest() != sha256:
            found.append(name)
    return found


def write(folder: Path, files: Mapping[str, bytes], force: bool = True) -> None:
    """Write an export as `blrc.export` does."""
    with claimed(folder) as place:
        place.write(files, previous_files(folder, force))


def write_old(folder: Path) -> None:
    """Make a folder with the old export, and with files that are not blrc's."""
    write(folder, with_manifest(OLD))
    for name, content in FOREIGN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return all files below with their contents, and all folders (None), hidden ones too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def expected(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
    """Return the tree of a folder that holds these files and nothing else."""
    folders = {parent.as_posix() for name in files for parent in Path(name).parents if parent != Path()}
    return {**dict.fromkeys(folders), **files}

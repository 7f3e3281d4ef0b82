"""Manifests of forgers: those that fit the files of a folder, whatever these hold."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from blrc.exports.manifest import SUFFIX


def plain(folder: Path) -> dict[str, Any]:
    """What the manifest of a folder says."""
    [path] = folder.glob(f"*{SUFFIX}")
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def relist(folder: Path, *names: str, **changes: Any) -> None:
    """Write the manifest anew: with changed fields, and with size and SHA-256 of these files as they are now."""
    [path] = folder.glob(f"*{SUFFIX}")
    whole = {**plain(folder), **changes}
    for name in names:
        content = (folder / name).read_bytes()
        whole["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(whole))

"""Report what an export takes: bytes of its files, and of flash, RAM and stack if it has C."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blrc.exports.manifest import Manifest


def to_plain(folder: Path, manifest: Manifest) -> dict[str, Any]:
    """Return what was written, and its sizes, as plain data for JSON.

    ``flash_bytes``, ``ram_bytes`` and ``stack_bytes`` are upper bounds for a Cortex-M. They are null for CPUs of hosts,
    and if there is no C. ``flash_limit`` and ``ram_limit`` are the budget, which the export fits, or null.
    """
    c: dict[str, Any] = manifest.targets.get("c", {})
    memory: dict[str, Any] = c.get("memory") or {}
    return {
        "folder": str(folder),
        "name": manifest.name,
        "program": manifest.digest,
        "targets": list(manifest.targets),
        "members": list(manifest.members),
        "file_bytes": sum(entry.size or 0 for entry in manifest.files.values()),
        "files": len(manifest.files) + 1,  # the manifest itself
        "table_bytes": c.get("table_bytes"),
        "arena_bytes": c["arena"]["bytes"] if c else None,
        **{name: memory.get(name) for name in ("flash_bytes", "ram_bytes", "stack_bytes", "bound_for")},
        "flash_limit": manifest.options.get("flash"),
        "ram_limit": manifest.options.get("ram"),
    }


def sizes_of(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield lines for a person: what was written, then flash, RAM and stack, and whether they fit the budget."""
    sizes = to_plain(folder, manifest)
    members = len(manifest.members)
    what = "one network" if members == 1 else f"{members} networks"
    yield f"{folder}: {', '.join(manifest.targets)} of {manifest.name}, {what}, program {manifest.digest}"
    yield f"files: {sizes['files']}, {sizes['file_bytes']:,} bytes"
    if sizes["flash_bytes"] is not None:
        yield f"flash: {sizes['flash_bytes']:,} bytes{_of(sizes['flash_limit'])}"
        yield (
            f"RAM:   {sizes['ram_bytes']:,} bytes{_of(sizes['ram_limit'])}, "
            f"among them an arena of {sizes['arena_bytes']:,} and {sizes['stack_bytes']:,} of stack"
        )
        yield f"       (upper bounds, measured with {sizes['bound_for']})"
    elif sizes["table_bytes"] is not None:
        yield f"tables: {sizes['table_bytes']:,} bytes"
        yield f"arena:  {sizes['arena_bytes']:,} bytes"


def _of(limit: int | None) -> str:
    return "" if limit is None else f" of {limit:,}, fits"

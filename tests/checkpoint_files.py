"""Checkpoint files as someone else might write them: sealed by hand, edited, malicious."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SEAL = b"blrc sha256 "


def sealed(archive: bytes) -> bytes:
    """The seal, written out: the digest of the archive as the zip's comment."""
    body = archive[:-2] + (len(SEAL) + 64).to_bytes(2, "little")
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()


def content_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(path, weights_only=True)
    return content


def rewrite(path: Path, content: Any) -> Path:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    path.write_bytes(sealed(buffer.getvalue()))
    return path


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def evil_files(folder: Path, marker: Path) -> dict[str, bytes]:
    archive = io.BytesIO()
    torch.save({"format": "blrc-checkpoint", "version": 1, "nodes": Evil(marker)}, archive)
    legacy = io.BytesIO()
    torch.save(
        {"format": "blrc-checkpoint", "version": 1, "nodes": Evil(marker)}, legacy, _use_new_zipfile_serialization=False
    )
    return {"sealed": sealed(archive.getvalue()), "zip": archive.getvalue(), "pickle": legacy.getvalue()}


def tensor(key: str, value: torch.Tensor | None) -> Callable[[dict[str, Any]], Any]:
    def changed(content: dict[str, Any]) -> Any:
        tensors = {**content["tensors"], key: value}
        return {**content, "tensors": {k: v for k, v in tensors.items() if v is not None}}

    return changed

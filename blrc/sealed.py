"""Files of tensors and plain data with a seal.

A torch zip (it loads under ``weights_only=True``) that ends in a zip comment with the SHA-256 of everything before it.
It is checked before anything is unpickled, so a damaged file is refused as a whole.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from blrc.advice import files
from blrc.errors import BlrcError
from blrc.files import write_atomically

_SEAL = b"blrc sha256 "
_SEAL_BYTES = len(_SEAL) + 64


def write(content: Mapping[str, Any], path: Path) -> None:
    """Write plain data and tensors (atomically); the same content gives the same bytes."""
    buffer = io.BytesIO()
    torch.save(_interned(content), buffer)
    write_atomically(path, _seal(buffer.getvalue()))


def read(path: Path) -> Mapping[str, Any]:
    """The content of a file that `write` made. Nothing in it is executed.

    Raises:
        BlrcError: no such file, not one of blrc's, truncated, damaged, or with more in it than plain data.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BlrcError(
            f"{path}: no such file; give the path of a checkpoint written by blrc.save() or 'blrc train'"
        ) from None
    except OSError as error:
        folder = "; give the checkpoint's file, not a folder" if isinstance(error, IsADirectoryError) else ""
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}{folder}") from None
    body, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
    if not raw.startswith(b"PK\x03\x04"):
        raise BlrcError(f"{path}: not a blrc checkpoint; {files.advice(path)}")
    if not seal.startswith(_SEAL):
        raise BlrcError(f"{path}: not a blrc checkpoint, or truncated; {files.advice(path)}")
    if seal[len(_SEAL) :] != hashlib.sha256(body).hexdigest().encode():
        raise BlrcError(f"{path}: damaged (its SHA-256 does not match its contents); copy it again")
    try:
        content = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:  # a sealed file can hold anything, on which zip readers and unpicklers raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BlrcError(f"{path}: refused: not plain tensors and data ({reason}); nothing in it was executed") from None
    return content if isinstance(content, dict) else {}


def _interned(content: Any) -> Any:
    """The same plain data with equal strings being one object.

    Pickle writes an object that it has met before as a reference, so bytes would depend on which strings happen to be
    shared; now the same network gives the same file, whether it was just trained or loaded.
    """
    if isinstance(content, dict):
        return {_interned(key): _interned(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_interned(value) for value in content]
    return sys.intern(str(content)) if isinstance(content, str) else content


def _seal(archive: bytes) -> bytes:
    """Append the SHA-256 as the zip's comment; its last two bytes are the comment's length (so far 0)."""
    if archive[-2:] != b"\0\0":
        raise RuntimeError("torch.save wrote a zip with a comment, which blrc.checkpoint does not expect")
    body = archive[:-2] + _SEAL_BYTES.to_bytes(2, "little")
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode()

"""Files of tensors and plain data with a seal.

A torch zip (it loads under ``weights_only=True``) that ends in a zip comment with the SHA-256 of everything before it.
It is checked before anything is unpickled, so a damaged file is refused as a whole.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from blrc.errors import BlrcError

SEAL = b"blrc sha256 "
SEAL_BYTES = len(SEAL) + 64


def read(path: Path) -> Mapping[str, Any]:
    """The content of a file that `blrc.saving.write_sealed` made. Nothing in it is executed.

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
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    body, seal = raw[:-SEAL_BYTES], raw[-SEAL_BYTES:]
    if not raw.startswith(b"PK\x03\x04"):
        raise BlrcError(f"{path}: not a blrc checkpoint; make one with blrc.save() or 'blrc train'")
    if not seal.startswith(SEAL):
        raise BlrcError(f"{path}: not a blrc checkpoint, or truncated; copy it again, or write it with blrc.save()")
    if seal[len(SEAL) :] != hashlib.sha256(body).hexdigest().encode():
        raise BlrcError(f"{path}: damaged (its SHA-256 does not match its contents); copy it again")
    try:
        content = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:  # a sealed file can hold anything, on which zip readers and unpicklers raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BlrcError(f"{path}: refused: not plain tensors and data ({reason}); nothing in it was executed") from None
    return content if isinstance(content, dict) else {}

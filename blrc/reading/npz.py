"""NumPy arrays as one file, the same bytes on every machine: NumPy's own zip differs between systems and versions."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.reading import arrays, inflate, regular

_UNIX = 3


def to_bytes(named: Mapping[str, NDArray[Any]]) -> bytes:
    """An uncompressed npz file that `numpy.load` reads without pickle; arrays in the order given, little-endian."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in named.items():
            content = io.BytesIO()
            little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call, unused-ignore]
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = _UNIX
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content.getvalue())
    return buffer.getvalue()


def from_bytes(content: bytes, most: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file.

    Args:
        most: bytes that all arrays together may have; by default what a compressed file of this size may.

    Raises:
        ValueError: it is damaged, or holds something else than arrays of numbers, or too much.
    """
    return arrays.load(io.BytesIO(content), inflate.limit(len(content)) if most is None else most)


def read(path: Path, compressed: bool = False) -> dict[str, NDArray[Any]]:
    """The arrays of the npz file at `path`.

    Args:
        compressed: whether its arrays may have more bytes than the file, as `blrc.reading.inflate.limit` says.

    Raises:
        OSError: the file cannot be read, or is no regular file.
        ValueError: as for `from_bytes`.
    """
    with regular.opened(path) as (file, size):
        if size > regular.LARGEST:
            raise ValueError(f"it has {size:,} bytes; at most {regular.LARGEST:,} are read")
        return arrays.load(file, inflate.limit(size) if compressed else size)

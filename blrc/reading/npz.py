"""Write NumPy arrays as one file with the same bytes on every machine, and read such files.

The zip that NumPy writes differs between systems and versions.
"""

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
    """Return an uncompressed npz file that `numpy.load` reads without pickle.

    The arrays are little-endian and keep the order in which they are given.
    """
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
    """Return the arrays of an npz file by name.

    Args:
        most: the largest number of bytes that all arrays together may have; by default the limit of
            `blrc.reading.inflate.limit` for a compressed file of this size.

    Raises:
        ValueError: the file is damaged, holds something other than arrays of numbers, or holds too much.
    """
    return arrays.load(io.BytesIO(content), inflate.limit(len(content)) if most is None else most)


def read(path: Path, compressed: bool = False) -> dict[str, NDArray[Any]]:
    """Return the arrays of the npz file at `path` by name.

    Args:
        compressed: whether the arrays may have more bytes than the file, up to `blrc.reading.inflate.limit`.

    Raises:
        OSError: the file cannot be read, or is no regular file.
        ValueError: as for `from_bytes`, or the file is too large.
    """
    with regular.opened(path) as (file, size):
        if size > regular.LARGEST:
            raise ValueError(f"it has {size:,} bytes; at most {regular.LARGEST:,} are read")
        return arrays.load(file, inflate.limit(size) if compressed else size)

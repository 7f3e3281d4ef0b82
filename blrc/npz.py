"""NumPy arrays as one file, the same bytes on every machine: NumPy's own zip differs between systems and versions."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_UNIX = 3


def to_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An uncompressed npz file that `numpy.load` reads without pickle; arrays in the order given, little-endian."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call, unused-ignore]
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = _UNIX
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content.getvalue())
    return buffer.getvalue()


def from_bytes(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file. Damaged bytes raise almost anything: callers catch `Exception`."""
    # From memory: np.load leaves a file open when it is no zip archive.
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}

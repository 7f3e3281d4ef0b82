"""MNIST from standard files: read where they lie, or download to a cache with checksums, as torchvision does.

A data folder holds the four IDX files, gzip-compressed (``.gz``) or not, itself or in a subfolder ``mnist``,
``MNIST/raw`` or ``raw``. Pixels stay uint8: standardisation belongs to `blrc.encode`.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.files import cache_folder, expect_folder, write_atomically

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
# MD5 of the uncompressed files: those of the .gz files differ between mirrors
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SUBFOLDERS = ("", "mnist", "MNIST/raw", "raw")
VALIDATION = 5_000
TIMEOUT_S = 60.0
_UINT8 = 0x08  # the IDX code of unsigned bytes

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Dataset:
    """Labelled images.

    Attributes:
        images: ``(N, C, H, W)``; uint8, or int8 where they are whitened.
        labels: uint8 ``(N,)``.
    """

    images: NDArray[Any]
    labels: Bytes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, which: slice) -> Dataset:
        return Dataset(self.images[which], self.labels[which])


def mnist(folder: str | Path | None = None, train: bool = True) -> Dataset:
    """MNIST's 60,000 training or 10,000 test images, ``(N, 1, 28, 28)``.

    Args:
        folder: where the IDX files lie; by default the cache, to which they are downloaded when absent.

    Raises:
        BlrcError: a file is missing (names all that was looked for), corrupted or of another format; no mirror answers.
    """
    part = "train" if train else "t10k"
    images = _mnist_file(f"{part}-images-idx3-ubyte", folder, ndim=3)
    labels = _mnist_file(f"{part}-labels-idx1-ubyte", folder, ndim=1)
    if len(images) != len(labels):
        raise BlrcError(
            f"MNIST {part}: {len(images)} images but {len(labels)} labels: the files do not belong together"
        )
    if images.shape[1:] != (28, 28):
        raise BlrcError(f"MNIST {part}: images of {images.shape[1]}x{images.shape[2]} pixels, expected 28x28")
    return Dataset(images[:, None], labels)


def split(dataset: Dataset, validation: int = VALIDATION) -> tuple[Dataset, Dataset]:
    """Training set and validation set: the last `validation` samples, as in the paper (section 5.1)."""
    if not 0 < validation < len(dataset):
        raise BlrcError(f"cannot take {validation} validation samples from {len(dataset)}")
    return dataset[: len(dataset) - validation], dataset[len(dataset) - validation :]


def read_idx(path: str | Path) -> Bytes:
    """An IDX file of unsigned bytes, gzip-compressed or not (told by its first bytes, not its name).

    Format: two zero bytes, a type byte (8 = unsigned byte), the number of dimensions, each dimension as a big-endian
    32-bit number, then the values, last dimension fastest.

    Raises:
        BlrcError: unreadable, damaged compression, wrong magic, or more or fewer bytes than the header says.
    """
    return _parse_idx(_read(Path(path)), str(path))


def _mnist_file(name: str, folder: str | Path | None, ndim: int) -> Bytes:
    if folder is None:
        path = cache_folder("mnist") / name
        if not path.exists():
            download(name, path)
    else:
        path = _find(name, Path(folder))
    data = _read(path)
    array = _parse_idx(data, str(path))
    if array.ndim != ndim:
        raise BlrcError(f"{path}: {array.ndim} dimensions, expected {ndim}: is this another file under MNIST's name?")
    if folder is None and hashlib.md5(data, usedforsecurity=False).hexdigest() != MD5[name]:
        raise BlrcError(f"{path}: checksum mismatch, the cached file is damaged: delete it and run again")
    return array


def _find(name: str, folder: Path) -> Path:
    expect_folder(folder, "MNIST's files")
    candidates = [folder / sub / (name + ending) for sub in SUBFOLDERS for ending in ("", ".gz")]
    for path in candidates:
        if path.is_file():
            return path
    looked = "\n  ".join(map(str, candidates))
    raise BlrcError(f"no MNIST file {name} in {folder}; looked for\n  {looked}")


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise BlrcError(f"{path}: cannot be read ({error}): the file is damaged or incomplete") from None


def _parse_idx(data: bytes, name: str) -> Bytes:
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UINT8 or data[3] == 0:
        raise BlrcError(f"{name}: not an IDX file of unsigned bytes (begins with {data[:4].hex() or 'nothing'})")
    ndim = data[3]
    header = 4 + 4 * ndim
    if len(data) < header:
        raise BlrcError(f"{name}: {len(data)} bytes, shorter than its header: the file is incomplete")
    shape = tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim))
    expected = header + int(np.prod(shape, dtype=object))
    if len(data) != expected:
        raise BlrcError(f"{name}: {len(data)} bytes, but its header says {expected}: the file is damaged or incomplete")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def download(name: str, path: Path) -> None:
    """Fetch one MNIST file from the first mirror that has it, check its MD5 and put it at `path`, uncompressed.

    Raises:
        BlrcError: no mirror gave the right bytes; each one's failure is listed.
    """
    failures = []
    for mirror in MIRRORS:
        url = f"{mirror}{name}.gz"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                data = gzip.decompress(answer.read())
        except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:  # URLError is an OSError
            failures.append(f"{url}: {error}")
            continue
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != MD5[name]:
            failures.append(f"{url}: wrong checksum")
            continue
        write_atomically(path, data)
        return
    raise BlrcError("cannot download MNIST; give a folder that has it (--data DIR). Tried\n  " + "\n  ".join(failures))

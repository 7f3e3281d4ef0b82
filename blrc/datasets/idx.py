"""Read MNIST from its standard files where they lie, or download it to a cache with checksums, as torchvision does.

A data folder holds the four IDX files, gzip-compressed (``.gz``) or not, itself or in a subfolder ``mnist``,
``MNIST/raw`` or ``raw``. Pixels stay uint8: standardisation belongs to `blrc.net.encoding`.
"""

from __future__ import annotations

import hashlib
import http.client
import math
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.display import Brief
from blrc.errors import BlrcError
from blrc.reading import inflate, regular
from blrc.store.places import cache_folder, expect_folder, fill_cache

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
MOST_VALUES = 1 << 40  # no file has so many, and NumPy counts further
MOST_DIMENSIONS = 8  # of an IDX file; images have three
MOST_DOWNLOADED = 64 << 20  # bytes of a file of MNIST, inflated: the largest has 47 million
GZIP = b"\x1f\x8b"  # how a gzip file begins
_UINT8 = 0x08  # the IDX code of unsigned bytes
_LONGEST_HEADER = 4 + 4 * MOST_DIMENSIONS

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, repr=False)
class Dataset(Brief):
    """Hold labelled images.

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
    """Return MNIST's 60,000 training or 10,000 test images, ``(N, 1, 28, 28)``.

    Args:
        folder: where the IDX files lie; by default the cache, to which they are downloaded when absent.

    Raises:
        BlrcError: a file is missing (the message names all that was looked for), corrupted or of another format, or no
            mirror answers.
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
    """Split a data set into training and validation set, the last `validation` samples (paper, section 5.1)."""
    if not 0 < validation < len(dataset):
        raise BlrcError(f"cannot take {validation} validation samples from {len(dataset)}")
    return dataset[: len(dataset) - validation], dataset[len(dataset) - validation :]


def read_idx(path: str | Path) -> Bytes:
    """Read an IDX file of unsigned bytes, gzip-compressed or not (told by its first bytes, not its name).

    Format: two zero bytes, a type byte (8 = unsigned byte), the number of dimensions, each dimension as a big-endian
    32-bit number, then the values, last dimension fastest.

    Raises:
        BlrcError: the file is unreadable, its compression is damaged, its magic is wrong, or it has more or fewer bytes
            than the header says.
    """
    return _array(_read(Path(path)))


def _mnist_file(name: str, folder: str | Path | None, ndim: int) -> Bytes:
    if folder is None:
        path = cache_folder("mnist") / name
        if not os.path.isfile(path):  # false, too, for a name that no file can have  # noqa: PTH113
            download(name, path)
    else:
        path = _find(name, Path(folder))
    data = _read(path, ndim)
    if folder is None and hashlib.md5(data, usedforsecurity=False).hexdigest() != MD5[name]:
        raise BlrcError(f"{path}: checksum mismatch, the cached file is damaged: delete it and run again")
    return _array(data)


def _find(name: str, folder: Path) -> Path:
    expect_folder(folder, "MNIST's files")
    candidates = [folder / sub / (name + ending) for sub in SUBFOLDERS for ending in ("", ".gz")]
    for path in candidates:
        if path.is_file():
            return path
    looked = ", ".join(map(str, candidates))
    raise BlrcError(f"no MNIST file {name} in {folder}; looked for {looked}")


def _read(path: Path, ndim: int | None = None) -> bytes:
    """Return the bytes of an IDX file, inflated, and refuse a file with another size than its header says.

    Args:
        ndim: the number of dimensions that it has to have.
    """
    try:
        with regular.opened(path) as (file, size):
            start = file.read(_LONGEST_HEADER)
            file.seek(0)
            if start[:2] != GZIP:
                expected = _size(start, ndim)
                if size != expected:
                    raise ValueError(f"{size:,} bytes, but its header says {expected:,}")
                return file.read(size)
            if size > inflate.FREE:
                raise ValueError(f"{size:,} bytes; at most {inflate.FREE:,} are read")
            data = file.read(size)
        expected = _size(inflate.first_bytes(data, _LONGEST_HEADER), ndim)
        if expected > inflate.limit(size):
            raise ValueError(f"its header says {expected:,} bytes; at most {inflate.limit(size):,} are read")
        inflated = inflate.gunzip(data, expected)
        if len(inflated) != expected:
            raise ValueError(f"{len(inflated):,} bytes, but its header says {expected:,}")
        return inflated
    except OSError as error:
        raise BlrcError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise BlrcError(f"{path}: {error}: the file is damaged or incomplete, or no IDX file") from None


def _size(start: bytes, ndim: int | None) -> int:
    """Return the size in bytes of an IDX file of unsigned bytes, as its header says."""
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] != _UINT8:
        raise ValueError(f"not an IDX file of unsigned bytes (begins with {start[:4].hex() or 'nothing'})")
    if not 1 <= start[3] <= MOST_DIMENSIONS or (ndim is not None and start[3] != ndim):
        wanted = f"expected {ndim}: is this another file under MNIST's name?" if ndim else f"{MOST_DIMENSIONS} at most"
        raise ValueError(f"{start[3]} dimensions, {wanted}")
    if len(start) < 4 + 4 * start[3]:
        raise ValueError(f"{len(start)} bytes, shorter than its header")
    shape = _shape(start)
    if math.prod(max(1, n) for n in shape) > MOST_VALUES:  # also where another dimension is 0
        raise ValueError(f"its header says {' x '.join(map(str, shape))} values")
    return 4 + 4 * start[3] + math.prod(shape)


def _shape(data: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3]))


def _array(data: bytes) -> Bytes:
    """Return the values of an IDX file whose size is that of its header, in an array that may be written, for torch."""
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(_shape(data)).copy()


def download(name: str, path: Path) -> None:
    """Fetch one MNIST file from the first mirror that has it, check its MD5 and put it at `path`, uncompressed.

    Raises:
        BlrcError: no mirror gave the right bytes; the message lists each one's failure.
    """
    failures = []
    for mirror in MIRRORS:
        url = f"{mirror}{name}.gz"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                data = inflate.gunzip(answer.read(MOST_DOWNLOADED + 1)[:MOST_DOWNLOADED], MOST_DOWNLOADED)
        except (OSError, http.client.HTTPException, ValueError) as error:  # URLError is an OSError
            failures.append(f"{url}: {error}")
            continue
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != MD5[name]:
            failures.append(f"{url}: wrong checksum")
            continue
        fill_cache(path, data)
        return
    raise BlrcError("cannot download MNIST; give a folder that has it (--data DIR). Tried " + "; ".join(failures))

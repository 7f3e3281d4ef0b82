"""Read CIFAR-10 from its standard files where they lie, or download it to a cache with a checksum, as torchvision does.

A data folder holds ``cifar-10-batches-bin`` (the binary version) or ``cifar-10-batches-py`` (the Python version), or is
one of them, or has one in a subfolder ``cifar10``. Pixels stay uint8: standardisation belongs to `blrc.net.encoding`.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import pickle
import pickletools
import tarfile
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blrc.datasets.idx import Dataset
from blrc.errors import BlrcError
from blrc.reading import regular
from blrc.store.places import cache_folder, expect_folder, fill_cache

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
SUMS = "SHA256SUMS"  # of the cached files, written when the archive's own checksum was right
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
SUBFOLDERS = ("", "cifar10", "CIFAR10")
SHAPE = (3, 32, 32)
CLASSES = 10
TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
TIMEOUT_S = 60.0
MOST_BYTES = 64 << 20  # of a file; a batch has 31 million
MOST_DOWNLOADED = 256 << 20  # bytes of the archive; it has 170 million
MOST_STEPS = 500_000  # of a pickled batch; CIFAR-10's have some 50,000: its labels and its images' names
MOST_CALLS = 16  # of functions; they have 2
_CALLS = ("REDUCE", "BUILD", "OBJ", "INST", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4")
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_PIXELS = int(np.prod(SHAPE))


def cifar10(folder: str | Path | None = None, train: bool = True) -> Dataset:
    """Return CIFAR-10's 50,000 training or 10,000 test images, ``(N, 3, 32, 32)`` in the order of the files.

    Args:
        folder: where the files lie; by default the cache, to which they are downloaded when absent.

    Raises:
        BlrcError: a file is missing (the message names all that was looked for), damaged or of another format, or the
            download fails.
    """
    place = _cached() if folder is None else _find(Path(folder))
    read, ending = (_read_binary, ".bin") if _is_binary(place) else (_read_python, "")
    parts = [read(place / f"{name}{ending}") for name in (TRAINING if train else TEST)]
    return Dataset(np.concatenate([p.images for p in parts]), np.concatenate([p.labels for p in parts]))


def _is_binary(folder: Path) -> bool:
    return (folder / f"{TEST[0]}.bin").is_file()


def _find(folder: Path) -> Path:
    expect_folder(folder, "CIFAR-10's files, binary or Python version")
    candidates = [folder / sub / name for sub in SUBFOLDERS for name in (BINARY, PYTHON)]
    for place in (folder, *candidates):
        if _is_binary(place) or (place / TEST[0]).is_file():
            return place
    looked = ", ".join(str(place / name) for place in (folder, *candidates) for name in (f"{TEST[0]}.bin", TEST[0]))
    raise BlrcError(f"no CIFAR-10 files in {folder}; looked for {looked}")


def _read(path: Path) -> bytes:
    try:
        return regular.read(path, MOST_BYTES)
    except FileNotFoundError as error:
        raise BlrcError(f"{path}: cannot be read ({error.strerror}): a file of CIFAR-10 is missing") from None
    except OSError as error:
        raise BlrcError(f"{path}: cannot be read ({error.strerror or error})") from None


def _read_binary(path: Path) -> Dataset:
    """Read records of one label byte and 3,072 pixels: channel, row, column, the last fastest."""
    data = _read(path)
    if not data or len(data) % (1 + _PIXELS):
        raise BlrcError(f"{path}: {len(data)} bytes are no whole number of CIFAR-10's records of {1 + _PIXELS}")
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + _PIXELS)
    return _dataset(path, records[:, 1:], records[:, 0].tolist())


def _read_python(path: Path) -> Dataset:
    """Read a pickled dictionary with ``data``, uint8 ``(N, 3072)``, and ``labels``, a list of N whole numbers."""
    try:
        data = _read(path)
        _check_pickle(data)
        content = _Plain(io.BytesIO(data), encoding="bytes").load()
        pixels, labels = (_plain(content[name]) for name in (b"data", b"labels"))
    except BlrcError:
        raise
    except Exception as error:  # a damaged pickle raises almost anything
        raise BlrcError(f"{path}: not a batch of CIFAR-10's Python version ({error!r})") from None
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise BlrcError(f"{path}: not a batch of CIFAR-10's Python version (data is no uint8 array (N, {_PIXELS}))")
    if not isinstance(labels, list) or len(labels) != len(pixels) or any(type(label) is not int for label in labels):
        raise BlrcError(
            f"{path}: not a batch of CIFAR-10's Python version (labels is no list of {len(pixels)} whole numbers)"
        )
    return _dataset(path, pixels, labels)


def _check_pickle(data: bytes) -> None:
    """Refuse a pickle that would ask for far more memory than its size, by too many steps, calls or memo places."""
    calls = 0
    for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        calls += opcode.name in _CALLS
        if steps > MOST_STEPS or calls > MOST_CALLS:
            raise pickle.UnpicklingError("it has more steps than such a batch needs")
        if opcode.name in _PUTS and not 0 <= int(argument or 0) <= MOST_STEPS:
            raise pickle.UnpicklingError("it remembers something at a place far away")


class _Plain(pickle.Unpickler):
    """Load pickles of plain data and uint8 arrays, and refuse any other type that a pickle names.

    A pickle never reaches NumPy's own types, because some of their arguments are addresses. A stand-in reads arrays.
    """

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy", "ndarray"): None,
            ("numpy", "dtype"): lambda kind, *_: _Uint8(kind),
            ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # bytes, in pickles of protocol 2
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return known[module, name]


class _Uint8:
    """Stand in for the type of an array, which must be uint8."""

    def __init__(self, kind: Any) -> None:
        if kind not in (b"u1", "u1", b"|u1", "|u1"):
            raise pickle.UnpicklingError(f"it has an array of type {kind!r}")

    def __setstate__(self, state: Any) -> None:
        """Ignore byte order, fields and flags, which a byte does not have."""


class _Array:
    """Stand in for an array until its values have come, and hold them then."""

    values: Any = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, columns_first, data = state
        if not (isinstance(kind, _Uint8) and isinstance(data, bytes) and isinstance(shape, tuple)):
            raise pickle.UnpicklingError("it has an array that is not of bytes")
        self.values = np.frombuffer(data, np.uint8).reshape(shape, order="F" if columns_first else "C")


def _plain(value: Any) -> Any:
    """Return the array that a stand-in has read (as a list if it has one dimension), and any other value as it is."""
    if not isinstance(value, _Array):
        return value
    return value.values.tolist() if value.values.ndim == 1 else value.values


def _dataset(path: Path, pixels: Any, labels: Sequence[int]) -> Dataset:
    for record, label in enumerate(labels):
        if not 0 <= label < CLASSES:
            raise BlrcError(f"{path}: label {label} of record {record}: the file is damaged, or not CIFAR-10")
    return Dataset(np.ascontiguousarray(pixels).reshape(-1, *SHAPE), np.array(labels, np.uint8))


def _cached() -> Path:
    """Return the cache's folder, filled, and check that its files still have the checksums of the download."""
    folder = cache_folder("cifar10") / BINARY
    names = [f"{name}.bin" for name in (*TRAINING, *TEST)]
    if not all((folder / name).is_file() for name in (*names, SUMS)):
        _download(folder, names)
    known = _read(folder / SUMS).decode(errors="replace").splitlines()
    for name in names:
        if _sum_line(name, _read(folder / name)) not in known:
            raise BlrcError(
                f"{folder / name}: checksum mismatch, the cached file is damaged: delete the folder and run again"
            )
    return folder


def _sum_line(name: str, content: bytes) -> str:
    """Return the checksum of a file as a line of sha256sum."""
    return f"{hashlib.sha256(content).hexdigest()}  {name}"


def _download(folder: Path, names: Sequence[str]) -> None:
    hint = "give a folder that has CIFAR-10 (--data DIR)"
    try:
        with urllib.request.urlopen(URL, timeout=TIMEOUT_S) as answer:
            content = answer.read(MOST_DOWNLOADED)
    except (OSError, http.client.HTTPException) as error:
        raise BlrcError(f"cannot download {URL} ({error}); {hint}") from None
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != MD5:
        raise BlrcError(f"{URL}: wrong checksum; {hint}")
    sums = []
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for name in names:
                member = archive.extractfile(f"{BINARY}/{name}")
                if member is None:
                    raise KeyError(name)
                data = member.read(MOST_BYTES)
                fill_cache(folder / name, data)
                sums.append(_sum_line(name, data))
        fill_cache(folder / SUMS, "".join(f"{line}\n" for line in sums).encode())
    except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise BlrcError(f"{URL}: no archive of CIFAR-10 ({error}); {hint}") from None

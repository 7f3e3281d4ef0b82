"""Reading IDX files: what is right, and what each kind of wrong file says."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from blrc.datasets import idx as datasets
from blrc.errors import BlrcError

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(array: np.ndarray) -> bytes:
    """The IDX format, from its description."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, samples: int = 6, zipped: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (samples, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, samples, dtype=np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in ((TRAIN_IMAGES, images), (TRAIN_LABELS, labels)):
        data = idx(array)
        (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(data) if zipped else data)
    return images, labels


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)))
def test_every_shape_is_read(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("idx") / "x"
    path.write_bytes(idx(array))
    assert np.array_equal(datasets.read_idx(path), array)
    path.write_bytes(gzip.compress(idx(array)))
    assert np.array_equal(datasets.read_idx(path), array)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("sub", ["", "mnist", "MNIST/raw", "raw"])
def test_files_are_found_where_other_libraries_put_them(tmp_path: Path, sub: str, zipped: bool) -> None:
    images, labels = write_mnist(tmp_path / sub, zipped=zipped)
    data = datasets.mnist(tmp_path)
    assert data.images.shape == (6, 1, 28, 28) and data.images.dtype == np.uint8
    assert np.array_equal(data.images[:, 0], images) and np.array_equal(data.labels, labels)
    assert data.images.flags.writeable and data.labels.flags.writeable  # torch.from_numpy warns of others


def test_the_split_is_the_last_samples() -> None:
    data = datasets.Dataset(np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1), np.arange(10, dtype=np.uint8))
    training, validation = datasets.split(data, 3)
    assert training.labels.tolist() == list(range(7)) and validation.labels.tolist() == [7, 8, 9]
    assert training.images.ravel().tolist() == list(range(7))
    for count in (0, 10, 11):
        with pytest.raises(BlrcError, match=f"cannot take {count} validation samples from 10"):
            datasets.split(data, count)


def test_a_missing_file_names_all_that_was_looked_for(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / TRAIN_LABELS).unlink()
    with pytest.raises(BlrcError) as error:
        datasets.mnist(tmp_path)
    for place in (TRAIN_LABELS, f"{TRAIN_LABELS}.gz", f"mnist/{TRAIN_LABELS}", f"MNIST/raw/{TRAIN_LABELS}.gz"):
        assert str(tmp_path / place) in str(error.value)


GOOD = idx(np.zeros((6, 28, 28)))
ZIPPED = gzip.compress(GOOD, mtime=0)  # its bytes are names of tests, which all processes have to agree on


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file .*begins with nothing"),
        (b"PK\3\4 a zip", "not an IDX file .*begins with 504b0304"),
        (b"\0\0\x0d\3" + GOOD[4:], "not an IDX file of unsigned bytes"),  # floats
        (b"\0\0\x08\0", "0 dimensions, expected 3"),
        (GOOD[:10], "shorter than its header"),
        (GOOD[:-1], "4,719 bytes, but its header says 4,720"),
        (GOOD + b"\0", "4,721 bytes, but its header says 4,720"),
        (b"\0\0\x08\3" + b"\xff" * 12, "its header says"),  # a size that overflows 64 bits
        (ZIPPED[:-5], "damaged or incomplete"),
        (ZIPPED[:20] + bytes([ZIPPED[20] ^ 255]) + ZIPPED[21:], "damaged or incomplete"),
        (idx(np.zeros(6)), "1 dimensions, expected 3"),
        (idx(np.zeros((6, 27, 28))), "27x28 pixels, expected 28x28"),
        (idx(np.zeros((5, 28, 28))), "5 images but 6 labels"),
    ],
)
def test_each_kind_of_wrong_file_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    write_mnist(tmp_path)
    (tmp_path / TRAIN_IMAGES).write_bytes(content)
    with pytest.raises(BlrcError, match=message):
        datasets.mnist(tmp_path)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the only mirror, for small files with checksums of their own, and an empty cache."""
    folder = tmp_path / "mirror"
    write_mnist(folder, zipped=True)
    sums = {name: hashlib.md5(gzip.decompress((folder / f"{name}.gz").read_bytes())).hexdigest()
            for name in (TRAIN_IMAGES, TRAIN_LABELS)}  # fmt: skip
    monkeypatch.setattr(datasets, "MD5", sums)
    monkeypatch.setattr(datasets, "MIRRORS", (f"{(tmp_path / 'gone').as_uri()}/", f"{folder.as_uri()}/"))
    monkeypatch.setenv("BLRC_CACHE", str(tmp_path / "cache"))
    return folder


def test_download_goes_to_the_cache_from_the_first_mirror_that_answers(tmp_path: Path, mirror: Path) -> None:
    first = datasets.mnist()
    assert sorted(p.name for p in (tmp_path / "cache/mnist").iterdir()) == [TRAIN_IMAGES, TRAIN_LABELS]
    for file in mirror.iterdir():
        file.unlink()
    assert np.array_equal(datasets.mnist().images, first.images)  # now from the cache


def test_a_damaged_download_is_refused_and_not_kept(tmp_path: Path, mirror: Path) -> None:
    (mirror / f"{TRAIN_IMAGES}.gz").write_bytes(gzip.compress(idx(np.ones((6, 28, 28)))))
    with pytest.raises(BlrcError, match=r"--data DIR(.|\n)*gone(.|\n)*wrong checksum"):
        datasets.mnist()
    assert not (tmp_path / "cache/mnist" / TRAIN_IMAGES).exists()


def test_a_damaged_cache_is_refused(tmp_path: Path, mirror: Path) -> None:
    datasets.mnist()
    path = tmp_path / "cache/mnist" / TRAIN_IMAGES
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(BlrcError, match=r"checksum mismatch, .* delete it"):
        datasets.mnist()


def test_real_mnist(mnist_folder: Path) -> None:
    for train, count, label_counts in (
        (True, 60_000, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        (False, 10_000, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ):
        data = datasets.mnist(mnist_folder, train)
        assert data.images.shape == (count, 1, 28, 28)
        assert np.bincount(data.labels).tolist() == label_counts


def test_the_checksums_are_those_of_the_real_files(mnist_folder: Path) -> None:
    for name, expected in datasets.MD5.items():
        content: Any = gzip.decompress((mnist_folder / f"{name}.gz").read_bytes())
        assert hashlib.md5(content).hexdigest() == expected, name

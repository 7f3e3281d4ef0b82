"""Test data are read as they are, in device layout. (What does not fit is in test_bad_input.py.)"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blrc.datasets.labelled import load
from blrc.errors import BlrcError
from blrc.program.program import Value

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("value", "images"),
    [
        (Value("input", "uint8", (4, 5, 3)), RNG.integers(0, 256, (6, 3, 4, 5)).astype(np.uint8)),
        (Value("input", "int8", (4, 5, 3)), RNG.integers(-128, 128, (6, 3, 4, 5)).astype(np.int8)),
        (Value("input", "bits", (4, 5, 3)), RNG.integers(0, 2, (6, 3, 4, 5)).astype(np.uint8)),
        (Value("input", "uint8", (1, 1, 9)), RNG.integers(0, 256, (6, 9)).astype(np.uint8)),
        (Value("input", "bits", (1, 1, 9)), RNG.integers(0, 2, (6, 9)).astype(np.uint8)),
    ],
    ids=lambda x: f"{x.dtype} {x.shape}",
)
@pytest.mark.parametrize("label_type", [np.int64, np.uint8, np.int32])
def test_npz(value: Value, images: Any, label_type: Any, tmp_path: Path) -> None:
    labels = np.array([0, 4, 2, 1, 3, 0], label_type)
    np.savez(tmp_path / "d.npz", images=images, labels=labels)
    found = load(tmp_path / "d.npz", value, 5)
    assert found.raw.shape == (6, *value.shape)
    assert found.raw.dtype == (bool if value.dtype == "bits" else images.dtype)
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.labels, labels)
    for n, y, x, c in np.ndindex(found.raw.shape):
        assert found.raw[n, y, x, c] == (images[n, c, y, x] if images.ndim == 4 else images[n, c])


@pytest.mark.parametrize("shape", [(6, 2, 3, 4), (6, 3, 8), (6, 24)])
def test_an_npz_of_maps_for_a_network_of_flat_input(shape: tuple[int, ...], tmp_path: Path) -> None:
    images = RNG.integers(0, 256, shape).astype(np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=np.zeros(6, int))
    found = load(tmp_path / "d.npz", Value("input", "uint8", (1, 1, 24)), 5).raw
    assert found.shape == (6, 1, 1, 24)
    assert all(bytes(found[n]) == images[n].tobytes() for n in range(6))  # C, H, W, as torch.flatten gives it
    with pytest.raises(BlrcError, match=r"d\.npz: images are \(1, 1, 24\) .*takes \(1, 1, 25\)"):
        load(tmp_path / "d.npz", Value("input", "uint8", (1, 1, 25)), 5)


def test_bits_that_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", images=np.array([[0, 1], [1, 2]], np.uint8), labels=np.zeros(2, int))
    with pytest.raises(BlrcError, match=r"d\.npz: bits must be 0 or 1, found 2"):
        load(tmp_path / "d.npz", Value("input", "bits", (1, 1, 2)), 5)


def test_a_pickle_in_an_npz_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", images=np.array([{}], object), labels=np.zeros(1, int))
    with pytest.raises(
        BlrcError, match=r"d\.npz: cannot be read as \.npz \(array 'images': is of type object; only numbers are read\)"
    ):
        load(tmp_path / "d.npz", Value("input", "bits", (1, 1, 2)), 5)


def test_every_damage_of_an_npz_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez_compressed(path, images=np.zeros((2, 2), np.uint8), labels=np.zeros(2, int))
    good = path.read_bytes()
    refused = 0
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        try:
            found = load(path, Value("input", "uint8", (1, 1, 2)), 5)
        except BlrcError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ")
        else:
            # A date, a flag: what was read is what was written.
            assert not found.raw.any()
    assert refused > len(good) // 2


def test_a_folder_of_mnist(mnist_folder: Path) -> None:
    found = load(mnist_folder, Value("input", "uint8", (28, 28, 1)), 10)
    assert found.raw.shape == (10_000, 28, 28, 1)
    assert np.bincount(found.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    raw = gzip.decompress((mnist_folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert found.raw[7, 14, 11, 0] == raw[16 + 7 * 784 + 14 * 28 + 11]
    with pytest.raises(BlrcError, match="labels go from 0 to 9, but the network has 9 classes"):
        load(mnist_folder, Value("input", "uint8", (28, 28, 1)), 9)


def test_a_folder_for_a_network_of_flat_images(mnist_folder: Path) -> None:
    flat = load(mnist_folder, Value("input", "uint8", (1, 1, 784)), 10)
    maps = load(mnist_folder, Value("input", "uint8", (28, 28, 1)), 10)
    assert flat.raw.shape == (len(maps.raw), 1, 1, 784)
    assert np.array_equal(flat.raw.reshape(maps.raw.shape), maps.raw)  # one channel: H, W, C is C, H, W
    assert np.array_equal(flat.labels, maps.labels)


def test_a_folder_of_cifar10_and_its_validation_images(tmp_path: Path) -> None:
    records = RNG.integers(0, 10, (6, 1_100, 3073)).astype(np.uint8)
    for number, part in enumerate(records):
        name = f"data_batch_{number + 1}" if number < 5 else "test_batch"
        (tmp_path / f"{name}.bin").write_bytes(part.tobytes())
    value = Value("input", "uint8", (32, 32, 3))
    for part, found in (
        (records[5], load(tmp_path, value, 10)),
        (records[:5].reshape(-1, 3073)[-5_000:], load(tmp_path, value, 10, validation=True)),
    ):
        assert np.array_equal(found.labels, part[:, 0])
        assert found.raw[7, 30, 11, 2] == part[7, 1 + 2 * 1024 + 30 * 32 + 11] and found.raw.shape == (
            len(part),
            32,
            32,
            3,
        )
    with pytest.raises(BlrcError, match=r"read as MNIST or CIFAR-10, but this network takes uint8 \(9, 9, 1\)"):
        load(tmp_path, Value("input", "uint8", (9, 9, 1)), 10)

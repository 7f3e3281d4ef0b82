"""CIFAR-10's standard files: both versions, and what each kind of wrong file says."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blrc import cifar
from blrc.errors import BlrcError

NAMES = (*cifar.TRAINING, *cifar.TEST)


def batch(number: int, samples: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (samples, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, samples, dtype=np.uint8)


def record_bytes(images: np.ndarray, labels: np.ndarray) -> bytes:
    """The binary version, from its description: <label><1024 red><1024 green><1024 blue>."""
    return b"".join(
        bytes([label]) + b"".join(bytes(image[colour].ravel().tolist()) for colour in range(3))
        for image, label in zip(images, labels, strict=True)
    )


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(NAMES):
        (folder / f"{name}.bin").write_bytes(record_bytes(*batch(number)))


class Python2(pickle._Pickler):  # the one in Python, whose dispatch can be changed
    """As Python 2's cPickle did: byte strings are STRING opcodes, arrays come from numpy.core."""

    dispatch: Any = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def save_text(self, text: Any) -> None:
        raw = text if isinstance(text, bytes) else text.encode()
        self.write(pickle.BINSTRING + len(raw).to_bytes(4, "little") + raw)
        self.memoize(text)

    def save_global(self, obj: Any, name: Any = None) -> None:
        module = obj.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{obj.__qualname__}\n".encode())
        self.memoize(obj)

    dispatch[bytes] = dispatch[str] = save_text
    dispatch[type] = dispatch[type(len)] = dispatch[type(batch)] = save_global


def python2(content: Any) -> bytes:
    out = io.BytesIO()
    Python2(out, protocol=2).dump(content)
    return out.getvalue()


def write_python(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(NAMES):
        images, labels = batch(number)
        content = {"data": images.reshape(len(images), -1), "labels": labels.tolist(), "batch_label": name}
        (folder / name).write_bytes(python2(content))


@pytest.mark.parametrize("write", [write_binary, write_python])
@pytest.mark.parametrize("sub", ["cifar-10-batches-bin", "cifar10/cifar-10-batches-py", "CIFAR10/cifar-10-batches-bin"])
def test_files_are_found_and_read_in_order(tmp_path: Path, sub: str, write: Any) -> None:
    write(tmp_path / sub)
    for folder in (tmp_path, tmp_path / sub):
        training, test = cifar.cifar10(folder), cifar.cifar10(folder, train=False)
        assert np.array_equal(training.images, np.concatenate([batch(n)[0] for n in range(5)]))
        assert np.array_equal(training.labels, np.concatenate([batch(n)[1] for n in range(5)]))
        assert np.array_equal(test.images, batch(5)[0]) and np.array_equal(test.labels, batch(5)[1])
        assert test.images.dtype == test.labels.dtype == np.uint8


def test_nothing_there_names_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(BlrcError) as error:
        cifar.cifar10(tmp_path)
    for name in ("test_batch.bin", "cifar-10-batches-bin/test_batch.bin", "cifar10/cifar-10-batches-py/test_batch"):
        assert str(tmp_path / name) in str(error.value)


GOOD = record_bytes(*batch(1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"data_batch_1.bin: cannot be read .* missing"),
        (b"", "0 bytes are no whole number"),
        (GOOD[:-1], "12291 bytes are no whole number of CIFAR-10's records of 3073"),
        (GOOD[: 2 * 3073] + b"\x0a" + GOOD[2 * 3073 + 1 :], "label 10 of record 2"),
    ],
)
def test_each_kind_of_wrong_binary_file_is_told(tmp_path: Path, content: bytes | None, message: str) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    write_binary(folder)
    (folder / "data_batch_1.bin").unlink()
    if content is not None:
        (folder / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(BlrcError, match=message):
        cifar.cifar10(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        python2({"data": batch(1)[0].reshape(4, -1).astype(np.int16), "labels": [1, 2, 3, 4]}),
        python2({"data": batch(1)[0].reshape(4, -1), "labels": [1, 2, 3]}),
        python2({"data": batch(1)[0].reshape(4, -1)}),
        python2([1, 2]),
    ],
)
def test_other_pickles_are_refused(tmp_path: Path, content: bytes) -> None:
    write_python(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(content)
    with pytest.raises(BlrcError, match="data_batch_1: not a batch of CIFAR-10's Python version"):
        cifar.cifar10(tmp_path)


def test_a_malicious_pickle_is_not_executed(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.mkdir, (tmp_path / "executed",)

    write_python(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps({b"data": Evil()}))
    with pytest.raises(BlrcError, match="it names"):
        cifar.cifar10(tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small archive in place of the real one, with a checksum of its own, and an empty cache."""
    write_binary(tmp_path / "made" / "cifar-10-batches-bin")
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tmp_path / "made" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    monkeypatch.setattr(cifar, "URL", path.as_uri())
    monkeypatch.setattr(cifar, "MD5", hashlib.md5(path.read_bytes()).hexdigest())
    monkeypatch.setenv("BLRC_CACHE", str(tmp_path / "cache"))
    return path


def test_download_goes_to_the_cache(archive: Path) -> None:
    first = cifar.cifar10()
    archive.unlink()
    assert np.array_equal(cifar.cifar10().images, first.images) and len(first) == 20


def test_a_damaged_download_is_refused_and_not_kept(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    with pytest.raises(BlrcError, match=r"wrong checksum; give a folder .*--data DIR"):
        cifar.cifar10()
    archive.unlink()
    with pytest.raises(BlrcError, match=r"cannot download .*--data DIR"):
        cifar.cifar10()
    assert not (tmp_path / "cache").exists()

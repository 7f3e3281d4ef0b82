"""CIFAR-10's standard files: both versions, and what each kind of wrong file says."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blrc.datasets import cifar
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
        python2({"data": np.array(3, np.uint8), "labels": []}),  # was a traceback
    ],
)
def test_other_pickles_are_refused(tmp_path: Path, content: bytes) -> None:
    write_python(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(content)
    with pytest.raises(BlrcError, match="data_batch_1: not a batch of CIFAR-10's Python version"):
        cifar.cifar10(tmp_path)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "c", "d"],
        [None] * 4,
        {0: 1, 1: 2, 2: 3, 3: 4},
        4,
        None,
        [1.9, 1.0, 2.0, 3.0],
        [True, False, True, False],
        [[1], [2], [3], [4]],
        (1, 2, 3, 4),
        np.array([[1], [2], [3], [4]], np.uint8),
        np.array([1, 2, 3], np.uint8),
        np.array([1.9, 2.0, 3.0, 4.0]),
        np.array([1, None, 2, 3], object),
    ],
)
def test_labels_that_are_no_whole_numbers_are_refused(tmp_path: Path, labels: Any) -> None:
    """None of them is a traceback, or other labels without a word."""
    write_python(tmp_path / "cifar-10-batches-py")
    content = {b"data": batch(1)[0].reshape(4, -1), b"labels": labels}
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(content, 2))
    with pytest.raises(BlrcError, match=r"data_batch_1: not a batch of CIFAR-10's Python version \("):
        cifar.cifar10(tmp_path)


@pytest.mark.parametrize("labels", [[1, 10, 2, 3], [1, -1, 2, 3], [1, 10**30, 2, 3]])
def test_labels_of_no_class_are_named(tmp_path: Path, labels: list[int]) -> None:
    write_python(tmp_path / "cifar-10-batches-py")
    content = python2({"data": batch(1)[0].reshape(4, -1), "labels": labels})
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(content)
    with pytest.raises(BlrcError, match=f"label {labels[1]} of record 1: the file is damaged"):
        cifar.cifar10(tmp_path)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_pickles_of_today_are_read_too(tmp_path: Path, protocol: int, order: Any) -> None:
    images, labels = batch(7)
    write_python(tmp_path / "cifar-10-batches-py")
    content = {b"data": np.array(images.reshape(4, -1), order=order), b"labels": labels}
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(pickle.dumps(content, protocol))
    found = cifar.cifar10(tmp_path)
    assert np.array_equal(found.images[:4], images) and np.array_equal(found.images[4:8], batch(1)[0])
    assert np.array_equal(found.labels[:4], labels)


OBJECT = struct.pack("<Q", 0x4141414141414140)  # an address that is nobody's
# ndarray((1,), "O", OBJECT), by three ways
CRAFTED = {
    "ndarray called": b"cnumpy\nndarray\n(K\x01\x85U\x01OU\x08" + OBJECT + b"tR",
    "ndarray created": b"cnumpy\nndarray\n(K\x01\x85U\x01OU\x08" + OBJECT + b"t\x81",
    "state of objects": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    b"(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8K\x00K\x01tR\x89U\x08" + OBJECT + b"tb",
    "type that becomes objects": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    b"(K\x01(K\x01tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
    b"\x89](K\x01etb",
}


@pytest.mark.parametrize("crafted", CRAFTED)
def test_a_crafted_array_is_no_address(tmp_path: Path, crafted: str) -> None:
    """In a process of its own: what it guards against ends the process."""
    data = pickle.dumps(batch(1)[0][:1].reshape(1, -1), 2)[2:-1]
    (tmp_path / "crafted").write_bytes(b"\x80\x02}(U\x04data" + data + b"U\x06labels" + CRAFTED[crafted] + b"u.")
    program = (
        "import sys, pathlib\nfrom blrc import errors\nfrom blrc.datasets import cifar\n"
        "try:\n    cifar._read_python(pathlib.Path(sys.argv[1]))\n"
        "except errors.BlrcError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cifar.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "crafted")], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and "not a batch of CIFAR-10's Python version" in done.stdout, done


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


def test_a_file_damaged_in_the_cache_is_told(archive: Path, tmp_path: Path) -> None:
    cifar.cifar10()
    folder = tmp_path / "cache" / "cifar10" / "cifar-10-batches-bin"
    good = (folder / "data_batch_3.bin").read_bytes()
    (folder / "data_batch_3.bin").write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    for train in (True, False):
        with pytest.raises(BlrcError, match=r"data_batch_3.bin: checksum mismatch.*delete the folder"):
            cifar.cifar10(train=train)
    (folder / "SHA256SUMS").unlink()  # as where an earlier version filled the cache: it is filled again
    assert np.array_equal(cifar.cifar10().images[8:12], batch(2)[0])


def test_a_damaged_download_is_refused_and_not_kept(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    with pytest.raises(BlrcError, match=r"wrong checksum; give a folder .*--data DIR"):
        cifar.cifar10()
    archive.unlink()
    with pytest.raises(BlrcError, match=r"cannot download .*--data DIR"):
        cifar.cifar10()
    assert not (tmp_path / "cache").exists()

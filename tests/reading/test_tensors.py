"""What torch writes is read as torch reads it, and what torch does not write is refused without being allocated."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch

from blrc.reading.torchzip import tensors


def saved(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        expected = theirs.numpy()
        return ours.dtype == expected.dtype and ours.shape == expected.shape and np.array_equal(ours, expected)
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], value) for key, value in theirs.items())
    if isinstance(theirs, list | tuple):
        return type(ours) is type(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    return type(ours) is type(theirs) and ours == theirs


TYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
VIEWS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda t: t,
    lambda t: t[2:, 1:3],
    lambda t: t.transpose(0, 2),
    lambda t: t[::2, :, ::3],
    lambda t: t[1, 2, 3],
    lambda t: t[:0],
    lambda t: t[:, :1].contiguous(memory_format=torch.contiguous_format),
)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_and_view_is_read_as_torch_reads_it(dtype: torch.dtype) -> None:
    values = torch.randint(0, 100, (4, 5, 6)).to(dtype)
    content = {str(number): view(values.clone()) for number, view in enumerate(VIEWS)}
    assert same(tensors.read(saved(content)), content)


def test_plain_data_is_read_as_torch_reads_it() -> None:
    numbers = [0, 1, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**40, -(2**60), 0.0, -1.5, 1e300]
    content = {
        "a": numbers,
        "b": [None, True, False, "", "x", "ä\u4e2d"],
        "c": {"d": [[], {}, [[1]]]},
        "e": (1, 2, 3),
    }
    assert same(tensors.read(saved(content)), content)
    many = {f"key {i}": [i, f"text {i}", float(i)] for i in range(2_000)}
    assert same(tensors.read(saved(many)), many)


def forged(description: bytes, storage: bytes = bytes(64)) -> bytes:
    """A zip file like torch's with a description and one storage of one's own."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", description)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", storage)
    return buffer.getvalue()


class Tensor:
    """A tensor as someone else may describe it."""

    def __init__(self, *arguments: Any, kind: str = "FloatStorage", count: Any = 16, key: Any = "0") -> None:
        self.arguments, self.identity = arguments, ("storage", getattr(torch, kind), key, "cpu", count)


class Pickler(pickle._Pickler):  # type: ignore[misc, name-defined]
    """Writes a `Tensor` by hand."""

    def persistent_id(self, thing: Any) -> Any:
        return thing.identity if isinstance(thing, Tensor) and not getattr(self, "inside", False) else None

    def save(self, thing: Any, save_persistent_id: bool = True) -> Any:
        if isinstance(thing, Tensor) and save_persistent_id and not getattr(self, "inside", False):
            self.inside = True
            self.write(pickle.GLOBAL + b"torch._utils\n_rebuild_tensor_v2\n" + pickle.MARK)
            super().save(thing.identity)
            self.write(pickle.BINPERSID)
            for argument in thing.arguments:
                super().save(argument)
            self.write(pickle.TUPLE + pickle.REDUCE)
            self.inside = False
            return None
        return super().save(thing, save_persistent_id)


def described(content: Any) -> bytes:
    buffer = io.BytesIO()
    Pickler(buffer, 2).dump(content)
    return buffer.getvalue()


GOOD = (0, (4, 4), (4, 1), False, {})


def test_the_forger_is_understood() -> None:
    values = np.arange(16, dtype="<f4")
    found = tensors.read(forged(described({"t": Tensor(*GOOD)}), values.tobytes()))
    assert np.array_equal(found["t"], values.reshape(4, 4))


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Tensor(0, (2**30, 4), (0, 1), False, {}), "more values than its storage"),
        (Tensor(0, (17,), (0,), False, {}), "more values than its storage"),
        (Tensor(0, (17,), (1,), False, {}), "beyond its storage"),
        (Tensor(1, (4, 4), (4, 1), False, {}), "beyond its storage"),
        (Tensor(0, (2, 2), (15, 1), False, {}), "beyond its storage"),
        (Tensor(-1, (4,), (1,), False, {}), "impossible shape"),
        (Tensor(0, (4,), (-1,), False, {}), "impossible shape"),
        (Tensor(0, (True,), (1,), False, {}), "impossible shape"),
        (Tensor(0, (2**60,), (1,), False, {}), "impossible shape"),
        (Tensor(0, (1,) * 17, (1,) * 17, False, {}), "impossible shape"),
        (Tensor(0, (4, 4), (4,), False, {}), "without a shape"),
        (Tensor(0, [4, 4], [4, 1], False, {}), "without a shape"),
        (Tensor(0, (4, 4), (4, 1), True, {}), "gradient"),
        (Tensor(0, (4, 4), (4, 1), False, {"hook": 1}), "hooks"),
        (Tensor(0, (4, 4), (4, 1), False), "unknown way"),
        (Tensor(*GOOD, kind="BFloat16Storage"), "torch.BFloat16Storage are not supported"),
        (Tensor(*GOOD, kind="BoolStorage"), "torch.BoolStorage are not supported"),
        (Tensor(*GOOD, kind="ComplexFloatStorage"), "not supported"),
        (Tensor(*GOOD, count=17), "more values than the file has"),
        (Tensor(*GOOD, count=-1), "more values than the file has"),
        (Tensor(*GOOD, count="many"), "more values than the file has"),
        (Tensor(*GOOD, key="1"), "does not have"),
        (Tensor(*GOOD, key=["0"]), "does not have"),
    ],
)
def test_a_tensor_that_its_storage_does_not_hold_is_refused(tensor: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tensors.read(forged(described({"t": tensor})))


def test_a_storage_is_given_out_once() -> None:
    with pytest.raises(ValueError, match="more values than its storage"):
        tensors.read(forged(described([Tensor(*GOOD), Tensor(*GOOD)])))
    with pytest.raises(ValueError, match="described in two ways"):
        tensors.read(forged(described([Tensor(0, (1,), (1,), False, {}), Tensor(0, (1,), (1,), False, {}, count=15)])))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (b"\x80\x02r\xff\xff\xff\x7f.", "finds no object"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", None),  # Python's own unpickler allocates 16 GiB for the memo
        (b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"N.", "protocol"),
        (b"\x80\x02\x8e" + struct.pack("<Q", 2**40) + b"x.", "BINBYTES8 is not allowed"),
        (b"\x80\x02\x96" + struct.pack("<Q", 2**40) + b"x.", "BYTEARRAY8 is not allowed"),
        (b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"x.", "ends too early"),
        (b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x.", "LONG4 is not allowed"),
        (b"\x80\x02\x8a\xff" + bytes(255) + b".", "too many digits"),
        (b"\x80\x02I" + b"9" * 10_000 + b"\n.", "INT is not allowed"),
        (b"\x80\x02}N(K\x01K\x01u.", "finds no dict"),
        (b"\x80\x02}(K\x01K\x01u.", "key that is no text"),
        (b"\x80\x02}()" + b"\x86q\x00h\x00" * 40 + b"Nu.", None),
        (b"\x80\x02N2.", "DUP is not allowed"),
        (b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR.", "not allowed|no function"),
        (b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "os.system is not allowed"),
        (b"\x80\x02X\x02\x00\x00\x00\xed\xa0.", "not UTF-8"),
        (b"\x80\x02(((", "ends too early"),
        (b"\x80\x02NN.", "one object"),
        (b"\x80\x02t.", "finds no mark"),
        (b"\x80\x02h\x00.", "refers to an object"),
        (b"\x80\x02" + b"]" * (2**20), "1048576 are allowed"),
        (b"", "ends too early"),
    ],
)
def test_a_hostile_description_is_refused(code: bytes, words: str | None) -> None:
    if words is None:
        with suppress(ValueError):
            tensors.read(forged(code))
        return
    with pytest.raises(ValueError, match=words):
        tensors.read(forged(code))


def test_compressed_encrypted_overlapping_and_missing_members_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    with pytest.raises(ValueError, match="compressed"):
        tensors.read(buffer.getvalue())
    with pytest.raises(ValueError, match="no description"):
        tensors.read(saved({}).replace(b"data.pkl", b"data.pkk"))
    raw = bytearray(forged(described({}), bytes(1_000)))
    entry = raw.rindex(b"PK\x01\x02")  # of the storage: as if it began where the description does, and were as long
    raw[entry + 42 : entry + 46] = struct.pack("<I", 0)
    raw[entry + 20 : entry + 28] = struct.pack("<II", len(raw), len(raw))
    with pytest.raises(ValueError, match="outside of it"):
        tensors.read(bytes(raw))


def test_every_truncation_of_an_archive_is_refused() -> None:
    raw = saved({"t": torch.zeros(3)})
    for length in range(len(raw)):
        with pytest.raises(ValueError):
            tensors.read(raw[:length])

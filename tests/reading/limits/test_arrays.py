"""Sizes of an npz file are checked before anything is inflated, and what is no array of numbers is refused."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from blrc.reading import archive, arrays

MOST = 1 << 20


def load(content: bytes, most: int = MOST) -> dict[str, Any]:
    return arrays.load(io.BytesIO(content), most)


def npz(compressed: bool = True, **named: Any) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **named)
    return buffer.getvalue()


def archive_of(members: dict[str, bytes], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def npy(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    body = header.encode() + b"\n"
    size = len(body).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + body + data


@given(
    st_numpy.arrays(
        st.sampled_from(["u1", "<i2", ">i4", "<u8", "f4", "?"]),
        st_numpy.array_shapes(min_dims=0, min_side=0, max_side=4),
    ),
    st.booleans(),
    st.booleans(),
)
def test_arrays_come_back(array: Any, compressed: bool, turned: bool) -> None:
    array = np.asfortranarray(array) if turned else array
    found = load(npz(compressed, a=array, b=array[None]))
    for name, expected in (("a", array), ("b", array[None])):
        assert found[name].dtype == expected.dtype and found[name].shape == expected.shape
        assert np.array_equal(found[name], expected, equal_nan=array.dtype.kind == "f")


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    bomb = npz(a=np.zeros(1 << 24, np.uint8))
    assert len(bomb) < 1 << 15
    with pytest.raises(ValueError, match=r"its arrays have 16,777,344 bytes; at most 1,048,576 are read"):
        load(bomb)
    several = npz(**{f"a{i}": np.zeros(1 << 18, np.uint8) for i in range(5)})
    with pytest.raises(ValueError, match="at most 1,048,576 are read"):
        load(several)


def test_members_that_lie_over_each_other_count_each() -> None:
    """Ten names for the same bytes in the file are ten arrays."""
    content = bytearray(npz(False, a0=np.zeros(1 << 17, np.uint8)))
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as one:
        info = one.infolist()[0]
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a0.npy", content[content.index(b"\x93NUMPY") :][: info.file_size])
        first = file.infolist()[0]
        for i in range(1, 10):
            other = zipfile.ZipInfo(f"a{i}.npy")
            for field in ("CRC", "compress_size", "file_size", "header_offset"):
                setattr(other, field, getattr(first, field))
            file.filelist.append(other)
    with pytest.raises(ValueError, match=r"its arrays have 1,312,000 bytes; at most 1,311,999 are read"):
        load(buffer.getvalue(), 1_311_999)
    with pytest.raises(ValueError, match="no whole npz file"):  # and a name that the bytes do not bear is no array
        load(buffer.getvalue(), 1_312_000)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "its header says"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "its header says"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}", "has shape"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (True,)}", "has shape"),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (1.0,)}", "header is damaged"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "only numbers are read"),
        ("{'descr': '<U9', 'fortran_order': False, 'shape': (1,)}", "only numbers are read"),
        ("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "only numbers are read"),
        ("{'descr': ('<i4', (2,)), 'fortran_order': False, 'shape': (1,)}", "only numbers are read|header is damaged"),
        ("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "only numbers are read"),
        ("{'descr': 'x', 'fortran_order': False, 'shape': (1,)}", "header is damaged"),
        ("(" * 5000, "header is damaged"),
        ("{}" + " " * 20_000, "header is damaged, or longer than 10,000 bytes"),
        ("", "header is damaged"),
    ],
)
def test_headers_that_lie(header: str, says: str) -> None:
    for version in ((1, 0), (2, 0)):
        with pytest.raises(ValueError, match=says) as refused:
            load(archive_of({"a.npy": npy(header, b"\1", version)}))
        assert str(refused.value).isprintable() and len(str(refused.value)) < 250
    with pytest.raises(ValueError, match="npy version"):
        load(archive_of({"a.npy": npy(header, b"\1", (9, 0))}))


def test_other_members_are_refused() -> None:
    good = npz(a=np.zeros(3))
    with zipfile.ZipFile(io.BytesIO(good)) as file:
        data = file.read("a.npy")
    with pytest.raises(ValueError, match=r"holds 'a.txt', which is no array"):
        load(archive_of({"a.npy": data, "a.txt": b"x"}))
    with pytest.raises(ValueError, match="another compression than deflate"):
        load(archive_of({"a.npy": data}, compression=zipfile.ZIP_LZMA))
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = io.BytesIO()
        with zipfile.ZipFile(twice, "w") as file:
            file.writestr("a.npy", data)
            file.writestr("a.npy", data)
    with pytest.raises(ValueError, match=r"holds 'a.npy' twice"):
        load(twice.getvalue())


def test_a_table_of_contents_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "DIRECTORY", 4096)
    many = npz(False, **{f"a{i}": np.zeros(1, np.uint8) for i in range(100)})
    with pytest.raises(ValueError, match=r"its table of contents is longer than 4,096 bytes"):
        load(many)

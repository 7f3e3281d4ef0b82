"""Only regular files are read, of limited size; nothing else is waited for, and nothing else is replaced."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from blrc.errors import BlrcError
from blrc.reading import regular
from blrc.store.places import write_atomically


def special(folder: Path) -> dict[str, Path]:
    """Things that are no regular files, by what they are."""
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "socket"))
    return {
        "FIFO": folder / "fifo",
        "FIFO behind a link": folder / "link",
        "device": Path("/dev/zero"),
        "socket": folder / "socket",
    }


@pytest.mark.timeout(20)
def test_nothing_but_regular_files_is_read(tmp_path: Path) -> None:
    for path in special(tmp_path).values():
        with pytest.raises(OSError, match=r"not a regular file|No such device"):
            regular.read(path)
    with pytest.raises(IsADirectoryError):
        regular.read(tmp_path)


def test_what_is_special_is_not_replaced(tmp_path: Path) -> None:
    for kind, path in special(tmp_path).items():
        with pytest.raises(BlrcError, match=f"is a {kind.split()[0]}, not a regular file"):
            write_atomically(path, b"x")
        assert not path.is_file()
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "to_file").symlink_to("file")
    write_atomically(tmp_path / "to_file", b"new")


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800", "x\udfff"])
def test_names_that_no_file_can_have(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(OSError, match="no file can have this name"):
        regular.read(path)
    for check in (regular.check_name, regular.check_output, regular.check_place):
        with pytest.raises(BlrcError, match="which no file's name can"):
            check(path)
    with pytest.raises(BlrcError, match="which no file's name can"):
        write_atomically(path, b"x")


def test_a_name_of_other_bytes_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "\udcff"  # a byte that is no UTF-8
    write_atomically(regular.check_name(path), b"x")
    assert regular.read(path) == b"x"


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(regular.LARGEST + 1)
    with pytest.raises(OSError, match=r"it has 4,294,967,297 bytes; at most 4,294,967,296 are read"):
        regular.read(path)
    with pytest.raises(OSError, match="at most 10 are read"):
        regular.read(path, 10)


def test_a_file_without_a_true_size_is_refused() -> None:
    with pytest.raises(OSError, match="its size is not what the system says"):
        regular.read(Path("/proc/self/status"))  # 0 bytes, it says


def test_places_of_folders(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "file").write_bytes(b"")
    assert regular.check_place(tmp_path) == tmp_path
    assert regular.check_place(tmp_path / "new") == tmp_path / "new"
    for name, words in (
        ("loop", "Too many levels"),
        ("dangling", "is a link to nothing"),
        ("file", "is a file, not a folder"),
        ("file/x", "Not a directory"),
        ("x" * 300, "File name too long"),
    ):
        with pytest.raises(BlrcError, match=words):
            regular.check_place(tmp_path / name)

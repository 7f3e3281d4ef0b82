"""Files are written whole or not at all, and what was there survives every failure."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

import blrc
from blrc.datasets import idx
from blrc.datasets.cifar import cifar10
from blrc.errors import BlrcError
from blrc.store import steps
from blrc.store.atomic import write_atomically
from blrc.store.claim import claimed
from blrc.store.listing import content_of
from blrc.store.places import cache_folder

NEW = {"a.h": b"new", "sub/b.c": b"two\n", "empty": b""}


def tree(folder: Path) -> dict[str, bytes]:
    """All files below, hidden ones too: a left-over temporary file would be seen."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def write_folder(folder: Path, files: dict[str, bytes], replaced: Sequence[str] = ()) -> None:
    with claimed(folder) as place:
        place.write(files, {name: content_of((folder / name).read_bytes()) for name in replaced})


def full_disk(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "x.bin"
    write_atomically(path, b"one")
    write_atomically(path, b"three")
    assert tree(tmp_path) == {"deep/er/x.bin": b"three"}


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_follow_the_umask(mask: int, tmp_path: Path) -> None:
    old = os.umask(mask)
    try:
        write_atomically(tmp_path / "x", b"1")
        write_folder(tmp_path / "out", NEW)
        assert os.umask(mask) == mask, "the umask was not put back"
    finally:
        os.umask(old)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o666 & ~mask
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~mask


def test_a_file_that_cannot_be_finished_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.bin"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(BlrcError, match=r"x\.bin: cannot write: No space left on device; nothing was changed"):
        write_atomically(path, b"new")
    assert tree(tmp_path) == {"x.bin": b"old"}


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", b"new")
    assert tree(tmp_path) == {}


# A limit on the size of files is the nearest to a full disk that a process can ask the system for.
LIMITED = """
import resource, signal, sys
from pathlib import Path
from blrc.errors import BlrcError
from blrc.store.atomic import write_atomically
from blrc.store.claim import claimed
from blrc.store.listing import content_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
folder = Path(sys.argv[1])
def write_folder(folder, files, replaced):
    with claimed(folder) as place:
        place.write(files, {name: content_of((folder / name).read_bytes()) for name in replaced})
big = bytes(5000)
for write in (
    lambda: write_atomically(folder / "x.bin", big),
    lambda: write_folder(folder / "out", {"a": b"small", "b": big}, ["a"]),
    lambda: write_folder(folder / "fresh", {"a": b"small", "b": big}, []),
):
    try:
        write()
    except BlrcError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX")
def test_the_systems_own_refusal_leaves_everything_as_it_was(tmp_path: Path) -> None:
    write_atomically(tmp_path / "x.bin", b"old")
    write_folder(tmp_path / "out", {"a": b"old"})
    before = tree(tmp_path)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.split(": cannot write: ")[0] for line in lines] == [
        str(tmp_path / name) for name in ("x.bin", "out", "fresh")
    ]
    assert all(line.endswith("nothing was changed") for line in lines)
    assert tree(tmp_path) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "x.bin"]


def test_a_folder_is_written(tmp_path: Path) -> None:
    write_folder(tmp_path / "some" / "out", NEW)
    assert tree(tmp_path / "some" / "out") == NEW
    assert [p.name for p in (tmp_path / "some").iterdir()] == ["out"]


def test_replacing_removes_the_old_export_and_keeps_the_users_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, {"a.h": b"old", "gone.c": b"old", "sub/gone.c": b"old"})
    (out / "mine").mkdir()
    (out / "mine" / "main.c").write_bytes(b"mine")
    (out / "notes").write_bytes(b"mine")
    write_folder(out, NEW, ["a.h", "gone.c", "sub/gone.c"])
    assert tree(out) == {**NEW, "mine/main.c": b"mine", "notes": b"mine"}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("replaced", [None, ["a.h"]], ids=["fresh", "replaced"])
def test_a_full_disk_leaves_the_folder_as_it_was(
    replaced: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if replaced is not None:
        write_folder(out, {"a.h": b"old"})
    before = tree(tmp_path)

    def last_one_fails(what: str, path: Path) -> None:
        if what == "write" and path.name == "sub.c":
            full_disk()

    monkeypatch.setattr(steps, "before", last_one_fails)
    with pytest.raises(BlrcError, match="out: cannot write: No space left on device; nothing was changed"):
        write_folder(out, {**NEW, "sub.c": b""}, replaced or ())
    assert tree(tmp_path) == before
    assert out.exists() == (replaced is not None)


def test_a_users_file_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, {"net.onnx": b"old"})
    (out / "Makefile").write_bytes(b"mine")
    (out / "empty").mkdir()
    (out / "build").mkdir()
    (out / "build" / "notes").write_bytes(b"mine")
    with pytest.raises(BlrcError, match="Makefile: is in the way and not of the earlier export"):
        write_folder(out, {"net.onnx": b"new", "Makefile": b"ours"}, ["net.onnx"])
    write_folder(out, {"net.onnx": b"new"}, ["net.onnx"])
    assert tree(out) == {"net.onnx": b"new", "Makefile": b"mine", "build/notes": b"mine"}
    assert (out / "empty").is_dir()


def test_the_folder_itself_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mode, and that a shell may stand in it (``-o .``)."""
    out = tmp_path / "out"
    out.mkdir(mode=0o700)
    monkeypatch.chdir(out)
    inode = out.stat().st_ino
    write_folder(Path(), NEW, [])
    assert out.stat().st_ino == inode
    assert out.stat().st_mode & 0o777 == 0o700
    assert tree(out) == NEW


def test_a_place_that_cannot_hold_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    inside = tmp_path / "file" / "x"
    for write in (lambda: write_atomically(inside, b""), lambda: write_folder(inside, NEW)):
        with pytest.raises(BlrcError, match=r"file/x: cannot write: .*; nothing was changed"):
            write()
    assert tree(tmp_path) == {"file": b"1"}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        for write in (lambda: write_atomically(tmp_path / "x", b""), lambda: write_folder(tmp_path / "x", NEW)):
            with pytest.raises(BlrcError, match="x: cannot write: Permission denied"):
                write()
    finally:
        tmp_path.chmod(0o700)


def test_a_relative_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(Path("out"), NEW)
    write_atomically(Path("x"), b"1")
    assert tree(tmp_path) == {"x": b"1", **{f"out/{name}": content for name, content in NEW.items()}}


def test_the_cache_is_where_the_user_says_or_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLRC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")  # as if it were not set
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder("mnist") == Path("/home/someone/.cache/blrc/mnist")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert cache_folder("mnist") == Path("/var/cache/blrc/mnist")
    monkeypatch.setenv("BLRC_CACHE", "/mine")
    assert cache_folder("mnist") == Path("/mine/mnist")


def test_without_a_home_the_cache_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BLRC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless() -> NoReturn:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(BlrcError, match="set BLRC_CACHE"):
        cache_folder("mnist")


@pytest.mark.parametrize("read", [idx.mnist, cifar10])
def test_a_data_set_in_no_folder_gets_one_line(read: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name, reason in (("none", "no such folder"), ("file", "is a file, not a folder"), ("x" * 300, "cannot read")):
        with pytest.raises(BlrcError, match=rf"{name}: {reason}") as error:
            read(tmp_path / name)
        assert "\n" not in str(error.value)


def test_regression_flags_of_open_exist_somewhere() -> None:
    """A misspelt one is 0, on every system: ``O_BINARY``, which only Windows has, was "OBINARY"."""
    named = {
        flag
        for path in Path(blrc.__file__).parent.rglob("*.py")
        for flag in re.findall(r'getattr\(os, "(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert named
    assert {flag for flag in named if not hasattr(os, flag)} <= {"O_BINARY"}

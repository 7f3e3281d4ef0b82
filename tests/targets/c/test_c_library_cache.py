"""The cache of compiled libraries: what anybody else can have made is not loaded, and what is damaged is built again.

No compiler here: a library is a file with known content, and what is planted has another.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from random_programs import random_program

from blrc.store.places import fill_cache
from blrc.store.private import UnsafeError
from blrc.targets.c.native import cache
from blrc.targets.c.native import library as shared
from blrc.targets.c.native.cache import CHECKSUM, DEAD_AFTER, LIBRARY, library, whole
from blrc.targets.c.native.library import Shared, library_files

KEY = "ab" * 32
OWN, PLANTED = b"what was built", b"what was planted"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that $BLRC_CACHE names; it is not there yet."""
    return tmp_path / "cache"


def build(folder: Path) -> Path:
    (folder / "built.so").write_bytes(OWN)
    return folder / "built.so"


def found(root: Path) -> bytes | None:
    path = library(root / "native", KEY, build)
    return None if path is None else path.read_bytes()


def plant(entry: Path) -> None:
    """An entry that is whole, but for what is in it."""
    (entry / LIBRARY).write_bytes(PLANTED)
    (entry / CHECKSUM).write_text(hashlib.sha256(PLANTED).hexdigest())


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Something else in the place of one file of an entry."""

    def change(entry: Path) -> None:
        (entry / name).unlink()
        make(entry / name)

    return change


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def emptied(entry: Path) -> None:
    for file in list(entry.iterdir()):
        file.unlink()


def in_place(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Something else in the place of the entry."""

    def change(entry: Path) -> None:
        emptied(entry)
        entry.rmdir()
        make(entry)

    return change


MADE: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a full folder": lambda path: (path.mkdir(), (path / "x").write_text("x")),
    "a FIFO": os.mkfifo,
    "a socket": bound,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "an empty file": Path.touch,
    "other bytes": lambda path: path.write_bytes(b"\xff\xfe" * 40),
    "a huge file": lambda path: (path.touch(), os.truncate(path, 2**26)),
    "a file of eight terabytes": lambda path: (path.touch(), os.truncate(path, 2**43)),
    "an unreadable file": lambda path: path.touch(mode=0),
}
LARGE = ("a huge file", "a file of eight terabytes")
DAMAGE = {
    **{f"{name} is {what}": replaced(name, make) for name in (LIBRARY, CHECKSUM) for what, make in MADE.items()},
    **{f"the entry is {what}": in_place(make) for what, make in MADE.items() if what not in LARGE},
    "no library": lambda entry: (entry / LIBRARY).unlink(),
    "no checksum": lambda entry: (entry / CHECKSUM).unlink(),
    "nothing in it": emptied,
    "nobody may read it": lambda entry: entry.chmod(0),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_of_every_kind_is_built_again(root: Path, damage: Callable[[Path], object]) -> None:
    assert found(root) == OWN
    entry = root / "native" / KEY
    damage(entry)
    assert found(root) == OWN  # and returns, though a FIFO would wait
    assert not entry.stat().st_mode & 0o022
    assert sorted(path.name for path in entry.iterdir()) == [LIBRARY, CHECKSUM]
    assert [path.name for path in entry.parent.iterdir()] == [KEY]  # nothing is left beside it
    inode = (entry / LIBRARY).stat().st_ino
    assert found(root) == OWN
    assert (entry / LIBRARY).stat().st_ino == inode


@pytest.fixture(params=[0o020, 0o002, 0o022, 0o1002])
def writable(request: pytest.FixtureRequest) -> int:
    """Bits by which others may write; where the cache itself is, stickiness does not help."""
    bits: int = request.param
    return bits


@pytest.mark.parametrize("what", ["", "native", f"native/{KEY}", f"native/{KEY}/{LIBRARY}", f"native/{KEY}/{CHECKSUM}"])
def test_what_others_may_write_is_neither_loaded_nor_touched(root: Path, what: str, writable: int) -> None:
    assert found(root) == OWN
    plant(root / "native" / KEY)
    place = root / what
    place.chmod(stat.S_IMODE(place.stat().st_mode) | writable)
    with pytest.raises(UnsafeError, match=f"{place}: others may write it"):
        found(root)
    assert (root / "native" / KEY / LIBRARY).read_bytes() == PLANTED


@pytest.mark.parametrize("what", ["", "native", f"native/{KEY}", f"native/{KEY}/{LIBRARY}", f"native/{KEY}/{CHECKSUM}"])
def test_nothing_is_reached_through_a_link(root: Path, what: str, tmp_path: Path) -> None:
    assert found(root) == OWN
    plant(root / "native" / KEY)
    (root / what).rename(tmp_path / "elsewhere")
    (root / what).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeError, match=f"{root / what}: is a symbolic link"):
        found(root)


def test_nor_through_a_link_above_the_cache(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UnsafeError, match=f"{tmp_path / 'link'}: is a symbolic link; set BLRC_CACHE"):
        found(tmp_path / "link" / "cache")
    assert found(tmp_path / "real" / "cache") == OWN


@pytest.mark.parametrize("what", ["", "native", f"native/{KEY}", f"native/{KEY}/{LIBRARY}", f"native/{KEY}/{CHECKSUM}"])
def test_another_user_s_file_is_not_loaded(root: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(root) == OWN
    real = os.lstat

    def lstat(path: Path) -> os.stat_result:
        seen = list(real(path))
        seen[stat.ST_UID] += 1 if Path(path) == root / what else 0
        return os.stat_result(seen)

    monkeypatch.setattr(cache.os, "lstat", lstat)
    with pytest.raises(UnsafeError, match=f"{root / what}: is another user's"):
        found(root)


@pytest.mark.parametrize(
    ("mode", "safe"), [(0o755, True), (0o700, True), (0o1777, True), (0o777, False), (0o775, False), (0o757, False)]
)
def test_folders_above_the_cache_may_be_open_to_all_only_where_they_are_sticky(
    tmp_path: Path, mode: int, safe: bool
) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    if safe:
        assert found(above / "cache") == OWN
    else:
        with pytest.raises(
            UnsafeError, match=f"{above}: others may write there; set BLRC_CACHE to a folder of your own"
        ):
            found(above / "cache")


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_what_is_made_is_this_user_s_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert found(tmp_path / "a" / "b" / "cache") == OWN
        assert found(tmp_path / "a" / "b" / "cache") == OWN
    finally:
        os.umask(before)
    for path in (tmp_path / "a").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_a_file_in_the_place_of_the_cache_is_said(root: Path) -> None:
    root.write_text("in the way")
    assert found(root) is None
    root.unlink()
    root.mkdir(mode=0o700)
    (root / "native").write_text("in the way")
    (root / "native").chmod(0o600)
    with pytest.raises(UnsafeError, match="native: is no folder"):
        found(root)


@pytest.fixture
def _said_anew() -> Iterator[None]:
    shared._say.cache_clear()
    yield
    shared._say.cache_clear()


@pytest.mark.needs("cc")
@pytest.mark.usefixtures("_said_anew")
def test_a_planted_library_is_not_run_and_it_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BLRC_CACHE", str(root))
    program = random_program(0, "bits", (3, 3, 5), layers=2)
    files = library_files(program, "net")
    first = Shared(files, "net", program, ("-O0",))
    assert first.path.is_relative_to(root)
    plant(first.path.parent)
    first.path.chmod(0o722)
    with caplog.at_level(logging.WARNING, "blrc"), Shared(files, "net", program, ("-O0",)) as second:
        assert second.built and not second.path.is_relative_to(root)
        assert second.path.parent.stat().st_mode & 0o777 == 0o700
        assert second.path.read_bytes() != PLANTED
    assert [record.getMessage() for record in caplog.records] == [
        f"{first.path}: others may write it (mode 722); delete it, then it is made again; until then libraries are "
        "compiled anew in a private folder"
    ]
    assert whole(first.path.parent / "nothing") is None


@pytest.fixture
def dead(root: Path) -> Path:
    """What a build left that was killed two hours ago."""
    assert found(root) == OWN
    folder = root / "native" / f".{KEY[:16]}.a1b2c3_d"
    folder.mkdir(mode=0o700)
    (folder / "built.o").write_bytes(b"")
    _age(folder)
    (root / "native" / KEY / CHECKSUM).unlink()  # so that there is something to build
    return folder


def _age(folder: Path) -> None:
    os.utime(folder, (time.time() - 2 * DEAD_AFTER,) * 2)


def test_regression_what_a_killed_build_left_goes_with_a_later_one(root: Path, dead: Path) -> None:
    """A build that was killed left a hidden folder for ever."""
    assert found(root) == OWN
    assert [path.name for path in dead.parent.iterdir()] == [KEY]


SPARED: dict[str, Callable[[Path], object]] = {
    "it was made just now": lambda dead: os.utime(dead),
    "others may write it": lambda dead: dead.chmod(0o777),
    "a link": lambda dead: (dead.rename(dead.parent / "moved"), dead.symlink_to("moved")),
    "another name": lambda dead: dead.rename(dead.parent / ".mine"),
    "a file": lambda dead: (shutil.rmtree(dead), dead.write_bytes(b"mine"), _age(dead)),
}


@pytest.mark.parametrize("change", SPARED.values(), ids=SPARED.keys())
def test_what_may_be_anybody_s_is_not_taken_for_a_killed_build_s(
    root: Path, dead: Path, change: Callable[[Path], object]
) -> None:
    change(dead)
    before = {path for path in dead.parent.rglob("*") if KEY not in path.parts}
    assert found(root) == OWN
    assert before and {path for path in dead.parent.rglob("*") if KEY not in path.parts} == before


def test_a_build_that_is_alive_is_not_swept_away(root: Path) -> None:
    """However long it takes."""

    def slow(folder: Path) -> Path:
        _age(folder)
        assert found(root) == OWN  # another process is faster, and has something to build
        shutil.rmtree(root / "native" / KEY)
        assert found(root) == OWN
        return build(folder)

    path = library(root / "native", KEY, slow)
    assert path is not None and path.read_bytes() == OWN
    assert [path.name for path in (root / "native").iterdir()] == [KEY]


@pytest.mark.parametrize("umask", [0, 0o002, 0o022])
def test_regression_data_in_the_cache_leave_its_folder_private(root: Path, umask: int) -> None:
    """With umask 002 a download made the cache's folder, which others could write, so that no library was kept."""
    before = os.umask(umask)
    try:
        fill_cache(root / "mnist" / "images", b"")
    finally:
        os.umask(before)
    assert found(root) == OWN

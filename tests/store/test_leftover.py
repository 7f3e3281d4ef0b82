"""What killed exports left is removed; what blrc cannot have left stays, and is said to be in the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from exports import FOREIGN, NEW, OLD, changed, described, expected, tree, with_manifest, write, write_old

from blrc.errors import BlrcError
from blrc.store.claim import claimed
from blrc.store.journal import JOURNAL, STAGE, Journal, interrupted, to_bytes
from blrc.store.listing import PARTS


def plant(path: Path, kind: str, victim: Path) -> None:
    if kind == "link to a folder":
        path.symlink_to(victim)
    elif kind == "link to a file":
        path.symlink_to(victim / "thesis.txt")
    elif kind == "link to nothing":
        path.symlink_to(victim / "none")
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "file":
        path.write_bytes(b"{}")
    elif kind == "hard link":
        path.hardlink_to(victim / "thesis.txt")
    else:
        path.mkdir()
        (path / "link").symlink_to(victim)
        (path / "new").symlink_to(victim)


KINDS = [
    "link to a folder",
    "link to a file",
    "link to nothing",
    "link to itself",
    "fifo",
    "file",
    "hard link",
    "folder",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [STAGE, JOURNAL, "beside", "cmake", "cmake/net", "net.c", ".blrc-abcdefgh"])
def test_what_a_stranger_planted_is_not_followed(kind: str, place: str, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "above" / "out"
    victim.mkdir()
    (victim / "thesis.txt").write_bytes(b"thesis")
    (victim / "new").mkdir()
    if place == "beside":
        out.parent.mkdir()
        plant(out.parent / ".out.blrc-new", kind, victim)
    else:
        write(out, with_manifest({"net.c": "old"}))
        if place == "net.c":
            (out / place).unlink()
        elif place == "cmake/net":
            (out / "cmake").mkdir()
        plant(out / place, kind, victim)
    try:
        write(out, with_manifest(NEW))
        assert interrupted(out) is None and changed(out) == []
        assert (out / "cmake" / "net" / "a.txt").resolve().is_relative_to(tmp_path / "above")
        taken = True
    except BlrcError as refused:
        assert "\n" not in str(refused)
        taken = False
    assert tree(victim) == {"thesis.txt": b"thesis", "new": None}
    # A folder may stand where an export has one. What has the name of something that blrc leaves, and cannot have been
    # left by it, is in the way; a listed file that is not what the manifest says is refused, whatever it is.
    assert taken == (place == ".blrc-abcdefgh" or (kind == "folder" and place in ("cmake", "cmake/net")))


def test_what_versions_without_a_journal_left_goes(tmp_path: Path) -> None:
    write_old(tmp_path)
    for name in (".blrc-a1b2c3d4", ".blrc-________"):
        (tmp_path / name / "old" / "cmake").mkdir(parents=True)
        (tmp_path / name / "new").mkdir()
        (tmp_path / name / "old" / "cmake" / "a.txt").write_bytes(b"")
    (tmp_path / ".blrc-notes1234").mkdir()
    (tmp_path / ".blrc-mine5678" / "old").mkdir(parents=True)
    (tmp_path / ".blrc-mine5678" / "letter.txt").write_bytes(b"mine")
    write(tmp_path, with_manifest(NEW))
    mine = {
        ".blrc-notes1234": None,
        ".blrc-mine5678": None,
        ".blrc-mine5678/old": None,
        ".blrc-mine5678/letter.txt": b"mine",
    }
    assert tree(tmp_path) == {**expected({**with_manifest(NEW), **FOREIGN}), **mine}


def _deep(stage: Path) -> None:
    stage.mkdir(mode=0o700)
    (stage / "new" / "/".join("d" * (PARTS + 1))).mkdir(parents=True)


def _very_deep(stage: Path) -> None:
    """Make a tree whose paths are longer than the system takes."""
    here = Path.cwd()
    stage.mkdir(mode=0o700)
    os.chdir(stage)
    try:
        for name in ("new", *["d" * 200] * 30):
            Path(name).mkdir()
            os.chdir(name)
    finally:
        os.chdir(here)


def _file(name: str) -> Callable[[Path], None]:
    def make(stage: Path) -> None:
        stage.mkdir(mode=0o700)
        (stage / name).parent.mkdir(exist_ok=True)
        (stage / name).write_bytes(b"thesis")

    return make


def _special(name: str) -> Callable[[Path], None]:
    def make(stage: Path) -> None:
        stage.mkdir(mode=0o700)
        (stage / name).parent.mkdir(exist_ok=True)
        os.mkfifo(stage / name)

    return make


def _open_to(mode: int) -> Callable[[Path], None]:
    def make(stage: Path) -> None:
        (stage / "new").mkdir(parents=True)
        stage.chmod(mode)

    return make


FOREIGN_STAGES: dict[str, Callable[[Path], None]] = {
    "deep": _deep,
    "very deep": _very_deep,
    "another name in it": _file("thesis.txt"),
    "a hidden name": _file("new/.git"),
    "a name with a blank": _file("old/my thesis.txt"),
    "a FIFO": _special("old/net.c"),
    "a FIFO for a journal": _special(JOURNAL),
    "all may write": _open_to(0o777),
    "the group may write": _open_to(0o770),
}


@pytest.mark.parametrize("make", FOREIGN_STAGES.values(), ids=FOREIGN_STAGES.keys())
def test_a_stage_that_blrc_cannot_have_left_is_in_the_way(make: Callable[[Path], None], tmp_path: Path) -> None:
    """A stage folder of mode 777 was taken for blrc's, and a deep one ended in "File name too long"."""
    out = tmp_path / "out"
    write_old(out)
    make(out / STAGE)
    before = sorted(os.walk(out))
    with pytest.raises(BlrcError, match=rf"{STAGE}.*: is in the way and was not left by an export of yours") as refused:
        write(out, with_manifest(NEW))
    assert "\n" not in str(refused.value)
    assert sorted(os.walk(out)) == before and changed(out) == []


@pytest.mark.parametrize("name", ["my thesis.txt", ".git/config", "d/" * PARTS + "x"])
def test_what_blrc_cannot_have_left_beside_is_in_the_way(name: str, tmp_path: Path) -> None:
    (tmp_path / ".out.blrc-new" / name).parent.mkdir(parents=True)
    (tmp_path / ".out.blrc-new" / name).write_bytes(b"thesis")
    before = tree(tmp_path)
    with pytest.raises(BlrcError, match="is in the way and was not left by an export of yours"):
        write(tmp_path / "out", with_manifest(NEW))
    assert tree(tmp_path) == before
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", with_manifest(NEW))  # where a folder is, it is not in the way
    assert {path: content for path, content in tree(tmp_path).items() if path in before} == before


def test_a_folder_beside_that_all_may_write_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".out.blrc-new").mkdir()
    (tmp_path / ".out.blrc-new").chmod(0o777)
    with (
        pytest.raises(BlrcError, match="is in the way and was not left by an export of yours"),
        claimed(tmp_path / "out"),
    ):
        pass


def test_a_file_that_was_changed_just_before_a_kill_is_not_lost(tmp_path: Path) -> None:
    """It had been moved to the stage, and the killed export had not looked at it yet."""
    write_old(tmp_path)
    (tmp_path / JOURNAL).write_bytes(to_bytes(Journal(described(with_manifest(OLD)), described(with_manifest(NEW)))))
    (tmp_path / STAGE / "old").mkdir(parents=True)
    (tmp_path / STAGE / "new").mkdir()
    (tmp_path / STAGE).chmod(0o700)
    (tmp_path / "net.c").rename(tmp_path / STAGE / "old" / "net.c")
    (tmp_path / STAGE / "old" / "net.c").write_bytes(b"edited")
    before = tree(tmp_path)
    with pytest.raises(BlrcError, match=r"old/net\.c: was changed while an export was replacing it; move it away"):
        write(tmp_path, with_manifest(NEW))
    assert tree(tmp_path) == before and interrupted(tmp_path) is not None
    (tmp_path / STAGE / "old" / "net.c").unlink()
    write(tmp_path, with_manifest(NEW))
    assert tree(tmp_path) == expected({**with_manifest(NEW), **FOREIGN})

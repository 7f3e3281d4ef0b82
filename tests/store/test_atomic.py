"""One file is replaced as a whole, and what a killed process left beside it goes with the next write."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blrc.errors import BlrcError
from blrc.store import steps
from blrc.store.atomic import hidden, write_atomically

ROOT = Path(__file__).parent.parent.parent
KILLED = """
import os, signal, sys
from pathlib import Path
from blrc.store import steps
from blrc.store.atomic import write_atomically

os.fsync = lambda descriptor: None
for number in range(1, 100):
    path = Path(sys.argv[1]) / str(number) / "x.bin"
    path.parent.mkdir()
    path.write_bytes(b"old")
    child = os.fork()
    if child == 0:
        calls = []
        def before(what, place):
            calls.append(what)
            if len(calls) == number:
                if what == "write":
                    place.write_bytes(b"half")
                os.kill(os.getpid(), 9)
        steps.before = before
        write_atomically(path, b"new")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(number)
        break
"""


def test_a_killed_write_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    count = int(done.stdout)
    assert count == len(["create", "write", "sync", "rename", "sync folder"]) + 1
    found = []
    for number in range(1, count + 1):
        folder = tmp_path / str(number)
        found.append((folder / "x.bin").read_bytes())
        write_atomically(folder / "x.bin", b"newer")
        assert [path.name for path in folder.iterdir()] == ["x.bin"]
    assert found == [b"old"] * 4 + [b"new"] * 2


def test_what_is_being_written_beside_is_left_alone(tmp_path: Path) -> None:
    """Only what nobody holds is swept away, and only what has exactly such a name."""
    kept = [".x.bin.blrc-0123456", ".x.bin.blrc-0123456g", ".y.bin.blrc-01234567", ".x.bin.01234567"]
    for name in [*kept, ".x.bin.blrc-01234567", ".x.bin.blrc-89abcdef"]:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".x.bin.blrc-aaaaaaaa").symlink_to("x.bin")
    os.mkfifo(tmp_path / ".x.bin.blrc-bbbbbbbb")
    with (tmp_path / ".x.bin.blrc-89abcdef").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_atomically(tmp_path / "x.bin", b"new")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"x.bin", ".x.bin.blrc-89abcdef", ".x.bin.blrc-aaaaaaaa", ".x.bin.blrc-bbbbbbbb", *kept}


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step of one write another one takes place: each is whole, and the later rename wins."""
    path, began = tmp_path / "x.bin", []

    def another(what: str, place: Path) -> None:
        began.append(what)
        with monkeypatch.context() as patch:
            patch.setattr(steps, "before", lambda what, place: None)
            write_atomically(path, b"another")

    with monkeypatch.context() as patch:
        patch.setattr(steps, "before", another)
        write_atomically(path, b"one")
    assert len(began) == 5 and path.read_bytes() == b"another"  # it came between the rename and the folder's sync
    assert [each.name for each in tmp_path.iterdir()] == ["x.bin"]


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path / "fifo", tmp_path / "link"):
        with pytest.raises(
            BlrcError, match=f"{path.name}: cannot write: it is a device, not a file; nothing was changed"
        ):
            write_atomically(path, b"new")
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_name_that_no_file_can_have_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match="cannot write"):
        write_atomically(tmp_path / name, b"")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_the_longest_names_can_be_written(name: str, tmp_path: Path) -> None:
    write_atomically(tmp_path / name, b"new")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(os.fsencode(hidden(name, "01234567"))) <= 255


def test_a_file_is_synced_before_it_is_renamed_and_its_folder_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    trace = []
    monkeypatch.setattr(steps, "before", lambda what, path: trace.append((what, len(synced))))
    write_atomically(tmp_path / "made" / "x.bin", b"new")
    assert [what for what, _ in trace] == [
        "make folder", "sync folder", "create", "write", "sync", "rename", "sync folder"
    ]  # fmt: skip
    assert dict(trace)["rename"] == 2
    assert synced[0] == str(tmp_path) and ".x.bin.blrc-" in synced[1] and synced[2] == str(tmp_path / "made")

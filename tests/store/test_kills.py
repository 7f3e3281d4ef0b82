"""A process that writes a folder is killed at every step: the folder is the old one, the new one, or interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from exports import FOREIGN, NEW, OLD, changed, described, expected, tree, with_manifest, write, write_old

from blrc.errors import BlrcError
from blrc.exports.door import previous_files, read_manifest
from blrc.store.journal import JOURNAL, interrupted
from blrc.store.listing import Content

ROOT = Path(__file__).parent.parent.parent
BEFORE, BETWEEN, AFTER = "old", "interrupted", "new"
OLD_TREE = expected({**with_manifest(OLD), **FOREIGN})
NEW_TREE = expected({**with_manifest(NEW), **FOREIGN})


@pytest.fixture(autouse=True)
def _posix() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("processes are forked")


def kill_everywhere(
    folder: Path, base: Path | None, task: Path, replaced: Mapping[str, Content], stride: int = 1
) -> Iterator[tuple[str, Path]]:
    """Kill a process that writes the new export at each of its steps, and give each step with what it left."""
    files = {name: content.decode() for name, content in with_manifest(NEW).items()}
    described = {name: asdict(content) for name, content in replaced.items()}
    task.write_text(json.dumps({"files": files, "replaced": described, "stride": stride}))
    program = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, program, folder, base or "-", task],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "exit 0"
    for number, step in enumerate(lines):
        yield step, folder / str(1 + stride * number) / "out"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path]]:
    """The old export, replaced by a process that was killed: each step, and what it left."""
    folder = tmp_path_factory.mktemp("killed")
    write_old(folder / "base")
    return list(kill_everywhere(folder / "runs", folder / "base", folder / "task", described(with_manifest(OLD))))


def present(out: Path) -> dict[str, bytes]:
    """Return the files of the two exports that are in their places."""
    names = {*with_manifest(OLD), *with_manifest(NEW)}
    return {name: (out / name).read_bytes() for name in names if (out / name).is_file()}


def state_of(out: Path) -> str:
    """Return the state of a folder as its readers see it, and see that it is exactly that."""
    if interrupted(out) is not None:
        with pytest.raises(BlrcError, match=r"an export into it was interrupted.*--force"):
            read_manifest(out)
        with pytest.raises(BlrcError, match=r"an export into it was interrupted.*--force"):
            previous_files(out, False)
        return BETWEEN
    assert changed(out) == []
    seen = {name: content for name, content in tree(out).items() if not name.startswith(".blrc-export")}
    assert seen in (OLD_TREE, NEW_TREE)
    return BEFORE if seen == OLD_TREE else AFTER


def test_a_killed_export_leaves_the_old_one_the_new_one_or_an_interrupted_folder(
    killed: list[tuple[str, Path]],
) -> None:
    states = []
    for step, out in killed:
        states.append((step, state_of(out)))
        write(out, with_manifest(NEW))
        assert tree(out.parent) == {"out": None, **{f"out/{name}": content for name, content in NEW_TREE.items()}}, step
    order = [state for _, state in states]
    assert order == sorted(order, key=[BEFORE, BETWEEN, AFTER].index)
    # Every file is written and synced before the first one is touched, and each of them in a step of its own.
    renames = [state for step, state in states if step.startswith("rename")]
    assert order.count(BEFORE) > 3 * len(NEW) and len(renames) >= len(with_manifest(OLD)) + len(with_manifest(NEW))
    assert set(renames[1:]) == {BETWEEN} and states[-1] == ("exit 0", AFTER)


@pytest.mark.nightly
def test_an_interrupted_folder_takes_any_new_export_and_a_second_kill(tmp_path: Path) -> None:
    """The folder that a kill left is the base of the next one: its journal lists the files of both."""
    base, old = tmp_path / "base", described(with_manifest(OLD))
    write_old(base)
    left = [out for _, out in kill_everywhere(tmp_path / "runs", base, tmp_path / "task", old, 7) if interrupted(out)]
    assert len(left) > 3
    for number, first in enumerate((left[0], left[len(left) // 2], left[-1])):
        replaced = previous_files(first, True)
        assert replaced is not None and set(replaced) == {*with_manifest(OLD), *with_manifest(NEW)}
        assert described(present(first)).items() <= replaced.items()
        task, again = tmp_path / f"task{number}", tmp_path / f"again{number}"
        for step, out in kill_everywhere(again, first, task, replaced, 9):
            assert interrupted(out) or state_of(out) == AFTER
            other = with_manifest({"else.c": "other"}, "other")
            write(out, other)
            assert tree(out) == expected({**other, **FOREIGN}), step


def test_a_killed_export_into_a_new_folder_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    states = []
    for _, out in kill_everywhere(tmp_path / "runs", None, tmp_path / "task", {}):
        if out.exists():
            assert tree(out) == expected(with_manifest(NEW)) and changed(out) == []
        states.append(out.exists())
        write(out, with_manifest(NEW))
        assert tree(out) == expected(with_manifest(NEW))
        assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert states == sorted(states) and states.count(False) > 3 * len(NEW)


def test_what_a_killed_export_left_beside_goes_when_the_folder_was_made_by_hand(tmp_path: Path) -> None:
    for _, out in kill_everywhere(tmp_path / "runs", None, tmp_path / "task", {}):
        if not out.exists():
            out.mkdir()
            write(out, with_manifest(OLD), force=False)
            assert [path.name for path in out.parent.iterdir()] == ["out"]
            assert tree(out) == expected(with_manifest(OLD))


def test_an_empty_folder_that_a_killed_export_left_takes_an_export_without_force(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    refused = 0
    for _, out in kill_everywhere(tmp_path / "runs", tmp_path / "base", tmp_path / "task", {}, 3):
        if interrupted(out):
            refused += 1
            with pytest.raises(BlrcError, match="interrupted"):
                write(out, with_manifest(NEW), force=False)
            write(out, with_manifest(NEW))
        elif not (out / "net.c").exists():
            write(out, with_manifest(NEW), force=False)
        assert tree(out / ".") == expected(with_manifest(NEW)) or (out / "net.c").exists()
    assert refused > 3


def test_the_journal_is_on_the_disk_before_a_file_is_touched(killed: list[tuple[str, Path]]) -> None:
    """Of each file that is renamed, content and name were synced before the journal said that it may be placed."""
    steps = [step for step, _ in killed]
    journal = steps.index(f"rename {JOURNAL}")
    assert steps[journal + 1] == "sync folder out"
    for name in with_manifest(NEW):
        file = name.rpartition("/")[2]
        assert steps.index(f"create {file}") < steps.index(f"write {file}") < steps.index(f"sync {file}") < journal
        assert f"rename {file}" not in steps[:journal]
        parent = (Path("new") / name).parent.name
        assert f"sync folder {parent}" in steps[:journal]
    end = steps.index(f"remove {JOURNAL}")
    last = max(number for number, step in enumerate(steps) if step.startswith("rename"))
    for parent in ("out", "net", "cmake", "b", "esp"):
        assert f"sync folder {parent}" in steps[last:end]
    assert "sync folder out" in steps[end:]

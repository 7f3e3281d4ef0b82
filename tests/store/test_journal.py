"""The journal of an interrupted folder: what is read, and what may be replaced in its name."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from by_night import first
from exports import FOREIGN, NEW, OLD, described, expected, tree, with_manifest, write, write_old
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.exports.door import previous_files, read_manifest
from blrc.reading.schema import MisfitError
from blrc.store import steps
from blrc.store.claim import claimed
from blrc.store.journal import BYTES, JOURNAL, MOST_OLD, STAGE, Journal, interrupted, read_journal, to_bytes
from blrc.store.listing import MOST_BYTES, Content, check_path

EMPTY = hashlib.sha256(b"").hexdigest()

BAD_NAMES = [
    "", ".", "..", "/", "/etc/passwd", "../victim/thesis.txt", "a/../../b", "a//b", "a/", "./a", "a/./b", "a\\b", "C:x",
    "a\0b", "a\nb", "\ud800", STAGE, f"{STAGE}/new/x", JOURNAL, JOURNAL.upper(), 5, None, ["a"], {"a": 1}, True,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_name_that_reaches_out_of_the_folder_is_refused(name: Any, tmp_path: Path) -> None:
    with pytest.raises(MisfitError, match="no plain name"):
        check_path(name, "a name")
    if not isinstance(name, str):
        return
    write_old(tmp_path / "out")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "thesis.txt").write_bytes(b"thesis")
    was = tree(tmp_path)
    old = described(with_manifest(OLD))
    for files, replaced in (({name: b""}, old), (with_manifest(NEW), old | {name: Content(0, EMPTY)})):
        with claimed(tmp_path / "out") as place, pytest.raises(BlrcError, match="nothing was changed"):
            place.write(files, replaced)
    for old, new in (({name: Content(0, EMPTY)}, {}), ({}, {name: Content(0, EMPTY)})):
        (tmp_path / "out" / JOURNAL).write_bytes(to_bytes(Journal(old, new)))
        with pytest.raises(BlrcError, match="is not the journal of an export that was interrupted"):
            previous_files(tmp_path / "out", True)
        (tmp_path / "out" / JOURNAL).unlink()
    assert tree(tmp_path) == was


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["net.c", "../x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["format", "old", "new", "size", "sha256", "net.c"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(plain=JSON)
def test_a_journal_is_read_as_it_was_written_or_refused_in_one_line(plain: Any, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("journal")
    (folder / JOURNAL).write_text(json.dumps(plain))
    try:
        found = read_journal(folder)
    except BlrcError as error:
        assert "\n" not in str(error) and "is not the journal" in str(error)
        return
    assert found is not None
    assert json.loads(to_bytes(found)) == plain


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"format": 2, "old": {}, "new": {}}' + b" " * BYTES,
        b"1e999", b"9" * 5000,
    ],
    ids=lambda content: content[:10].decode(errors="replace"),
)  # fmt: skip
def test_a_damaged_journal_is_one_line_for_everybody(content: bytes, tmp_path: Path) -> None:
    write_old(tmp_path)
    (tmp_path / JOURNAL).write_bytes(content)
    was = tree(tmp_path)
    readers: list[Callable[[], Any]] = [
        lambda: interrupted(tmp_path),
        lambda: read_manifest(tmp_path),
        lambda: previous_files(tmp_path, True),
        lambda: previous_files(tmp_path, False),
        lambda: write(tmp_path, with_manifest(NEW)),
    ]
    for read in readers:
        with pytest.raises(BlrcError, match=rf"{JOURNAL}: is not the journal of an export") as refused:
            read()
        assert "\n" not in str(refused.value)
    assert tree(tmp_path) == was


def test_a_journal_round_trips(tmp_path: Path) -> None:
    journal = Journal({"a/c": Content(0, EMPTY)}, {"b": Content(2, "0" * 64)})
    (tmp_path / JOURNAL).write_bytes(to_bytes(journal))
    assert read_journal(tmp_path) == journal
    assert json.loads(to_bytes(journal)) == {
        "format": 2,
        "old": {"a/c": {"size": 0, "sha256": EMPTY}},
        "new": {"b": {"size": 2, "sha256": "0" * 64}},
    }


def test_more_names_than_a_journal_can_hold_are_refused_before_anything_is_touched(tmp_path: Path) -> None:
    write_old(tmp_path)
    was, many = tree(tmp_path), {f"{number:0100}": Content(0, EMPTY) for number in range(MOST_OLD + 1)}
    with claimed(tmp_path) as place, pytest.raises(BlrcError, match="too many files"):
        place.write(with_manifest(NEW), many)
    assert tree(tmp_path) == was
    (tmp_path / JOURNAL).write_bytes(to_bytes(Journal(many, {})))
    with pytest.raises(BlrcError, match="is not the journal"):
        read_journal(tmp_path)


def test_names_of_many_parts_are_refused_at_once(tmp_path: Path) -> None:
    """A name of 60 kB with 30,000 parts took quadratic time."""
    (tmp_path / JOURNAL).write_bytes(to_bytes(Journal({}, {"/".join("a" * 30_000): Content(0, EMPTY)})))
    started = time.process_time()
    with pytest.raises(BlrcError, match="no plain name"):
        previous_files(tmp_path, True)
    assert time.process_time() - started < 1


def test_files_of_a_journal_have_a_limit_together(tmp_path: Path) -> None:
    """They are hashed: nobody may be made to hash more than an export has."""
    (tmp_path / JOURNAL).write_bytes(to_bytes(Journal({"a": Content(MOST_BYTES, EMPTY), "b": Content(1, EMPTY)}, {})))
    with pytest.raises(BlrcError, match="are the most that is read"):
        read_journal(tmp_path)


# Journals of forgers


def _wrong(thesis: Path) -> Content:
    return Content(thesis.stat().st_size, "0" * 64)


def _shorter(thesis: Path) -> Content:
    return Content(1, hashlib.sha256(b"t").hexdigest())


@pytest.mark.parametrize("where", ["old", "new"])
@pytest.mark.parametrize("content", [_wrong, _shorter])
@pytest.mark.parametrize("name", ["thesis.txt", "sub/thesis.txt"])
def test_regression_a_forged_journal_does_not_delete_files(
    name: str, content: Callable[[Path], Content], where: str, tmp_path: Path
) -> None:
    """A journal named files of the folder, and `export --force` removed them, whatever they held."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"thesis")
    listed = {name: content(tmp_path / name)}
    forged = Journal(listed, {}) if where == "old" else Journal({}, listed)
    (tmp_path / JOURNAL).write_bytes(to_bytes(forged))
    was = tree(tmp_path)
    with pytest.raises(BlrcError, match=rf"{name}: was changed since .* interrupted; nothing was replaced") as refused:
        write(tmp_path, with_manifest(NEW))
    assert "\n" not in str(refused.value) and tree(tmp_path) == was


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _linked_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.symlink_to("elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_link, _linked_folder, _fifo, _folder])
def test_what_is_no_file_of_the_folder_is_not_removed_though_a_journal_lists_it(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "thesis.txt").write_bytes(b"thesis")
    (out / JOURNAL).write_bytes(to_bytes(Journal(described({"sub/thesis.txt": b"thesis"}), {})))
    spoil(out / "sub" / "thesis.txt")
    was = [(path, path.lstat().st_mode) for path in sorted(out.rglob("*"))]
    with pytest.raises(BlrcError, match=r"thesis\.txt: is |sub: is a symbolic link"):
        write(out, with_manifest(NEW))
    assert [(path, path.lstat().st_mode) for path in sorted(out.rglob("*"))] == was


# Files that are changed while an export runs, or before it is completed


@dataclass
class Edit:
    """Writes a file of the folder just before the step of this number, from the one that brings the journal on."""

    path: Path
    number: int
    calls: int = 0
    made: bool = False

    def __call__(self, what: str, path: Path) -> None:
        self.calls += self.calls > 0 or what == "rename"
        # Between the last look at a free name and its rename is an instant that stays open.
        if self.calls == self.number and (what, path) != ("rename", self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(b"edited")
            self.made = True


@pytest.mark.parametrize("name", first(1, ["cmake/net/gone.txt", "net.c", "fresh.c"]))
def test_regression_what_is_written_while_an_export_runs_is_not_lost(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listed file that was edited between the check and the exchange was removed with the old export."""
    refused = 0
    for number in itertools.count(1):
        out = tmp_path / str(number)
        write_old(out)
        edit = Edit(out / name, number)
        with claimed(out) as place, monkeypatch.context() as patch:
            replaced = previous_files(out, True)
            patch.setattr(steps, "before", edit)
            try:
                place.write(with_manifest(NEW), replaced)
            except BlrcError as error:
                refused += 1
                assert "\n" not in str(error)
                if interrupted(out) is None:  # all was put back
                    assert tree(out) == {**expected({**with_manifest(OLD), **FOREIGN}), name: b"edited"}, number
        assert not edit.made or b"edited" in tree(out).values(), number
        if edit.calls < number:
            break
        shutil.rmtree(out)
    assert refused > 5


def test_a_file_that_was_changed_in_an_interrupted_folder_is_not_lost(tmp_path: Path) -> None:
    write_old(tmp_path)
    (tmp_path / JOURNAL).write_bytes(to_bytes(Journal(described(with_manifest(OLD)), described(with_manifest(NEW)))))
    for name in ("net.c", "fresh.c", "cmake/net/gone.txt"):
        there = (tmp_path / name).read_bytes() if (tmp_path / name).exists() else None
        (tmp_path / name).write_bytes(b"edited")
        was = tree(tmp_path)
        with pytest.raises(BlrcError, match=rf"{name}: was changed since an export into the folder was interrupted"):
            write(tmp_path, with_manifest(NEW))
        assert tree(tmp_path) == was
        (tmp_path / name).unlink()
        if there is not None:
            (tmp_path / name).write_bytes(there)
    write(tmp_path, with_manifest(NEW))
    assert tree(tmp_path) == expected({**with_manifest(NEW), **FOREIGN})

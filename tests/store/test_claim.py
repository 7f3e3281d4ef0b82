"""Of two exports into the same place one is refused, at once, and what is not blrc's is never touched."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from exports import FOREIGN, NEW, OLD, changed, expected, tree, with_manifest, write, write_old
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.exports.door import previous_files, read_manifest
from blrc.store import atomic, lock, steps
from blrc.store.claim import claimed
from blrc.store.journal import BYTES, JOURNAL, STAGE, Journal, check_names, interrupted, read_journal, to_bytes

RUNNING = "another blrc export into it is running; wait for it to end, or choose another folder with -o$"


@pytest.fixture(params=["folder", "file"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of locks: on the folder itself, and on a file where the system cannot lock folders."""
    if request.param == "file":
        real = lock.take

        def no_folders(descriptor: int) -> bool:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise lock.UnknownLockError
            return real(descriptor)

        monkeypatch.setattr(lock, "take", no_folders)
    return str(request.param)


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_a_second_export_is_refused_until_the_first_one_ends(there: bool, locks: str, tmp_path: Path) -> None:
    out = tmp_path / "above" / "out"
    if there:
        write_old(out)
    with claimed(out) as place:
        for again in (out, tmp_path / "above" / "x" / ".." / "out"):
            with pytest.raises(BlrcError, match=RUNNING) as refused, claimed(again):
                pass
            assert "\n" not in str(refused.value)
        place.write(with_manifest(NEW), list(with_manifest(OLD)) if there else ())
        if there or locks == "folder":  # the lock beside a new folder is none on the folder, which is whole by now
            with pytest.raises(BlrcError, match=RUNNING), claimed(out):
                pass
        assert changed(out) == []  # a reader is not held up
    write(out, with_manifest(OLD))
    assert changed(out) == []
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


def test_neighbours_are_exported_side_by_side(locks: str, tmp_path: Path) -> None:
    with claimed(tmp_path / "a") as first, claimed(tmp_path / "b") as second:
        second.write(with_manifest(NEW))
        first.write(with_manifest(NEW))
    assert tree(tmp_path / "a") == tree(tmp_path / "b") == expected(with_manifest(NEW))


def test_a_claim_that_comes_to_nothing_leaves_nothing(locks: str, tmp_path: Path) -> None:
    with pytest.raises(KeyError), claimed(tmp_path / "some" / "where" / "out"):
        raise KeyError
    assert tree(tmp_path) == {}


def test_the_root_folder_is_refused_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BlrcError, match="exists already"), claimed(Path("/")):
        previous_files(Path("/"), False)


@pytest.mark.parametrize("above", ["/proc", "/dev/null", "/proc/self/fd"])
def test_regression_a_place_where_no_folder_can_be_is_refused_at_once(above: str) -> None:
    """In /proc a new folder is said not to exist, which was taken for another process's doing, again and again."""
    with pytest.raises(BlrcError, match=r"cannot write: .*; nothing was changed"), claimed(Path(above) / "out"):
        pass


def test_names_that_change_for_ever_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems give another number each time that they are asked what a name stands for."""
    for module in (lock, atomic):
        monkeypatch.setattr(module, "same", lambda descriptor, path: False)
    for write_it in (
        lambda: write(tmp_path / "out", with_manifest(NEW)),
        lambda: write(tmp_path, with_manifest(NEW)),
        lambda: atomic.write_atomically(tmp_path / "x", b""),
    ):
        with pytest.raises(BlrcError, match="cannot write: it is removed or renamed again and again"):
            write_it()


def race(out: Path, number: int, start: Any, results: Any) -> None:
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    files = with_manifest({f"{number}-{name}": str(number) for name in NEW}, f"net{number}")
    start.wait()
    try:
        write(out, files, force=True)
        results.put((number, "written"))
    except BlrcError as error:
        results.put((number, str(error)))


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_exports_that_start_together_leave_one_whole_export(there: bool, tmp_path: Path) -> None:
    """Processes of their own, started at a barrier: whoever is not refused came after another had ended."""
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "spawn")
    results = context.Queue()
    for attempt in range(10):
        out = tmp_path / str(attempt) / "out"
        if there:
            write_old(out)
        start = context.Barrier(3)
        racers = [context.Process(target=race, args=(out, number, start, results)) for number in range(3)]
        for racer in racers:
            racer.start()
        said = dict(results.get(timeout=120) for _ in racers)
        for racer in racers:
            racer.join()
        winners = [number for number, words in said.items() if words == "written"]
        assert winners and all("another blrc export" in words for n, words in said.items() if n not in winners), said
        found = tree(out)
        wanted = [with_manifest({f"{n}-{name}": str(n) for name in NEW}, f"net{n}") for n in winners]
        assert found in [expected({**files, **(FOREIGN if there else {})}) for files in wanted], said
        assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_at_every_step_of_an_export_a_second_one_is_refused(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly one of two succeeds, whenever the second one begins."""
    out, began = tmp_path / "out", []
    if there:
        write_old(out)
    names = list(with_manifest(OLD)) if there else []

    def second(what: str, path: Path) -> None:
        steps.before = lambda what, path: None
        try:
            began.append(what)
            with pytest.raises(BlrcError, match=RUNNING), claimed(out):
                pass
        finally:
            steps.before = second

    with claimed(out) as place, monkeypatch.context() as patch:
        patch.setattr(steps, "before", second)
        place.write(with_manifest(NEW), names)
    assert len(began) > 25
    assert changed(out) == []


def failing_at(number: int, error: BaseException) -> Callable[[str, Path], None]:
    calls = itertools.count(1)

    def before(what: str, path: Path) -> None:
        if next(calls) == number:
            raise error

    return before


def interrupt(out: Path) -> None:
    """Make the old export one that was interrupted."""
    names = frozenset(with_manifest(OLD))
    (out / JOURNAL).write_bytes(to_bytes(Journal(names | {"net.c", "left.c"}, frozenset({"e/f"}))))
    (out / "left.c").write_bytes(b"of the interrupted export")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "ctrl-C"])
@pytest.mark.parametrize("base", ["old", "none", "interrupted"])
def test_an_error_at_any_step_puts_everything_back(
    base: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if base != "none":
        write_old(out)
    if base == "interrupted":
        interrupt(out)
    was, journal, undone = tree(tmp_path), read_journal(out), 0
    new = expected(
        {f"out/{name}": content for name, content in (with_manifest(NEW) | (FOREIGN if was else {})).items()}
    )
    for number in itertools.count(1):
        with claimed(out) as place:
            replaced = previous_files(out, True) or ()
            with monkeypatch.context() as patch:
                patch.setattr(steps, "before", failing_at(number, error))
                with suppress(BlrcError, KeyboardInterrupt):
                    place.write(with_manifest(NEW), replaced)
        now = tree(tmp_path)
        if interrupted(out) is not None:  # the names of both exports are in the journal, as before
            kept = read_journal(out)
            assert kept is not None and journal is not None and kept.names >= journal.names
            now["out/" + JOURNAL] = was["out/" + JOURNAL]
        if now != was:
            break
        undone += 1
    now.pop("out/" + STAGE, None)  # what was left of it when the error came at the very end
    assert {name: content for name, content in now.items() if STAGE not in name} == new
    assert undone > (70 if was else 25)


def test_where_putting_back_fails_too_the_folder_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write_old(out)
    seen = []

    def no_more(what: str, path: Path) -> None:
        seen.append(what)
        if what == "rename" and seen.count("rename") > 4:
            raise OSError(28, "No space left on device")

    with (
        monkeypatch.context() as patch,
        pytest.raises(BlrcError, match=r"cannot put back the earlier files .*\.blrc-export/old; .* --force$"),
    ):
        patch.setattr(steps, "before", no_more)
        write(out, with_manifest(NEW))
    assert interrupted(out) is not None
    write(out, with_manifest(NEW))
    assert tree(out) == expected({**with_manifest(NEW), **FOREIGN})


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
    # Only a plain folder of this user may be a stage, or stand in the way of an export's folder. A listed file that is
    # not what the manifest says is refused, whatever it is.
    assert taken == (
        (kind == "folder" and place in (STAGE, "beside", ".blrc-abcdefgh"))
        or place == ".blrc-abcdefgh"
        or (place == "cmake/net" and kind == "folder")
        or (place == "cmake" and kind == "folder")
    )


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


BAD_NAMES = [
    "", ".", "..", "/", "/etc/passwd", "../victim/thesis.txt", "a/../../b", "a//b", "a/", "./a", "a/./b", "a\\b", "C:x",
    "a\0b", "a\nb", "\ud800", STAGE, f"{STAGE}/new/x", JOURNAL, JOURNAL.upper(), 5, None, ["a"], {"a": 1}, True,
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_name_that_reaches_out_of_the_folder_is_refused(name: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="name"):
        check_names([name])
    if not isinstance(name, str):
        return
    write_old(tmp_path / "out")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "thesis.txt").write_bytes(b"thesis")
    was = tree(tmp_path)
    for files, replaced in (({name: b""}, [*with_manifest(OLD)]), (with_manifest(NEW), [*with_manifest(OLD), name])):
        with claimed(tmp_path / "out") as place, pytest.raises(BlrcError, match="nothing was changed"):
            place.write(files, replaced)
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
        | st.dictionaries(st.sampled_from(["format", "placed", "removed", "more"]), inner, max_size=4)
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
    assert plain == {"format": 1, "placed": plain["placed"], "removed": plain["removed"]}
    assert found == Journal(frozenset(plain["placed"]), frozenset(plain["removed"]))
    check_names(found.names)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"format": 1, "placed": [], "removed": []}' + b" " * BYTES,
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


def test_a_journal_round_trips() -> None:
    journal = Journal(frozenset({"b", "a/c"}), frozenset({"z"}))
    assert journal.names == {"b", "a/c", "z"}
    assert to_bytes(journal) == b'{\n "format": 1,\n "placed": [\n  "a/c",\n  "b"\n ],\n "removed": [\n  "z"\n ]\n}\n'


def test_more_names_than_a_journal_can_hold_are_refused_before_anything_is_touched(tmp_path: Path) -> None:
    write_old(tmp_path)
    was = tree(tmp_path)
    with claimed(tmp_path) as place, pytest.raises(BlrcError, match="too many files"):
        place.write(with_manifest(NEW), [f"{number:0100}" for number in range(12_000)])
    assert tree(tmp_path) == was


def test_claims_that_come_and_go_harm_nobody(locks: str, tmp_path: Path) -> None:
    """A claim of a new folder makes and removes what grows beside it; the lock of a removed one is worth nothing."""
    out, stop, refused = tmp_path / "out", threading.Event(), list[str]()

    def contend() -> None:
        while not stop.wait(0.001):
            try:
                with claimed(out):
                    pass
            except BlrcError as error:
                refused.append(str(error))

    thread = threading.Thread(target=contend)
    thread.start()
    written = 0
    try:
        for attempt in range(10_000):
            files = with_manifest({"net.c": str(attempt), f"{attempt}.c": ""})
            try:
                write(out, files)
            except BlrcError as error:
                refused.append(str(error))
                continue
            assert {name: (out / name).read_bytes() for name in files} == files
            written += 1
            if written == 20:
                break
    finally:
        stop.set()
        thread.join()
    assert written == 20 and all("another blrc export" in words for words in refused)
    assert tree(tmp_path) == {"out": None, **{f"out/{name}": content for name, content in files.items()}}

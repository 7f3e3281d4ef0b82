"""Of two exports into the same place one is refused, at once, and what is not blrc's is never touched."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from by_night import first
from exports import FOREIGN, NEW, OLD, changed, described, expected, tree, with_manifest, write, write_old

from blrc.errors import BlrcError
from blrc.exports.door import previous_files
from blrc.store import atomic, lock, steps
from blrc.store.claim import claimed
from blrc.store.journal import JOURNAL, STAGE, Journal, interrupted, to_bytes

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
        place.write(with_manifest(NEW), described(with_manifest(OLD)) if there else {})
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


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("attempts", [1, pytest.param(10, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("there", first(1, [True, False]), ids=["there", "new"])
def test_exports_that_start_together_leave_one_whole_export(there: bool, attempts: int, tmp_path: Path) -> None:
    """Processes of their own, started at a barrier: whoever is not refused came after another had ended."""
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "spawn")
    results = context.Queue()
    for attempt in range(attempts):
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
    names = described(with_manifest(OLD)) if there else {}

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
    left = {"left.c": b"of the interrupted export"}
    old = described(with_manifest(OLD) | {"never.c": b""})
    (out / JOURNAL).write_bytes(to_bytes(Journal(old, described(left | {"net.c": b"never placed"}))))
    (out / "left.c").write_bytes(left["left.c"])


@pytest.mark.parametrize(
    "error", first(1, [KeyboardInterrupt(), OSError(28, "No space left on device")]), ids=["ctrl-C", "disk"]
)
@pytest.mark.parametrize("base", ["old", "none", "interrupted"])
def test_an_error_at_any_step_puts_everything_back(
    base: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if base != "none":
        write_old(out)
    if base == "interrupted":
        interrupt(out)
    was, undone = tree(tmp_path), 0
    new = expected(
        {f"out/{name}": content for name, content in (with_manifest(NEW) | (FOREIGN if was else {})).items()}
    )
    for number in itertools.count(1):
        with claimed(out) as place:
            replaced = previous_files(out, True)
            with monkeypatch.context() as patch:
                patch.setattr(steps, "before", failing_at(number, error))
                with suppress(BlrcError, KeyboardInterrupt):
                    place.write(with_manifest(NEW), replaced)
        now = tree(tmp_path)
        if interrupted(out) is not None:  # its journal describes what is there, as before
            assert base == "interrupted" and (previous_files(out, True) or {}).items() >= (replaced or {}).items()
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

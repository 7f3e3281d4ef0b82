"""Replace the export in a folder so that it holds the old one or the new one, whenever the process is killed.

The folder may be somebody's working directory, or a mount, and may hold files that are not blrc's. It goes through
these states, each of which is on the disk before the next one begins:

1. *old*: the new files are written to ``.blrc-export/new`` inside the folder; no other file is touched.
2. *interrupted*: ``.blrc-journal`` names what will be placed and what will be removed. The files of the old export go
   to ``.blrc-export/old``, and those of the new one take their places.
3. *new*: the journal is removed, which is one step, and then ``.blrc-export``.

A process that is killed leaves the folder in the state that it was in. Code that reads a folder refuses the second
state (`blrc.store.journal.interrupted`). In every state ``export --force`` writes a new export. In the second state it
may replace every file that holds what the journal says of it, before or after. It also removes what the killed process
left (`blrc.store.leftover`).

A process that is not killed but fails (a full disk, a file in the way, Ctrl-C) puts everything back as it was. If
putting back fails as well, the folder stays *interrupted*. A folder that was *interrupted* before stays so. A file that
is changed while the export runs is somebody's work: the change is noticed after the file has been moved away, and
everything is put back.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from blrc.errors import BlrcError
from blrc.store import journal, steps
from blrc.store.journal import JOURNAL, STAGE, Journal
from blrc.store.leftover import NEW, OLD, remove_left_over
from blrc.store.listing import MOST_FILES, Content, content_of, holds


def replace(folder: Path, files: Mapping[str, bytes], replaced: Mapping[str, Content]) -> None:
    """Put `files` (relative name -> content) into a folder that exists, all of them or none.

    Args:
        replaced: the files of an earlier export that are removed, with what they hold; all other files in the folder
            stay.

    Raises:
        BlrcError: a file that is not of the earlier export is in the way, a file of that export was changed, or what
            was there cannot be put back.
        OSError: the folder cannot be written, or the disk is full; what was there is still there.
    """
    unfinished = journal.read_journal(folder)
    record = journal.to_bytes(Journal(replaced, {name: content_of(content) for name, content in files.items()}))
    if len(replaced) > journal.MOST_OLD or len(files) > MOST_FILES or len(record) > journal.BYTES:
        raise BlrcError(f"{folder}: its earlier export has too many files; move them away")
    names = sorted({*files, *replaced})
    _check_room(folder, names, replaced)
    remove_left_over(folder, unfinished)
    stage = folder / STAGE
    touched: list[str] = []
    try:
        steps.make_folder(stage, mode=0o700)  # whatever lies in it, nobody else put it there
        for made in (stage / NEW, stage / OLD):
            steps.make_folder(made)
        write_all(stage / NEW, files)
        steps.write_new(stage / JOURNAL, record)
        steps.sync_folder(stage)
        steps.sync_folder(folder)
        steps.rename(stage / JOURNAL, folder / JOURNAL)
        steps.sync_folder(folder)
        _exchange(folder, files, replaced, names, touched)
        steps.remove(folder / JOURNAL)
    except BaseException:  # an interrupt, too, must not lose what was there
        if not touched or steps.kind_of(folder / JOURNAL) is not None:  # else it came when all was done
            _put_back(folder, files, touched, unfinished is not None)
        with suppress(OSError):
            steps.remove_tree(stage)
        raise
    with suppress(OSError):  # the new export is in place; what is left of the stage goes with the next one
        steps.sync_folder(folder)
        steps.remove_tree(stage)
        steps.sync_folder(folder)


def write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write `files` into an empty folder, and wait until they are on the disk."""
    for name, content in sorted(files.items()):
        for above in _above(name):
            if steps.kind_of(folder / above) is None:
                steps.make_folder(folder / above)
        steps.write_new(folder / name, content)
    steps.sync_tree(folder)


def _check_room(folder: Path, names: Iterable[str], replaced: Collection[str]) -> None:
    """Check that every name is free or is a file of the earlier export, reached through no symbolic link."""
    for name in names:
        for above in _above(name):
            if steps.kind_of(folder / above) not in (None, stat.S_IFDIR) and above not in replaced:
                raise BlrcError(f"{folder / above}: is in the way of a folder of the export; move it away")
        kind = steps.kind_of(folder / name)
        if kind is not None and name not in replaced:
            raise BlrcError(f"{folder / name}: is in the way and not of the earlier export; move it away")
        if kind not in (None, stat.S_IFREG):
            raise BlrcError(f"{folder / name}: is in the way and no file, as the earlier export's was; move it away")


def _exchange(
    folder: Path, files: Collection[str], replaced: Mapping[str, Content], names: Sequence[str], touched: list[str]
) -> None:
    """Move the old files away and the new ones to their places, and wait until that is on the disk.

    Args:
        touched: a list to which each name is added before its file is touched.

    Raises:
        BlrcError: a file is no longer what it was when it was checked.
    """
    new, old = folder / STAGE / NEW, folder / STAGE / OLD
    for name in names:
        touched.append(name)
        if name in replaced and steps.kind_of(folder / name) is not None:
            steps.make_folders((old / name).parent)
            steps.rename(folder / name, old / name)
            if not holds(old / name, replaced[name]):  # looked at where nobody writes to it any more
                raise _changed(folder / name)
        if name in files:
            if steps.kind_of(folder / name) is not None:
                raise _changed(folder / name)
            steps.make_folders((folder / name).parent)
            steps.rename(new / name, folder / name)
    for name in touched:
        if name not in files:
            _remove_empty((folder / name).parent, folder)
    _sync_around(folder, touched)


def _changed(path: Path) -> BlrcError:
    return BlrcError(f"{path}: was changed while the export was running; everything was put back: move it away")


def _put_back(folder: Path, files: Mapping[str, bytes], touched: list[str], keep_journal: bool) -> None:
    """Undo `_exchange`, as far as it came.

    Raises:
        BlrcError: the earlier files cannot be put back.
    """
    new, old = folder / STAGE / NEW, folder / STAGE / OLD
    try:
        for name in reversed(touched):
            place, kept = folder / name, steps.kind_of(old / name) is not None
            placed = name in files and steps.kind_of(new / name) is None
            if (kept or placed) and steps.kind_of(place) is not None:
                if not placed or not holds(place, content_of(files[name])):
                    raise FileExistsError(errno.EEXIST, f"{place} was written meanwhile")
                if not kept:
                    steps.remove(place)
            if kept:
                steps.make_folders(place.parent)
                steps.rename(old / name, place)
            _remove_empty(place.parent, folder)
        _sync_around(folder, touched)
        if not keep_journal and steps.kind_of(folder / JOURNAL) is not None:
            steps.remove(folder / JOURNAL)
            steps.sync_folder(folder)
    except OSError as error:
        raise BlrcError(
            f"{folder}: cannot put back the earlier files ({error.strerror or error}); they are in {old}; take them "
            "from there, or export again with --force"
        ) from None


def _sync_around(folder: Path, names: Iterable[str]) -> None:
    """Sync every existing folder in which one of `names` was placed or removed."""
    for above in sorted({above for name in names for above in (".", *_above(name))}):
        if steps.kind_of(folder / above) == stat.S_IFDIR:
            steps.sync_folder(folder / above)


def _remove_empty(inner: Path, folder: Path) -> None:
    """Remove the folders of an export that have become empty, from `inner` up to but not including `folder`."""
    while inner != folder:
        if steps.kind_of(inner) == stat.S_IFDIR:
            if any(inner.iterdir()):
                return
            steps.remove_folder(inner)
        inner = inner.parent


def _above(name: str) -> list[str]:
    """Return the folders that a relative name goes through, outermost first."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]

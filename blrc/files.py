"""Writing files so that nothing is lost or half written: write beside, then rename."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from blrc.bounded.regular import check_name, check_output
from blrc.errors import BlrcError


def cache_folder(name: str) -> Path:
    """``$BLRC_CACHE/<name>``; where that is not set, ``$XDG_CACHE_HOME/blrc/<name>``, or ``~/.cache/blrc/<name>``.

    Raises:
        BlrcError: none of them is set and the user has no home folder.
    """
    if own := os.environ.get("BLRC_CACHE", ""):
        return Path(own) / name
    try:
        base = os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache"
    except RuntimeError:
        raise BlrcError("no home folder for files to keep; set BLRC_CACHE to a folder") from None
    return Path(base) / "blrc" / name


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`, or leave it as it was.

    Raises:
        BlrcError: the folder is missing or read-only, or the disk is full.
    """
    check_output(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).chmod(0o666 & ~_umask())
        Path(beside).replace(path)
    except OSError as error:
        Path(beside).unlink(missing_ok=True)
        raise _cannot_write(path, error) from None
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def is_folder(path: Path) -> bool:
    """Whether it is one.

    Raises:
        BlrcError: the system cannot say, as for a name that is too long.
    """
    try:
        return path.is_dir()
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None


def expect_folder(path: Path, content: str) -> None:
    """See that a folder is there which should hold `content`.

    Raises:
        BlrcError: it is not.
    """
    if not is_folder(path):
        what = "is a file, not a folder" if path.exists() else "no such folder"
        raise BlrcError(f"{path}: {what}; give one with {content}")


def writable(folder: Path) -> None:
    """Make `folder` if it is not there, and see that a file can be written into it.

    Raises:
        BlrcError: it cannot.
    """
    check_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from None


def write_folder(folder: Path, files: Mapping[str, bytes], replaced: Collection[str] | None) -> None:
    """Put `files` (relative path -> content) into `folder`, all of them or none.

    A new folder is written beside its place and renamed. In a folder that is there (it may be somebody's working
    directory, or a mount) the files are written to a hidden folder inside it, then each takes its place; if one cannot,
    all go back.

    Args:
        replaced: files already there that belong to an earlier export and go; whatever else is there stays. None: there
            must be no such folder yet.

    Raises:
        BlrcError: a file that is not of the earlier export is in the way, the folder cannot be written, or the disk is
            full; what was there is still there.
    """
    folder = folder.resolve()
    try:
        if replaced is None:
            _write_new(folder, files)
        else:
            _write_into(folder, files, replaced)
    except OSError as error:
        raise _cannot_write(folder, error) from None


def _write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write_all(beside, files)
        beside.chmod(0o777 & ~_umask())
        if folder.exists():
            raise FileExistsError(errno.EEXIST, "it appeared while the export was running")
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_into(folder: Path, files: Mapping[str, bytes], replaced: Collection[str]) -> None:
    for name in sorted(set(files) - set(replaced)):
        if os.path.lexists(folder / name):
            raise BlrcError(f"{folder / name}: is in the way and not of the earlier export; move it away")
    stage = Path(tempfile.mkdtemp(prefix=".blrc-", dir=folder))
    new, old = stage / "new", stage / "old"
    touched: list[str] = []
    try:
        _write_all(new, files)
        for name in sorted({*files, *replaced}):
            touched.append(name)
            if os.path.lexists(folder / name):
                (old / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).rename(old / name)
            if name in files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).rename(folder / name)
    except BaseException:  # an interrupt, too, must not lose what was there
        try:
            _put_back(folder, new, old, reversed(touched), files)
        except OSError as error:
            raise BlrcError(
                f"{folder}: cannot put back the earlier files ({error.strerror or error}); they are in {old}"
            ) from None
        shutil.rmtree(stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)
    for name in set(replaced) - set(files):
        _remove_empty((folder / name).parent, folder)


def _put_back(folder: Path, new: Path, old: Path, touched: Iterable[str], files: Mapping[str, bytes]) -> None:
    for name in touched:
        if os.path.lexists(old / name):
            (old / name).replace(folder / name)
        elif name in files and not (new / name).exists():
            (folder / name).unlink()
            _remove_empty((folder / name).parent, folder)


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _remove_empty(inner: Path, folder: Path) -> None:
    """Remove folders of an export that have become empty, up to `folder` itself."""
    while inner != folder and inner.is_dir() and not any(inner.iterdir()):
        inner.rmdir()
        inner = inner.parent


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(path: Path, error: OSError) -> BlrcError:
    return BlrcError(f"{path}: cannot write: {error.strerror or error}; nothing was changed")

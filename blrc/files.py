"""Writing files so that nothing is lost or half written: write beside, then rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from blrc.errors import BlrcError

BUILD = "build"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`, or leave it as it was.

    Raises:
        BlrcError: the folder is missing or read-only, or the disk is full.
    """
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


def write_folder(folder: Path, files: Mapping[str, bytes], replaced: Collection[str] | None) -> None:
    """Put `files` (relative path -> content) into `folder`, all of them or none.

    Args:
        replaced: files already there that belong to an earlier export and go; whatever else is there stays. None: there
            must be no such folder yet.

    Raises:
        BlrcError: the folder cannot be written, or the disk is full; what was there is still there.
    """
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise _cannot_write(folder, error) from None
    try:
        if replaced is not None:
            _keep_others(folder, beside, {*replaced, *files})
        for name, content in files.items():
            target = beside / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        beside.chmod(0o777 & ~_umask())
        _swap(beside, folder)
    except OSError as error:
        raise _cannot_write(folder, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _keep_others(folder: Path, beside: Path, ours: Collection[str]) -> None:
    """Copy what a user has put into the folder, but for build outputs, which belong to the old files."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if (path.is_dir() and not path.is_symlink()) or name.as_posix() in ours or name.parts[0] == BUILD:
            continue
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, beside / name, follow_symlinks=False)


def _swap(beside: Path, folder: Path) -> None:
    if not folder.exists():
        beside.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        folder.rename(old / "old")
        beside.rename(folder)
    except BaseException:  # an interrupt, too, must not lose what was there
        if (old / "old").exists() and not folder.exists():
            (old / "old").rename(folder)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(path: Path, error: OSError) -> BlrcError:
    return BlrcError(f"{path}: cannot write: {error.strerror or error}; nothing was changed")

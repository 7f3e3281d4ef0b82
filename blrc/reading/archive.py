"""Zip archives whose members are held as they are, so that they have no more bytes than the file."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import BinaryIO

from blrc.reading import regular

DIRECTORY = 8 << 20
"""Bytes of the longest table of contents that is read: some 100,000 members."""

PICKLE = 4 << 20
"""Bytes of the longest pickle: a byte of it can ask for sixty bytes of memory."""


class Opening(io.BufferedIOBase):
    """A file of which no more than a table of contents can be read at once.

    zipfile reads that table whole, however large the archive says that it is.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = DIRECTORY + 1 if size is None or size < 0 else size
        if size != wanted or wanted <= DIRECTORY:
            content = self._file.read(wanted)
            if len(content) <= DIRECTORY:
                return content
        raise ValueError(f"its table of contents is longer than {DIRECTORY:,} bytes")


def read_stored(path: Path, most: int = regular.LARGEST) -> bytes:
    """The content of a zip file by torch, which takes no more memory than the file has bytes.

    Raises:
        OSError: the file cannot be read, or is no regular file, or has more than `most` bytes.
        ValueError: it is no zip file, its members are compressed or lie over each other, or a pickle is too long.
    """
    with regular.opened(path) as (file, size):
        try:
            with zipfile.ZipFile(Opening(file)) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError) as error:
            raise ValueError(f"it is no whole zip file: {error}") from None
        if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in members):
            raise ValueError("a member of it is compressed or encrypted")
        if sum(info.file_size for info in members) > size:
            raise ValueError("its members have more bytes than the file")
        if any(info.file_size > PICKLE for info in members if info.filename.endswith(".pkl")):
            raise ValueError(f"a pickle in it has more than {PICKLE:,} bytes")
    return regular.read(path, most)

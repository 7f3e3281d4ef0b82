"""Read zip archives whose members are stored uncompressed, so that they take no more bytes than the file."""

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
    """Wrap a file so that no more than the longest table of contents (`DIRECTORY`) can be read from it at once.

    `zipfile` reads the table of contents as a whole, however large the archive says that it is.
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
    """Return the content of a zip file that torch wrote, without taking more memory than the file has bytes.

    Raises:
        OSError: the file cannot be read, is no regular file, or has more than `most` bytes.
        ValueError: the file is no zip file, its members are compressed or overlap, or a pickle in it is too long.
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

"""Read the members of a zip file of stored members, as ``torch.save`` writes it.

The directory at the file's end is read, and every size that it declares is checked against the file. Members are given
as views of the file's bytes. Torch never writes compressed or encrypted members, archives of several parts or
overlapping members, so these are refused.
"""

from __future__ import annotations

import struct

END = struct.Struct("<IHHHHIIH")  # the record at the end: signature, 4 counts of parts and entries, directory, comment
ENTRY = struct.Struct("<IHHHHHHIIIHHHHHII")  # an entry of the directory
LOCAL = struct.Struct("<IHHHHHIIIHH")  # what stands before a member's bytes
MOST_ENTRIES = 20_000  # of tensors, mostly: a network has at most six for each layer
_ENCRYPTED = 0x0001


class ArchiveError(ValueError):
    """Report a zip file that is damaged, or that holds what torch does not write."""


def members(raw: memoryview, comment: int) -> dict[str, memoryview]:
    """Return the bytes of every member by name.

    Args:
        raw: the whole file.
        comment: the number of bytes at the end of the file that are the zip's comment.

    Raises:
        ArchiveError: the file is no such archive.
    """
    at = len(raw) - comment - END.size
    if at < 0:
        raise ArchiveError("it ends too early")
    signature, part, first, here, count, size, start, length = END.unpack_from(raw, at)
    if (signature, length) != (0x06054B50, comment) or part or first or here != count:
        raise ArchiveError("it has no directory")
    if count > MOST_ENTRIES:
        raise ArchiveError(f"it has {count} members, and {MOST_ENTRIES} are allowed")
    if start + size > at:
        raise ArchiveError("its directory lies outside of it")
    found: dict[str, memoryview] = {}
    position, total = start, 0
    for _ in range(count):
        name, member, position = _entry(raw, position, start + size, start)
        if name in found:
            raise ArchiveError(f"it has two members {name!r}")
        total += len(member)
        if total > len(raw):
            raise ArchiveError("its members overlap")
        found[name] = member
    return found


def _entry(raw: memoryview, at: int, end: int, start: int) -> tuple[str, memoryview, int]:
    """Return the name and bytes of the member whose directory entry begins at `at`, and where the next entry begins."""
    if at + ENTRY.size > end:
        raise ArchiveError("its directory ends too early")
    signature, _, _, flags, method, _, _, _, packed, size, name_length, extra, note, part, _, _, offset = (
        ENTRY.unpack_from(raw, at)
    )
    following = at + ENTRY.size + name_length + extra + note
    if signature != 0x02014B50 or following > end or part:
        raise ArchiveError("its directory is damaged")
    try:
        name = bytes(raw[at + ENTRY.size : at + ENTRY.size + name_length]).decode("ascii")
    except UnicodeDecodeError:
        raise ArchiveError("a member's name is not ASCII") from None
    if method or flags & _ENCRYPTED or packed != size:
        raise ArchiveError(f"member {name!r} is compressed or encrypted")
    if offset + LOCAL.size > start:
        raise ArchiveError(f"member {name!r} lies outside of it")
    local = LOCAL.unpack_from(raw, offset)
    begin = offset + LOCAL.size + local[9] + local[10]
    if local[0] != 0x04034B50 or begin + size > start:
        raise ArchiveError(f"member {name!r} lies outside of it")
    return name, raw[begin : begin + size], following

"""Read the plain data and tensors of a file of ``torch.save``, with the tensors as NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blrc.reading.torchzip import archive, pickled
from blrc.reading.torchzip.pickled import Global, PickledError

_REBUILD = "torch._utils _rebuild_tensor_v2"
_DTYPES: Mapping[str, np.dtype[Any]] = {
    "torch DoubleStorage": np.dtype(np.float64),
    "torch FloatStorage": np.dtype(np.float32),
    "torch HalfStorage": np.dtype(np.float16),
    "torch LongStorage": np.dtype(np.int64),
    "torch IntStorage": np.dtype(np.int32),
    "torch ShortStorage": np.dtype(np.int16),
    "torch CharStorage": np.dtype(np.int8),
    "torch ByteStorage": np.dtype(np.uint8),
}
_MOST_AXES = 16
_MOST = 2**40  # of sizes, strides and offsets: no product of them is slow


@dataclass(eq=False)
class _Storage:
    """Hold the values of a member of the archive, and how many of them no tensor has taken yet."""

    values: NDArray[Any]
    left: int


def read(raw: bytes, comment: int = 0) -> Any:
    """Return the content of a file, with its tensors as read-only arrays that are views of `raw`.

    Args:
        comment: the number of bytes at the end that are the zip's comment.

    Raises:
        ArchiveError, PickledError: the file is no such file, or holds something else (both are a `ValueError`).
    """
    members = archive.members(memoryview(raw).toreadonly(), comment)
    described = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(described) != 1:
        raise archive.ArchiveError("it has no description of its content (data.pkl)")
    content = _Content(members, described[0].removesuffix("data.pkl"))
    return pickled.load(bytes(members[described[0]]), content.tensor, content.storage)


class _Content:
    def __init__(self, members: dict[str, memoryview], prefix: str) -> None:
        self.members, self.prefix = members, prefix
        order = bytes(members.get(f"{prefix}byteorder", memoryview(sys.byteorder.encode()))[:8])
        if order not in (b"little", b"big"):
            raise archive.ArchiveError("its order of bytes is unknown")
        self.order: Literal["<", ">"] = "<" if order == b"little" else ">"
        self.storages: dict[str, _Storage] = {}

    def storage(self, identity: tuple[Any, ...]) -> _Storage:
        """Return the storage of a persistent id ``("storage", type, member, device, count)``; the device is ignored."""
        if len(identity) != 5 or identity[0] != "storage" or type(identity[1]) is not Global:
            raise PickledError("a storage that is described in an unknown way")
        _, kind, key, _, count = identity
        dtype = _DTYPES.get(kind.name)
        if dtype is None:
            raise PickledError(f"tensors of {kind.name.replace(' ', '.')[:60]} are not supported")
        if type(key) is not str or (member := self.members.get(f"{self.prefix}data/{key}")) is None:
            raise PickledError("a storage that the file does not have")
        if key in self.storages:
            known = self.storages[key]
            if known.values.dtype != dtype.newbyteorder(self.order) or count != len(known.values):
                raise PickledError("a storage that is described in two ways")
            return known
        if type(count) is not int or not 0 <= count * dtype.itemsize <= len(member):
            raise PickledError("a storage with more values than the file has")
        values = np.frombuffer(member, dtype.newbyteorder(self.order), count)
        self.storages[key] = _Storage(values, count)
        return self.storages[key]

    def tensor(self, name: str, arguments: tuple[Any, ...]) -> NDArray[Any]:
        """Return ``_rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks)`` as a view of `storage`.

        No more values are taken from a storage than it has, so a stride of 0 cannot make a small file large.
        """
        if name != _REBUILD:
            raise PickledError(f"{name.replace(' ', '.')} is not allowed")
        if len(arguments) != 6 or type(arguments[0]) is not _Storage:
            raise PickledError("a tensor that is described in an unknown way")
        storage, offset, sizes, strides, gradient, hooks = arguments
        if gradient is not False or hooks != {}:
            raise PickledError("a tensor with a gradient or with hooks")
        if type(sizes) is not tuple or type(strides) is not tuple or len(sizes) != len(strides):
            raise PickledError("a tensor without a shape")
        if len(sizes) > _MOST_AXES or any(type(n) is not int or not 0 <= n < _MOST for n in (offset, *sizes, *strides)):
            raise PickledError("a tensor of an impossible shape")
        count = 1
        for size in sizes:
            count *= size
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if count and last >= len(storage.values):
            raise PickledError("a tensor that reaches beyond its storage")
        if count > storage.left:
            raise PickledError("a tensor of more values than its storage")
        storage.left -= count
        values = storage.values
        if not count:
            return np.empty(sizes, values.dtype.newbyteorder("="))
        steps = tuple(stride * values.dtype.itemsize for stride in strides)
        return np.lib.stride_tricks.as_strided(values[offset:], sizes, steps, writeable=False)

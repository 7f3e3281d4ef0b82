"""Read a pickle of plain data and tensors with an interpreter of its own that knows only a few operations.

Python's own unpickler is not safe for untrusted files, however its look-ups are restricted: an index in the memo makes
it allocate gigabytes, and keys that are nested tuples keep it busy for ever. This interpreter reads dictionaries with
texts as keys, lists, tuples, texts, numbers, None, and tensors. Every operation takes bounded time and memory, and all
other operations are refused by name.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any, NoReturn

MOST_BYTES = 2**20  # of the pickle: a layer takes some 300
MOST_DIGITS = 64  # bytes of a whole number: far beyond every limit of an option, and printed at once
ORDERED = "collections OrderedDict"
_MARK = object()
_NAMES = {ord(op.code): op.name for op in pickletools.opcodes}


class PickledError(ValueError):
    """Report a pickle that holds something other than plain data and tensors."""


class Global:
    """Stand for a name that the pickle looks up; nothing is imported."""

    def __init__(self, name: str) -> None:
        self.name = name


def load(data: bytes, tensor: Callable[[str, tuple[Any, ...]], Any], storage: Callable[[tuple[Any, ...]], Any]) -> Any:
    """Return the object that a pickle describes.

    Args:
        tensor: builds what a call in the pickle stands for, from the name and the arguments of the call; raises
            `PickledError` for an unknown name.
        storage: returns what stands for a storage, from its persistent id.

    Raises:
        PickledError: the pickle is damaged or too large, or has other operations or objects.
    """
    if len(data) > MOST_BYTES:
        raise PickledError(f"{len(data)} bytes of description, and {MOST_BYTES} are allowed")
    return _Reader(data, tensor, storage).run()


class _Reader:
    def __init__(
        self,
        data: bytes,
        tensor: Callable[[str, tuple[Any, ...]], Any],
        storage: Callable[[tuple[Any, ...]], Any],
    ) -> None:
        self.data, self.tensor, self.storage = data, tensor, storage
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            code = self.data[self.at : self.at + 1]
            if not code:
                _refuse("it ends too early")
            self.at += 1
            if code == b".":
                if len(self.stack) != 1:
                    _refuse("it does not end with one object")
                return self.pop()
            operation = _OPERATIONS.get(code[0])
            if operation is None:
                _refuse(f"operation {_NAMES.get(code[0], code[0])} is not allowed")
            operation(self)

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        part = self.data[self.at : self.at + count]
        if len(part) < count:
            _refuse("it ends too early")
        self.at += count
        return part

    def number(self, form: str) -> int:
        """Read a number in a format of `struct`."""
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def line(self) -> str:
        """Read the text up to the end of the line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            _refuse("it ends too early")
        return _text(self.take(end + 1 - self.at)[:-1])

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            _refuse("an operation finds no object")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """Return the object on top of the stack, which must be of this type, and leave it there."""
        if not self.stack or type(self.stack[-1]) is not kind:
            _refuse(f"an operation finds no {kind.__name__}")
        return self.stack[-1]

    def popped(self, count: int) -> tuple[Any, ...]:
        return tuple([self.pop() for _ in range(count)][::-1])

    def since_mark(self) -> list[Any]:
        """Remove the last mark and all objects above it from the stack, and return the objects."""
        values = []
        while self.stack and self.stack[-1] is not _MARK:
            values.append(self.stack.pop())
        if not self.stack:
            _refuse("an operation finds no mark")
        self.stack.pop()
        return values[::-1]

    def remember(self, index: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            _refuse("an operation finds no object")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            _refuse("it refers to an object that it does not have")
        self.push(self.memo[index])

    def items(self, pairs: list[Any]) -> None:
        found = self.top(dict)
        if len(pairs) % 2:
            _refuse("a key without a value")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(key) is not str:
                _refuse(f"a key that is no text but a {type(key).__name__}")
            found[key] = value

    def call(self) -> None:
        function, arguments = self.popped(2)
        if type(function) is not Global or type(arguments) is not tuple:
            _refuse("a call of what is no function")
        self.push({} if function.name == ORDERED and arguments == () else self.tensor(function.name, arguments))

    def identified(self) -> None:
        identity = self.pop()
        if type(identity) is not tuple:
            _refuse("a storage without a name")
        self.push(self.storage(identity))

    def look_up(self) -> None:
        name = f"{self.line()} {self.line()}"
        if len(name) > 200:
            _refuse("a name that is too long")
        self.push(Global(name))

    def long(self) -> None:
        count = self.number("<B")
        if count > MOST_DIGITS:
            _refuse("a number with too many digits")
        self.push(int.from_bytes(self.take(count), "little", signed=True))

    def put_sequence(self, values: list[Any]) -> None:
        self.top(list).extend(values)


def _refuse(why: str) -> NoReturn:
    raise PickledError(why)


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")  # without pickle's "surrogatepass": half of a character is no text
    except UnicodeDecodeError:
        _refuse("a text that is not UTF-8")


def _protocol(reader: _Reader) -> None:
    if reader.number("<B") != 2:
        _refuse("another protocol than 2")


_OPERATIONS: dict[int, Callable[[_Reader], None]] = {
    ord(code): operation
    for code, operation in {
        "\x80": _protocol,
        "(": lambda r: r.push(_MARK),
        "}": lambda r: r.push({}),
        "]": lambda r: r.push([]),
        ")": lambda r: r.push(()),
        "N": lambda r: r.push(None),
        "\x88": lambda r: r.push(True),
        "\x89": lambda r: r.push(False),
        "J": lambda r: r.push(r.number("<i")),
        "K": lambda r: r.push(r.number("<B")),
        "M": lambda r: r.push(r.number("<H")),
        "\x8a": _Reader.long,
        "G": lambda r: r.push(float(struct.unpack(">d", r.take(8))[0])),
        "X": lambda r: r.push(_text(r.take(r.number("<I")))),
        "c": _Reader.look_up,
        "q": lambda r: r.remember(r.number("<B")),
        "r": lambda r: r.remember(r.number("<I")),
        "h": lambda r: r.recall(r.number("<B")),
        "j": lambda r: r.recall(r.number("<I")),
        "t": lambda r: r.push(tuple(r.since_mark())),
        "\x85": lambda r: r.push(r.popped(1)),
        "\x86": lambda r: r.push(r.popped(2)),
        "\x87": lambda r: r.push(r.popped(3)),
        "a": lambda r: r.put_sequence([r.pop()]),
        "e": lambda r: r.put_sequence(r.since_mark()),
        "s": lambda r: r.items(list(r.popped(2))),
        "u": lambda r: r.items(r.since_mark()),
        "Q": _Reader.identified,
        "R": _Reader.call,
    }.items()
}

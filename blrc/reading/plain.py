"""Read values out of plain data such as JSON, and check that each has the type that it must have.

Unchecked, Python takes ``True`` for 1 and a float for an integer. These functions check the types, and refuse a field
that is missing or unknown by its name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

LARGEST_INTEGER = 2**63 - 1
"""No whole number in any of our files is beyond 64 bits."""

LONGEST_TEXT = 1_000
"""Characters of the longest name or description in any of our files."""


def loads(content: bytes) -> Any:
    """Parse JSON in UTF-8 in which no object has a key twice and no number is infinite or NaN.

    Raises:
        ValueError: the content is no such JSON.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def fields(what: str, value: Any, known: Collection[str], optional: Collection[str] = ()) -> Mapping[str, Any]:
    """Return `value`, which must be an object with all keys of `known`, any of `optional`, and no others.

    Raises:
        ValueError: it is no such object; the message names `what` and the key.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {type(value).__name__}, not an object")
    for key in value:
        if not isinstance(key, str) or (key not in known and key not in optional):
            raise ValueError(f"{what} has {key!r}, which this version of blrc does not know")
    for key in known:
        if key not in value:
            raise ValueError(f"{what} has no {key!r}")
    return value


def whole(what: str, value: Any, least: int = 0, most: int = LARGEST_INTEGER) -> int:
    """Return `value`, which must be a whole number from `least` to `most`.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} is {_short(value)}, not a whole number from {least} to {most}")
    return value


def wholes(what: str, value: Any, count: int | None = None, least: int = 0, most: int = LARGEST_INTEGER) -> list[int]:
    """Return `value`, which must be a list of whole numbers, with `count` of them if that is given.

    Raises:
        ValueError: it is not.
    """
    return [whole(f"{what}[{i}]", each, least, most) for i, each in enumerate(items(what, value, count))]


def items(what: str, value: Any, count: int | None = None) -> list[Any]:
    """Return `value`, which must be a list, with `count` items if that is given.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not list or (count is not None and len(value) != count):
        raise ValueError(f"{what} is {_short(value)}, not a list" + ("" if count is None else f" of {count}"))
    return value


def text(what: str, value: Any, known: Collection[str] | None = None) -> str:
    """Return `value`, which must be a text of printable characters, and one of `known` if that is given.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not str or not value or len(value) > LONGEST_TEXT or not value.isprintable():
        raise ValueError(f"{what} is {_short(value)}, not a text of up to {LONGEST_TEXT} printable characters")
    if known is not None and value not in known:
        raise ValueError(f"{what} is {_short(value)}, not {' or '.join(known)}")
    return value


def _short(value: Any) -> str:
    """Return how a message shows a value, in at most 60 characters."""
    if type(value) is int and abs(value) > LARGEST_INTEGER:
        return "a number beyond 64 bits"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."

"""Check plain data from an untrusted JSON text: its types and ranges, and that it holds nothing unknown."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

Check = Callable[[Any, str], None]
"""Raise a `MisfitError` where a value does not fit; the text says where it stands."""

DEPTH = 16  # of lists and objects in one another; a manifest has six
SHOWN = 60  # characters of a value in a message


class MisfitError(ValueError):
    """Report a value that the schema does not allow; the message says where it is and what was expected."""


def read_json(content: bytes) -> Any:
    """Parse a JSON text that has only one possible meaning.

    Raises:
        MisfitError: the text is no JSON in UTF-8, an object has a key twice, a number is not finite, a string holds a
            character that cannot be printed (such as one that moves the cursor or reverses the direction of text), or
            the data are nested too deeply.
    """
    try:
        plain = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_finite,
        )
    except MisfitError:
        raise
    except (ValueError, RecursionError) as error:
        raise MisfitError(f"is not JSON, or damaged ({shown(str(error))})") from None
    _check_text(plain, DEPTH)
    return plain


def shown(value: object) -> str:
    """Return a value for a message: short, and without characters that could change what a terminal shows."""
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def unknown_field(held: Mapping[str, Any], known: Collection[str]) -> str | None:
    """Return the first field that is not in `known`, for a message, or None if all are."""
    return next((shown(key) for key in held if key not in known), None)


def text(most: int, least: int = 0) -> Check:
    """Return a check for a string of `least` to `most` characters."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise MisfitError(f"{where} is {shown(value)}, expected a text")
        if not least <= len(value) <= most:
            raise MisfitError(f"{where} has {len(value)} characters, expected {least} to {most}")

    return check


def whole(low: int, high: int) -> Check:
    """Return a check for a whole number from `low` to `high`; true and false do not count as numbers."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise MisfitError(f"{where} is {shown(value)}, expected a whole number from {low} to {high}")

    return check


def number(value: Any, where: str) -> None:
    """Check that a value is a finite number that a float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_finite(value):
        raise MisfitError(f"{where} is {shown(value)}, expected a number")


def truth(value: Any, where: str) -> None:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise MisfitError(f"{where} is {shown(value)}, expected true or false")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int of hundreds of digits
        return False


def optional(check: Check) -> Check:
    """Return a check for null, or for what `check` allows."""

    def either(value: Any, where: str) -> None:
        if value is not None:
            check(value, where)

    return either


def listing(check: Check, most: int, least: int = 0) -> Check:
    """Return a check for a list of `least` to `most` values, each of which `check` allows."""

    def every(value: Any, where: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise MisfitError(f"{where} is {shown(value)}, expected a list of {least} to {most}")
        for index, item in enumerate(value):
            check(item, f"{where}[{index}]")

    return every


def mapping(key: Check, check: Check, most: int) -> Check:
    """Return a check for an object of at most `most` entries, with keys that `key` and values that `check` allows."""

    def every(value: Any, where: str) -> None:
        _expect_object(value, where)
        if len(value) > most:
            raise MisfitError(f"{where} has {len(value)} entries, expected at most {most}")
        for name, item in value.items():
            key(name, f"a name in {where}")
            check(item, f"{where}[{shown(name)}]")

    return every


def record(fields: Mapping[str, Check]) -> Check:
    """Return a check for an object that has exactly the keys of `fields`, each with the check of its value."""

    def every(value: Any, where: str) -> None:
        _expect_object(value, where)
        if (unknown := unknown_field(value, fields)) is not None:
            raise MisfitError(f"{where} has {unknown}, which this blrc does not know")
        if missing := sorted(fields.keys() - value.keys()):
            raise MisfitError(f"{where} has no {missing[0]!r}")
        for name, check in fields.items():
            check(value[name], name if where == WHOLE else f"{where}.{name}")

    return every


WHOLE = "it"
"""Where the whole of a text stands, in messages."""


def anything(value: Any, where: str) -> None:
    """Accept any value that JSON can hold."""


def an_object(value: Any, where: str) -> None:
    """Check that a value is an object, with any keys and values."""
    _expect_object(value, where)


def _expect_object(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise MisfitError(f"{where} is {shown(value)}, expected an object")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise MisfitError(f"has {shown(twice)} twice in one object")
    return found


def _no_number(word: str) -> float:
    raise MisfitError(f"holds {word}, which is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise MisfitError(f"holds {shown(digits)}, which is too large a number")
    return value


def _check_text(plain: Any, depth: int) -> None:
    if isinstance(plain, str) and not plain.isprintable():
        raise MisfitError(f"holds {shown(plain)}, whose characters cannot all be printed")
    if isinstance(plain, list | dict):
        if depth == 0:
            raise MisfitError(f"is nested more than {DEPTH} deep")
        for inner in plain if isinstance(plain, list) else [*plain.keys(), *plain.values()]:
            _check_text(inner, depth - 1)

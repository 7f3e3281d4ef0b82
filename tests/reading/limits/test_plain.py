"""Fields of plain data have the types that they have to have; Python's own leniency lets none pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.reading import plain

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(ANY)
def test_only_whole_numbers_are_whole_numbers(value: Any) -> None:
    if type(value) is int and 0 <= value <= 10:
        assert plain.whole("x", value, 0, 10) == value
    else:
        with pytest.raises(ValueError, match=r"^x is .*, not a whole number from 0 to 10$"):
            plain.whole("x", value, 0, 10)


@given(ANY)
def test_only_lists_are_lists(value: Any) -> None:
    if type(value) is list and len(value) == 2:
        assert plain.items("x", value, 2) == value
    else:
        with pytest.raises(ValueError, match=r"^x is .*, not a list of 2"):
            plain.items("x", value, 2)


@given(ANY)
def test_only_objects_with_these_keys_are_taken(value: Any) -> None:
    if isinstance(value, dict) and value.keys() == {"a"}:
        assert plain.fields("x", value, ("a",)) == value
    else:
        with pytest.raises(ValueError, match=r"(?s)^x (is|has) "):
            plain.fields("x", value, ("a",))


def test_an_unknown_key_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="x has 'start_dim', which this version of blrc does not know"):
        plain.fields("x", {"a": 1, "start_dim": 2}, ("a",), ("b",))
    with pytest.raises(ValueError, match="x has no 'a'"):
        plain.fields("x", {"b": 1}, ("a",), ("b",))


@pytest.mark.parametrize("text", ["", "a\0", "a\n", "\ud800", "\x1b[31m", "a" * 1001, 3, b"a", None])
def test_texts_are_printable_and_short(text: Any) -> None:
    with pytest.raises(ValueError, match="printable characters"):
        plain.text("x", text)


def test_a_text_of_a_few() -> None:
    assert plain.text("x", "bits", ("bits", "int8")) == "bits"
    with pytest.raises(ValueError, match="x is 'uint9', not bits or int8"):
        plain.text("x", "uint9", ("bits", "int8"))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'{"a": 1, "a": 2}', b"NaN", b"[Infinity]", b"[" * 100_000, b"9" * 5000]
)
def test_what_is_no_json_of_ours(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        plain.loads(content)


def test_json_is_read() -> None:
    assert plain.loads(b'{"a": [1, 2.5, null, true, "\xc3\xa9"]}') == {"a": [1, 2.5, None, True, "é"]}

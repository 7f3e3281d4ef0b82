"""The manifest: what an export writes is read back, and nothing else is."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.exports.manifest import FORMAT, LARGEST, Manifest, listed, parse, parse_replaceable, to_bytes
from blrc.reading.schema import DEPTH, MisfitError, read_json
from blrc.store.listing import check_apart, check_path

FILES = {"net.c": b"int x;\n", "net.program.npz": b"", "net.vectors.npz": b"1", "sub/net.bin": bytes(range(256))}
SETTINGS: dict[str, Any] = {
    "input": {"kind": "uint8", "shape": [1, 2, 3], "scale": 1.5, "mean": [0.5], "std": [1]},
    "calibration_samples": 4,
    "sampled_layers": ["0.1"],
    "freeze": "1/20",
    "gate": {"q16": 3, "probability": 0.25},
}


def manifest() -> Manifest:
    options = {"cpu": "portable", "ram": None, "packages": []}
    return Manifest("net", "ab" * 32, "0.1", ("map",), SETTINGS, options, {"c": {"arena": 12}}, listed(FILES))


def plain() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_bytes(manifest()))
    return found


def refused(content: bytes) -> str:
    """Both readers refuse it; what they say, in one line."""
    said = []
    for reader in (parse, parse_replaceable):
        with pytest.raises(BlrcError) as error:
            reader(content, "out/net.manifest.json")
        said.append(str(error.value))
        assert said[-1].startswith("out/net.manifest.json: ") and len(said[-1].splitlines()) == 1
        assert said[-1].isprintable() and len(said[-1]) < 400
    return said[0]


def test_round_trip() -> None:
    assert parse(to_bytes(manifest()), "x") == manifest()
    assert parse_replaceable(to_bytes(manifest()), "x") == ("net", listed(FILES))
    assert len(to_bytes(manifest())) < LARGEST


def test_bytes_are_sorted_json_with_size_and_sha256_of_every_file() -> None:
    raw = to_bytes(manifest())
    assert raw == (json.dumps(plain(), indent=2, sort_keys=True) + "\n").encode()
    assert plain()["format"] == FORMAT
    assert plain()["files"] == {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in FILES.items()
    }


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in plain data, that of the whole first."""
    yield where
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*where, key))


def edited(where: tuple[Any, ...], change: Any) -> bytes:
    """The manifest with what stands at a place changed by a function of what holds it and the key."""
    whole = {"": plain()}
    holder: Any = whole
    for key in ("", *where)[:-1]:
        holder = holder[key]
    change(holder, ("", *where)[-1])
    return json.dumps(whole.get("")).encode()


FREE = ("options", "targets")
"""What these hold is compared with the program and the options by `again`; here, only that they are objects."""


@pytest.mark.parametrize("where", [each for each in places(plain()) if each[:1] not in {(f,) for f in FREE}], ids=str)
def test_no_value_may_be_of_another_type_or_out_of_range(where: tuple[Any, ...]) -> None:
    value: Any = plain()
    for key in where:
        value = value[key]
    junk: list[Any] = [None, True, -1, 2**70, -0.5, "\x1b[31m", "\u202e", "\ud800", [[]], {"x": 1}, [None], "x" * 5000]
    junk += [10**400, -(10**400)]  # which no float can hold
    junk += [3, 1e300] if isinstance(value, str) else ["3"]
    for other in junk:
        numeric = isinstance(other, int | float) and not isinstance(other, bool) and abs(other) < 1e301
        if where[:2] == ("settings", "gate") and other is None and len(where) == 2:
            continue
        if (numeric and where[-1:] in (("scale",), ("probability",))) or (
            numeric and where[2:3] in (("mean",), ("std",))
        ):
            continue  # any number will do there
        if other == "\ud800":
            content = edited(where, lambda holder, key: holder.__setitem__(key, "LONE")).replace(b"LONE", b"\\ud800")
        else:
            content = edited(where, lambda holder, key, other=other: holder.__setitem__(key, other))
        if where[:1] == ("format",) and isinstance(other, int) and other is not True and other > 0:
            continue
        refused(content)


@pytest.mark.parametrize("where", [w for w in places(plain()) if w and w[0] not in FREE], ids=str)
def test_no_key_may_be_missing(where: tuple[Any, ...]) -> None:
    if isinstance(where[-1], str) and where[-1] not in ("net.c", "sub/net.bin"):
        refused(edited(where, lambda holder, key: holder.pop(key)))


@pytest.mark.parametrize("key", ["targets", "options"])
@pytest.mark.parametrize("value", [None, [], "c", 3, {"wasm": {}}, {"c": []}])
def test_targets_and_options_are_objects(key: str, value: Any) -> None:
    if key == "targets" or not isinstance(value, dict):
        refused(edited((key,), lambda holder, key: holder.__setitem__(key, value)))


@pytest.mark.parametrize("where", [(), ("settings",), ("settings", "input"), ("files", "net.c"), ("settings", "gate")])
def test_no_key_may_be_unknown(where: tuple[Any, ...]) -> None:
    def add(holder: Any, key: Any) -> None:
        holder[key]["colour"] = "red"

    assert "'colour', which this blrc does not know" in refused(edited(where, add))


@pytest.mark.parametrize("key", ["format", "name", "files", "colour"])
def test_no_key_may_stand_twice(key: str) -> None:
    raw = to_bytes(manifest()).replace(b"{", f'{{"{key}": 1, "{key}": 1,'.encode(), 1)
    assert "twice" in refused(raw)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * (DEPTH + 2) + b"]" * (DEPTH + 2),
        b'{"format": NaN}',
        b'{"format": -Infinity}',
        b'{"format": 1e999}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b'{"format": 2, "name": "net"} {}',
    ],
    ids=lambda content: repr(content[:20]),
)
def test_texts_that_are_no_plain_data(content: bytes) -> None:
    refused(content)


@pytest.mark.parametrize("other", [0, 1, 3, 99])
def test_another_format_is_refused_by_number(other: int) -> None:
    content = edited(("format",), lambda holder, key: holder.__setitem__(key, other))
    with pytest.raises(BlrcError, match=rf"manifest format {other}, written by another version of blrc; .* reads 2"):
        parse(content, "x")


def test_a_manifest_without_sizes_can_be_replaced_but_not_read() -> None:
    shas = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    content = json.dumps({**plain(), "format": 1, "files": shas}).encode()
    name, files = parse_replaceable(content, "x")
    assert (name, set(files)) == ("net", set(FILES))
    assert all(entry.size is None for entry in files.values())
    with pytest.raises(BlrcError, match="another version"):
        parse(content, "x")
    for bad in ("../victim/thesis.txt", "/etc/passwd", "", "a/../b"):
        with pytest.raises(BlrcError, match="no plain name"):
            parse_replaceable(json.dumps({**plain(), "format": 1, "files": {bad: "ab" * 32}}).encode(), "x")


@pytest.mark.parametrize(
    "name", ["", "..", "../net", "net.c", "ne t", "int", "stdio", "_x", "x" * 49, "net_weights", "9", "né", "a\nb"]
)
def test_the_name_is_one_that_name_allows(name: str) -> None:
    refused(edited(("name",), lambda holder, key: holder.__setitem__(key, name)))


HOSTILE = [
    "",
    ".",
    "..",
    "/",
    "/etc/passwd",
    "//x",
    "../victim/thesis.txt",
    "a/../../b",
    "a/./b",
    "a//b",
    "a/",
    "./a",
    "~/x",
    "a\\b",
    "..\\x",
    "C:/x",
    "C:x",
    "a\0b",
    "a\nb",
    "a\tb",
    "a b",
    "a\x7fb",
    "a\u202eb",
    "a\u200bb",
    "é.c",
    "\uff41.c",
    ".hidden",
    "a/.git/config",
    "-rf",
    "a/-x",
    "x.",
    "a./b",
    "con",
    "NUL.c",
    "a/aux.h",
    "lpt1",
    "$HOME",
    "a;b",
    "a|b",
    "a*",
    "a?",
    "%2e%2e/x",
    "x" * 256,
    "/".join("a" * 13),
    "net.c:stream",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_that_are_not_plain_are_refused(name: str) -> None:
    with pytest.raises(MisfitError):
        check_path(name, "x")

    def add(holder: Any, key: Any) -> None:
        holder[key][name] = holder[key]["net.c"]

    refused(edited(("files",), add))


@given(st.one_of(st.text(), st.text("./\\a~-_C:\0\u202e "), st.lists(st.text("ab.-", max_size=4)).map("/".join)))
@example("net_blrc_dot.h")
def test_every_name_that_is_taken_stays_in_the_folder(name: str) -> None:
    try:
        check_path(name, "x")
    except MisfitError:
        return
    path = PurePosixPath(name)
    assert name.isascii() and name.isprintable() and str(path) == name and not path.is_absolute()
    assert not [part for part in name.split("/") if not part or part[0] in ".-" or part[-1] == "."]
    assert not set(name) & set('\\:*?"<>| ~')


@pytest.mark.parametrize(
    "names",
    [
        ["a.c", "A.C"],
        ["a", "a/b"],
        ["A/b", "a"],
        ["x/Y.c", "X/y.c"],
        ["a/b", "a/b/c"],
        ["net.manifest.json", "NET.manifest.json"],
    ],
)
def test_names_that_may_be_one_file_are_refused(names: list[str]) -> None:
    with pytest.raises(MisfitError):
        check_apart(names)
    check_apart(["a.c", "b/a.c", "b/c/a.c", "a/c"])


def test_the_manifest_may_not_list_itself() -> None:
    def add(holder: Any, key: Any) -> None:
        holder[key]["net.manifest.json"] = holder[key]["net.c"]

    refused(edited(("files",), add))


def test_sizes_together_have_a_limit() -> None:
    def enlarge(holder: Any, key: Any) -> None:
        for entry in holder[key].values():
            entry["size"] = 2**31

    assert "are the most that is read" in refused(edited(("files",), enlarge))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_is_read_or_refused_and_never_fails_otherwise(value: Any) -> None:
    content = json.dumps(value).encode()
    with contextlib.suppress(MisfitError):
        assert read_json(content) == value
    for reader in (parse, parse_replaceable):
        with pytest.raises(BlrcError):
            reader(content, "x")

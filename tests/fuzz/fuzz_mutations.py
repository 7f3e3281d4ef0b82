"""Seeded changes of plain data and of bytes: types swapped, values at boundaries, keys removed, added or doubled."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

BOUNDARIES: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64,
    10**30, 10**400, -(2**31), -(2**63), 10**4000,
    0.0, -0.0, 0.5, 1.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\udcff", "é", "١٢", "../x", "/etc/passwd", "a" * 300, "a" * 100_000, "\n",
    "\x1b[31m", "nan", "inf", "1e400", "-1", "0x10", "1_000", "'", '"', "$(touch x)", "%s", "{}", "map", "conv",
    "float64", "object",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [{}], {"x": 1}, [1, 2], ["x"], *BOUNDARIES, *TEXTS)


def deep(rng: Random) -> Any:
    """Lists in lists, to a depth at which careless readers run out of stack."""
    value: Any = rng.choice((0, None, {}))
    for _ in range(rng.choice((3, 50, 400))):
        value = [value] if rng.random() < 0.5 else {"x": value}
    return value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in nested dictionaries and lists."""
    found: list[tuple[Any, Any]] = []
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found.append((value, key))
        found += places(value[key])
    return found


def mutated(value: Any, rng: Random, others: tuple[Any, ...] = OTHERS) -> Any:
    """A copy of plain data with one to three changes."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = places(value)
        if not found:
            return rng.choice(others)
        container, key = rng.choice(found)
        old = container[key]
        change = rng.randrange(8)
        if change == 0:
            del container[key]
        elif change == 1:
            container[key] = rng.choice(others)
        elif change == 2:
            container[key] = deep(rng)
        elif change == 3 and isinstance(container, dict):
            container[rng.choice(("x", "start_dim", "device", "dtype", "format", "", "\ud800", "a" * 2000))] = (
                copy.copy(old)
            )
        elif change == 3:
            container.insert(rng.randrange(len(container) + 1), copy.deepcopy(old))
        elif change == 4 and isinstance(container, list):
            rng.shuffle(container)
        elif change == 5:
            container[key] = [old] if rng.random() < 0.5 else {"x": old}
        elif isinstance(old, bool):
            container[key] = int(old)
        elif isinstance(old, int):
            container[key] = rng.choice((*BOUNDARIES, float(old), str(old), bool(old), old + 1, old - 1, -old))
        elif isinstance(old, str):
            container[key] = rng.choice((*TEXTS, old + "x", old[:-1], old.upper(), old.encode()))
        elif isinstance(old, float):
            container[key] = rng.choice((*BOUNDARIES, int(old) if abs(old) < 1e300 else 0, str(old)))
        else:
            container[key] = rng.choice(others)
    return value


def as_json(value: Any, rng: Random) -> bytes:
    """JSON of it, sometimes with a key that stands twice, or bytes that are no text."""
    text = json.dumps(value, default=lambda other: repr(other) if rng.random() < 0.5 else None)
    if rng.random() < 0.1 and text.startswith("{") and len(text) > 2:
        text = "{" + text[1:-1] + ", " + text[1:]
    content = text.encode("utf-8", "surrogatepass")
    return bytes_mutated(content, rng) if rng.random() < 0.1 else content


def bytes_mutated(content: bytes, rng: Random) -> bytes:
    """Bytes changed, cut off, doubled, inserted or swapped."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        if not data:
            return bytes(rng.randbytes(rng.randrange(20)))
        at = rng.randrange(len(data))
        change = rng.randrange(7)
        if change <= 1:
            data[at] ^= 1 << rng.randrange(8)
        elif change == 2:
            data[at : at + 4] = rng.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"))
        elif change == 3 and rng.random() < 0.3:
            del data[at:]
        elif change == 4:
            size = rng.randrange(1, 64)
            data[at:at] = data[at : at + size]
        elif change == 5:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            data[at] = rng.randrange(256)
    return bytes(data)


def npz_mutated(arrays: dict[str, Any], rng: Random, structure: Callable[[bytes], bytes] | None = None) -> bytes:
    """An npz file of arrays, some of them changed: in values, type, shape, header, or the archive around them.

    Args:
        structure: makes another text of the bytes of the array ``program``, where there is one.
    """
    arrays = dict(arrays)
    change = rng.randrange(5)
    name = rng.choice(sorted(arrays))
    if structure is not None and "program" in arrays and rng.random() < 0.6:
        arrays["program"] = np.frombuffer(structure(arrays["program"].tobytes()), np.uint8)
    elif change == 0:
        del arrays[name]
    elif change == 1:
        arrays[rng.choice(("x", f"{name}/0", "is_test", "jpeg", "offsets", "a\0b"))] = arrays[name]
    elif change == 2:
        arrays[name] = _array(arrays[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for key, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array), allow_pickle=True)
            data = content.getvalue()
            if key == name and change == 3:
                data = _header(data, rng)
            archive.writestr(f"{key}.npy" if rng.random() < 0.99 else key, data)
    content = buffer.getvalue()
    return bytes_mutated(content, rng) if change == 4 or rng.random() < 0.1 else content


def _array(array: Any, rng: Random) -> Any:
    array = np.asarray(array)
    kinds = (
        "int8",
        "uint8",
        "int16",
        "int64",
        "uint64",
        "float16",
        "float64",
        "bool",
        "complex64",
        "object",
        ">u4",
        "U3",
    )
    change = rng.randrange(5)
    if change == 0:
        return array.astype(rng.choice(kinds))
    if change == 1:
        return rng.choice((array[:0], array.reshape(-1), array[None], array[..., :1], array.T))
    if change == 2 and array.dtype.kind in "iu" and array.size:
        info = np.iinfo(array.dtype)
        array = array.copy()
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice((info.min, info.max, 0, 1))
        return array
    if change == 3:
        return np.float64(rng.choice((0.0, 1e308, float("nan"))))
    return np.zeros((rng.choice((0, 1, 3)), rng.choice((0, 2))), array.dtype)


def _header(data: bytes, rng: Random) -> bytes:
    """An npy file whose header tells another shape or type, of the same length where possible."""
    length = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + length].decode("latin1")
    shapes = ("(2147483647, 2147483647)", "(-1,)", "(10**9,)", "(True,)", "(1.5,)", "()", f"({'9' * 300},)",
              "(" + "1, " * 100 + ")", "(" * 200, "None", "[1]")  # fmt: skip
    types = ("'|O'", "'<U9999999'", "'V5'", "'<f8'", "[('a', '<i4')]", "'x'", "None", "('<i4', (2,))")
    old = header[header.index("'shape':") + 8 : header.rindex(")") + 1]
    if rng.random() < 0.7:
        header = header.replace(old, " " + rng.choice(shapes))
    else:
        header = header.replace(header[header.index("'descr':") + 8 : header.index(",")], " " + rng.choice(types))
    body = header.encode("latin1")
    declared = rng.choice((len(body), len(body), len(body), 0, 65535))
    return data[:8] + declared.to_bytes(2, "little") + body + data[10 + length :]

"""Read and write a program as a file, ``<name>.program.npz``, and compute its digest.

The file is an uncompressed npz: the structure as canonical JSON (array ``program``), and one array for every stored
table (``CONSTANT/INDEX``). It holds no timestamps and loads without pickle; the same program gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.elements import DType
from blrc.net.heads import Unit
from blrc.net.window import LIMIT, Window
from blrc.program.head import MAX_CLASSES, MAX_MEMBERS, ONE
from blrc.program.heads import Head
from blrc.program.legal import check
from blrc.program.ops.conv import Conv
from blrc.program.ops.op import INT32_MAX, Constant, Value, WeightedOp
from blrc.program.ops.registry import OPS, Op, kind_of
from blrc.program.program import Program
from blrc.reading import npz, plain, regular
from blrc.store.places import write_atomically

OF_GATES = 2
"""The first format that knows gates."""
OF_HEADS = 4
"""The first format that knows several heads."""
OF_LEVELS = 5
"""The first format that knows codes of several thresholds."""
OF_TERNARY = 6
"""The first format that knows ternary weights."""
OF_WHOLE = 8
"""The first format that knows weights of 8 bits."""
OF_VALUES = 9
"""The first format that knows values; other programs are written without saying that they give labels."""
FORMATS = tuple(range(1, 1 + max(OF_VALUES, *(op.format for op in OPS.values()))))
"""The formats that are read. A program is written in the first one that knows all of its parts."""
LONGEST_STRUCTURE = 16 << 20  # bytes: 1,365 members of a thousand ops have less


def digest(program: Program) -> str:
    """Return the SHA-256 (64 hex digits) of structure and tables, which binds every artefact to this program."""
    sha = hashlib.sha256(_structure(program))
    for name, table in _tables(program):
        sha.update(f"{name} {table.dtype.str} {table.shape}\n".encode())
        sha.update(table.tobytes())
    return sha.hexdigest()


def to_bytes(program: Program) -> bytes:
    """Return the file's content."""
    arrays = {"program": np.frombuffer(_structure(program), dtype=np.uint8), **dict(_tables(program))}
    return npz.to_bytes(arrays)


def save(program: Program, path: Path) -> None:
    """Write the program to a file beside `path`, then rename it to `path`."""
    write_atomically(path, to_bytes(program))


def load(path: Path) -> Program:
    """Read and `check` a program.

    Raises:
        BlrcError: the file is missing, damaged, of another version, or not a legal program.
    """
    try:
        content = regular.read(path)
    except FileNotFoundError:
        raise BlrcError(f"{path}: no such program; export the model first") from None
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    return parse(content, path)


def parse(content: bytes, path: Path) -> Program:
    """Read and `check` a program from a file's content.

    Args:
        path: path of the file, for messages.

    Raises:
        BlrcError: the content is damaged, of another version, or not a legal program.
    """
    try:
        arrays = npz.from_bytes(content, len(content))
    except ValueError as error:
        raise BlrcError(f"{path}: not a blrc program, or damaged ({error}); export the model again") from None
    try:
        structure = _read_structure(arrays)
        number = structure.get("format")
        if type(number) is not int or number not in FORMATS:
            raise BlrcError(
                f"{path}: program format {number}, this blrc reads {FORMATS[0]} to {FORMATS[-1]}; "
                "export the model again"
            )
        return check(_rebuild(structure, arrays))
    except ValueError as error:
        raise BlrcError(f"{path}: damaged program: {error}; export the model again") from None


def _read_structure(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    held = arrays.pop("program", None)
    if held is None or held.dtype != np.uint8 or held.ndim != 1 or held.size > LONGEST_STRUCTURE:
        raise ValueError(f"no array 'program' of up to {LONGEST_STRUCTURE:,} bytes")
    structure = plain.loads(held.tobytes())
    if not isinstance(structure, dict):
        raise ValueError("its structure is no object")
    return structure


def _structure(program: Program) -> bytes:
    features = OF_HEADS if program.heads else OF_GATES if program.gate else 1
    features = OF_VALUES if program.values else features
    number = max(features, *map(_format_of, program.ops))
    content = {
        "format": number,
        "input": asdict(program.input),
        "ops": [{"op": kind_of(op), **_fields_of(op)} for op in program.ops],
        "constants": {name: list(c.of_member) for name, c in program.constants.items()},
        "members": list(program.members),
        "score_scale": program.score_scale.hex(),
        **({"gate": program.gate} if number >= OF_GATES else {}),
        **(
            {"heads": [{**asdict(h), "score_scale": h.score_scale.hex()} for h in program.heads]}
            if number >= OF_HEADS
            else {}
        ),
        **(
            {"values": [{"scale": u.scale.hex(), "offset": u.offset.hex()} for u in program.values]}
            if number >= OF_VALUES
            else {}
        ),
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _format_of(op: Op) -> int:
    """Return the first format that knows an op, with what it reads and writes."""
    codes = OF_LEVELS if op.x.is_codes or op.y.is_codes else 1
    zeros = OF_TERNARY if isinstance(op, WeightedOp) and op.has_zeros else 1
    return max(op.format, codes, zeros, OF_WHOLE if isinstance(op, Conv) and op.whole else 1)


def _fields_of(op: Op) -> dict[str, Any]:
    held = asdict(op)
    return {name: value for name, value in held.items() if name not in _LATER or value}


def _tables(program: Program) -> list[tuple[str, NDArray[Any]]]:
    return [
        (f"{name}/{i}", np.ascontiguousarray(table.astype(table.dtype.newbyteorder("<"))))
        for name in sorted(program.constants)
        for i, table in enumerate(program.constants[name].tables)
    ]


def _rebuild(structure: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Program:
    """Build the program from its tables and the structure that `_structure` wrote; check the type of every field."""
    gates, heads = structure["format"] >= OF_GATES, structure["format"] >= OF_HEADS
    values = structure["format"] >= OF_VALUES
    named = (("gate",) if gates else ()) + (("heads",) if heads else ()) + (("values",) if values else ())
    names = ("format", "input", "ops", "constants", "members", "score_scale", *named)
    later = [name for name, number in _LATER.items() if structure["format"] >= number]
    plain.fields("it", structure, names)
    ops = tuple(_op(f"op {i}", each, later) for i, each in enumerate(plain.items("ops", structure["ops"])))
    for op in ops:
        if _format_of(op) > structure["format"]:
            raise ValueError(
                f"op {op.name!r} ({kind_of(op)}) is of program format {_format_of(op)}, and the file says "
                f"{structure['format']}"
            )
    members = [plain.text("a member", member) for member in plain.items("members", structure["members"])]
    constants = {}
    for name, of_member in plain.fields("constants", structure["constants"], (), structure["constants"]).items():
        where = f"constant {plain.text('the name of a constant', name)!r}"
        chosen = plain.wholes(where, of_member, len(members), most=MAX_MEMBERS)
        constants[name] = Constant(_tables_of(name, max(chosen, default=-1) + 1, arrays), tuple(chosen))
    if arrays:
        raise ValueError(f"its array {min(arrays)!r} belongs to nothing")
    return Program(
        input=_value("input", structure["input"]),
        ops=ops,
        constants=constants,
        members=tuple(members),
        score_scale=_scale(structure["score_scale"]),
        gate=plain.whole("gate", structure["gate"], most=ONE) if gates else 0,
        heads=tuple(map(_head, plain.items("heads", structure["heads"]))) if heads else (),
        values=tuple(map(_unit, plain.items("values", structure["values"]))) if values else (),
    )


def _unit(content: Any) -> Unit:
    held = plain.fields("a unit", content, ("scale", "offset"))
    try:
        return Unit(*(_scale(held[name], f"{name} of values") for name in ("scale", "offset")))
    except BlrcError as error:
        raise ValueError(str(error)) from None


def _head(content: Any) -> Head:
    held = plain.fields("a head", content, ("name", "classes", "score_scale"))
    classes = plain.whole("a head: classes", held["classes"], 1, MAX_CLASSES)
    return Head(plain.text("a head: name", held["name"]), classes, _scale(held["score_scale"]))


def _tables_of(name: str, count: int, arrays: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Take the tables of a constant out of `arrays`, and return them in this machine's byte order."""
    found = []
    for key in (f"{name}/{i}" for i in range(count)):
        if key not in arrays:
            raise ValueError(f"its array {key!r} is missing")
        table = arrays.pop(key)
        found.append(table.astype(table.dtype.newbyteorder("="), copy=False))
    return tuple(found)


def _scale(text: Any, what: str = "score_scale") -> float:
    try:
        return float.fromhex(plain.text(what, text))
    except OverflowError:
        raise ValueError(f"{what} is {text!r}, which is beyond float64") from None


def _value(what: str, content: Any) -> Value:
    held = plain.fields(what, content, ("name", "dtype", "shape"))
    height, width, channels = plain.wholes(f"{what}: shape", held["shape"], 3, 1, INT32_MAX)
    dtype: Any = plain.text(f"{what}: dtype", held["dtype"], get_args(DType))
    return Value(plain.text(f"{what}: name", held["name"]), dtype, (height, width, channels))


def _window(what: str, content: Any) -> Window:
    held = plain.fields(what, content, ("kernel", "stride", "padding", "dilation"))

    def numbers(name: str, least: int, count: int) -> Any:
        return tuple(plain.wholes(f"{what}: {name}", held[name], count, least, LIMIT))

    return Window(numbers("kernel", 1, 2), numbers("stride", 1, 2), numbers("padding", 0, 4), numbers("dilation", 1, 2))


def _window_or_none(what: str, content: Any) -> Window | None:
    return None if content is None else _window(what, content)


def _true(what: str, content: Any) -> bool:
    if content is not True:
        raise ValueError(f"{what} is {content!r}, not true; without it, it is false")
    return True


_READ: Mapping[str, Callable[[str, Any], Any]] = {
    "Value": _value,
    "str": plain.text,
    "Window": _window,
    "Window | None": _window_or_none,
    "int": lambda what, content: plain.whole(what, content, 1, INT32_MAX),
    "bool": _true,
}
"""How a field of an op is read, by its type."""
_LATER = {"ternary": OF_TERNARY, "whole": OF_WHOLE}
"""Fields of ops that are written only where they are true, since programs are older than they are, and the first format
that knows each."""


def _op(what: str, content: Any, later: Collection[str]) -> Op:
    if not isinstance(content, dict):
        raise ValueError(f"{what} is no object")
    cls: type[Op] = OPS[plain.text(f"{what}: op", content.get("op"), OPS)]
    types = {field.name: str(field.type) for field in fields(cls)}
    held = plain.fields(what, content, ("op", *(name for name in types if name not in _LATER)), {*later} & {*types})
    given = {name: kind for name, kind in types.items() if name in held}
    return cls(**{name: _READ[kind](f"{what}: {name}", held[name]) for name, kind in given.items()})

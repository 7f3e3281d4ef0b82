"""A program as a file, ``<name>.program.npz``, and its digest.

The file is an uncompressed npz: the structure as canonical JSON (array ``program``), and one array for every stored
table (``CONSTANT/INDEX``). It holds no timestamps and loads without pickle; the same program gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc import npz
from blrc.errors import BlrcError
from blrc.files import write_atomically
from blrc.legal import check
from blrc.program import BinaryScores, Constant, Conv, Encode, Op, Pool, Program, Scores, Value, Window

FORMATS = (1, 2)  # 2 has a gate and binary scores, which 1 does not know; a program without them is written as 1
_OPS: dict[str, type[Op]] = {
    "encode": Encode,
    "conv": Conv,
    "pool": Pool,
    "scores": Scores,
    "binary_scores": BinaryScores,
}


def digest(program: Program) -> str:
    """SHA-256 (64 hex digits) over the structure and all tables; binds every artefact to this program."""
    sha = hashlib.sha256(_structure(program))
    for name, table in _tables(program):
        sha.update(f"{name} {table.dtype.str} {table.shape}\n".encode())
        sha.update(table.tobytes())
    return sha.hexdigest()


def to_bytes(program: Program) -> bytes:
    """The file's content."""
    arrays = {"program": np.frombuffer(_structure(program), dtype=np.uint8), **dict(_tables(program))}
    return npz.to_bytes(arrays)


def save(program: Program, path: Path) -> None:
    """Write the program beside `path`, then rename."""
    write_atomically(path, to_bytes(program))


def load(path: Path) -> Program:
    """Read and `check` a program.

    Raises:
        BlrcError: the file is missing, damaged, of another version, or not a legal program.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BlrcError(f"{path}: no such program; export the model first") from None
    except OSError as error:
        raise BlrcError(f"{path}: cannot read: {error.strerror or error}") from None
    return parse(content, path)


def parse(content: bytes, path: Path) -> Program:
    """Read and `check` a program from a file's content.

    Args:
        path: of the file, for messages.

    Raises:
        BlrcError: it is damaged, of another version, or not a legal program.
    """
    try:
        arrays = npz.from_bytes(content)
        structure = dict(json.loads(arrays.pop("program").tobytes()))
    except Exception as error:  # zipfile, the npy header's parser and zlib raise almost anything on damaged bytes
        raise BlrcError(f"{path}: not a blrc program, or damaged ({error}); export the model again") from None
    if structure.get("format") not in FORMATS:
        raise BlrcError(
            f"{path}: program format {structure.get('format')}, this blrc reads {' and '.join(map(str, FORMATS))}; "
            "export the model again"
        )
    try:
        return check(_rebuild(structure, arrays))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise BlrcError(f"{path}: damaged program ({error!r}); export the model again") from None


def _structure(program: Program) -> bytes:
    second = program.gate > 0 or any(isinstance(op, BinaryScores) for op in program.ops)
    plain = {
        "format": 2 if second else 1,
        "input": asdict(program.input),
        "ops": [{"op": _kind(op), **asdict(op)} for op in program.ops],
        "constants": {name: list(c.of_member) for name, c in program.constants.items()},
        "members": list(program.members),
        "score_scale": program.score_scale.hex(),
        **({"gate": program.gate} if second else {}),
    }
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def _kind(op: Op) -> str:
    return next(kind for kind, cls in _OPS.items() if type(op) is cls)


def _tables(program: Program) -> list[tuple[str, NDArray[Any]]]:
    return [
        (f"{name}/{i}", np.ascontiguousarray(table.astype(table.dtype.newbyteorder("<"))))
        for name in sorted(program.constants)
        for i, table in enumerate(program.constants[name].tables)
    ]


def _rebuild(structure: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Program:
    def tables(name: str, of_member: list[int]) -> tuple[NDArray[Any], ...]:
        found = [arrays[f"{name}/{i}"] for i in range(max(of_member) + 1)]
        return tuple(table.astype(table.dtype.newbyteorder("=")) for table in found)

    if not all(isinstance(member, str) for member in structure["members"]):
        raise TypeError(f"members {structure['members']}")
    return Program(
        input=_value(structure["input"]),
        ops=tuple(_op(dict(plain)) for plain in structure["ops"]),
        constants={name: Constant(tables(name, of), tuple(of)) for name, of in structure["constants"].items()},
        members=tuple(structure["members"]),
        score_scale=float.fromhex(structure["score_scale"]),
        gate=structure["gate"] if structure["format"] == 2 else 0,
    )


def _value(plain: dict[str, Any]) -> Value:
    return Value(plain["name"], plain["dtype"], tuple(plain["shape"]))


def _op(plain: dict[str, Any]) -> Op:
    kind = plain.pop("op")
    plain["x"], plain["y"] = _value(plain["x"]), _value(plain["y"])
    for key in ("window", "pool"):
        if plain.get(key) is not None:
            plain[key] = Window(**{name: tuple(numbers) for name, numbers in plain[key].items()})
    return _OPS[kind](**plain)

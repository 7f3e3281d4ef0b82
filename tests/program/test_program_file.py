"""A program survives its file exactly, and a damaged file is refused, whatever byte is damaged."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_programs import gated, random_program

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.program import Constant, Program

KINDS = ("uint8", "int8", "bits")
SMALL = random_program(1, "bits", (2, 2, 3), layers=1)


def assert_same(a: Program, b: Program) -> None:
    assert (a.input, a.ops, a.members, a.score_scale, a.gate) == (b.input, b.ops, b.members, b.score_scale, b.gate)
    assert set(a.constants) == set(b.constants)
    for name, constant in a.constants.items():
        other = b.constants[name]
        assert constant.of_member == other.of_member
        assert len(constant.tables) == len(other.tables)
        for x, y in zip(constant.tables, other.tables, strict=True):
            assert x.dtype == y.dtype and np.array_equal(x, y)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_round_trip(seed: int, kind: str, members: int, tmp_path: Path) -> None:
    program = random_program(seed, kind, members=members)
    path = tmp_path / "net.program.npz"
    program_file.save(program, path)
    loaded = program_file.load(path)
    assert_same(program, loaded)
    assert program_file.digest(loaded) == program_file.digest(program)
    assert program_file.to_bytes(loaded) == path.read_bytes()


def test_a_gate_makes_another_format_and_files_without_one_stay_as_they_were(tmp_path: Path) -> None:
    plain = random_program(1, "bits", (2, 2, 3), layers=1, members=2)
    program = gated(plain, 60_000)
    path = tmp_path / "net.program.npz"
    program_file.save(program, path)
    loaded = program_file.load(path)
    assert loaded.gate == 60_000
    assert_same(program, loaded)
    binary = random_program(1, "bits", (2, 2, 3), layers=1, binary=True)
    for each, number in ((program, 2), (replace(program, gate=0), 1), (binary, 2)):
        with np.load(io.BytesIO(program_file.to_bytes(each)), allow_pickle=False) as file:
            structure = json.loads(file["program"].tobytes())
        assert structure["format"] == number
        assert ("gate" in structure) == (number == 2)


def test_the_same_program_gives_the_same_bytes() -> None:
    again = random_program(1, "bits", (2, 2, 3), layers=1)
    assert again is not SMALL
    assert program_file.to_bytes(again) == program_file.to_bytes(SMALL)
    turned = replace(SMALL, constants=dict(reversed(SMALL.constants.items())))
    assert program_file.to_bytes(turned) == program_file.to_bytes(SMALL)
    assert program_file.digest(turned) == program_file.digest(SMALL)


def edited(name: str) -> Program:
    table = SMALL.constant(name).copy()
    table.reshape(-1)[-1] += 1
    return replace(SMALL, constants={**SMALL.constants, name: Constant((table,), (0,))})


def test_the_digest_sees_every_part() -> None:
    first = SMALL.ops[0]
    others = [
        *(edited(name) for name in SMALL.constants),
        replace(SMALL, members=("map",)),
        replace(SMALL, gate=1),
        replace(SMALL, gate=2),
        replace(SMALL, score_scale=np.nextafter(SMALL.score_scale, 1).item()),
        replace(SMALL, ops=(replace(first, name="other"), *SMALL.ops[1:])),
        replace(SMALL, ops=(replace(first, groups=3), *SMALL.ops[1:])),
        replace(SMALL, input=replace(SMALL.input, shape=(2, 2, 4))),
    ]
    digests = {program_file.digest(program) for program in (SMALL, *others)}
    assert len(digests) == 1 + len(others)
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in digests)


def test_a_flipped_byte_is_refused_or_without_effect(tmp_path: Path) -> None:
    """The zip container keeps a checksum of all contents; bytes of its own that say nothing may change."""
    content = program_file.to_bytes(SMALL)
    path = tmp_path / "net.program.npz"
    refused = tried = 0
    for at in range(0, len(content), 5):
        tried += 1
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            loaded = program_file.load(path)
        except BlrcError as error:
            refused += 1
            assert str(path) in str(error) and "export" in str(error)
        else:
            assert_same(SMALL, loaded)
    assert refused > tried // 2


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    content = program_file.to_bytes(SMALL)
    path = tmp_path / "net.program.npz"
    for length in range(0, len(content), 11):
        path.write_bytes(content[:length])
        with pytest.raises(BlrcError, match="export the model again"):
            program_file.load(path)


def rewritten(path: Path, structure: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Path:
    buffer = io.BytesIO()
    np.savez(buffer, program=np.frombuffer(json.dumps(structure).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    path.write_bytes(buffer.getvalue())
    return path


def contents() -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with np.load(io.BytesIO(program_file.to_bytes(SMALL)), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("program").tobytes()), arrays


def test_what_is_missing_or_newer_or_no_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.program.npz"
    with pytest.raises(BlrcError, match=r"net\.program\.npz: no such program; export the model first"):
        program_file.load(path)
    path.write_bytes(b"hello")
    with pytest.raises(BlrcError, match=r"net\.program\.npz: not a blrc program, or damaged"):
        program_file.load(path)
    structure, arrays = contents()
    with pytest.raises(BlrcError, match=r"program format 10, this blrc reads 1 to 9; export the model again"):
        program_file.load(rewritten(path, {**structure, "format": 10}, arrays))
    with pytest.raises(BlrcError, match=r"damaged program: it has no 'gate'; export"):
        program_file.load(rewritten(path, {**structure, "format": 2}, arrays))
    for gate in (0.5, "1", None, True, -1, 65537):
        with pytest.raises(BlrcError, match=r"gate .* a whole number from 0 to 65536"):
            program_file.load(rewritten(path, {**structure, "format": 2, "gate": gate}, arrays))
    np.savez(path, a=np.zeros(3))
    with pytest.raises(BlrcError, match="damaged program: no array 'program'"):
        program_file.load(path)


@pytest.mark.parametrize("key", ["input", "ops", "constants", "members", "score_scale"])
def test_a_missing_part_is_named(key: str, tmp_path: Path) -> None:
    structure, arrays = contents()
    del structure[key]
    with pytest.raises(BlrcError, match=f"damaged program: it has no '{key}'"):
        program_file.load(rewritten(tmp_path / "net.program.npz", structure, arrays))


@pytest.mark.parametrize("junk", [[], None, 3, {}, [3], [{}]])
@pytest.mark.parametrize("key", ["input", "ops", "constants", "members", "score_scale"])
def test_junk_in_a_part_is_refused(key: str, junk: Any, tmp_path: Path) -> None:
    structure, arrays = contents()
    with pytest.raises(BlrcError):
        program_file.load(rewritten(tmp_path / "net.program.npz", {**structure, key: junk}, arrays))


@pytest.mark.parametrize("junk", [[], None, 3, "x"])
def test_junk_as_the_whole_is_refused(junk: Any, tmp_path: Path) -> None:
    with pytest.raises(BlrcError):
        program_file.load(rewritten(tmp_path / "net.program.npz", junk, contents()[1]))


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    structure, arrays = contents()
    for name in arrays:
        rest = {other: table for other, table in arrays.items() if other != name}
        with pytest.raises(BlrcError, match="damaged program"):
            program_file.load(rewritten(tmp_path / "net.program.npz", structure, rest))


def test_an_illegal_program_is_refused(tmp_path: Path) -> None:
    structure, arrays = contents()
    structure["ops"][0]["groups"] = 2
    with pytest.raises(BlrcError, match="channels not divisible by groups"):
        program_file.load(rewritten(tmp_path / "net.program.npz", structure, arrays))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "executed",))

    structure, arrays = contents()
    name = next(iter(arrays))
    trap = np.empty(1, dtype=object)
    trap[0] = Trap()
    with pytest.raises(BlrcError):
        program_file.load(rewritten(tmp_path / "net.program.npz", structure, {**arrays, name: trap}))
    assert not (tmp_path / "executed").exists()

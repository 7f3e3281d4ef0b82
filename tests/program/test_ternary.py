"""Programs with weights of -1, 0 and +1: what is legal, and their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.net.bits import pack_ternary, unpack_ternary
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Program
from blrc.reading import npz

NET = random_program(1000, "bits")


def changed(plane: int, bit: int) -> Program:
    """Return the network whose first weight is 0, with one bit more in a plane of it."""
    op = NET.ops[0]
    assert isinstance(op, Conv) and op.ternary
    numbers = np.ones((op.y.shape[2], *op.window.kernel, op.group_channels), np.int8)
    numbers[0, 0, 0, 0] = 0
    table = pack_ternary(numbers)
    table[0, 0, 0, plane, bit // 32] |= np.uint32(1 << bit % 32)
    return replace(NET, constants={**NET.constants, op.weights: Constant((table,), (0,))})


def test_a_sign_of_what_is_0_is_refused() -> None:
    with pytest.raises(BlrcError, match=rf"op '{NET.ops[0].name}': a sign of its weights is set where the weight is 0"):
        check(changed(0, 0))


def test_a_tail_bit_is_refused_in_both_planes() -> None:
    op = NET.ops[0]
    assert isinstance(op, Conv) and op.group_channels % 32
    for plane in (0, 1):
        with pytest.raises(BlrcError, match="a tail bit of its weights is set"):
            check(changed(plane, op.group_channels))


def test_a_table_of_one_plane_is_refused() -> None:
    op = NET.ops[0]
    assert isinstance(op, Conv)
    table = NET.constant(op.weights)[..., 0, :]
    constants = {**NET.constants, op.weights: Constant((table,), (0,))}
    with pytest.raises(BlrcError, match=r"is uint32 .*, expected uint32 .* 2, "):
        check(replace(NET, constants=constants))


@pytest.mark.parametrize("channels", [1, 31, 32, 33, 100])
def test_weights_come_back(channels: int) -> None:
    numbers = np.random.default_rng(channels).integers(-1, 2, (3, 2, channels)).astype(np.int8)
    packed = pack_ternary(numbers)
    assert packed.shape == (3, 2, 2, -(-channels // 32))
    np.testing.assert_array_equal(unpack_ternary(packed, channels), numbers)


@pytest.mark.parametrize("seed", [1000, 1010, 1015, 1025])
def test_files_come_back(seed: int, tmp_path: Path) -> None:
    program = random_program(seed, ("bits", "uint8", "int8")[seed % 3], members=2)
    path = tmp_path / "net.program.npz"
    program_file.save(program, path)
    found = program_file.load(path)
    assert program_file.digest(found) == program_file.digest(program)
    assert structure(program)["format"] == program_file.OF_TERNARY
    raw = random_inputs(program, 5)
    np.testing.assert_array_equal(reference.scores(found, raw, 1), reference.scores(program, raw, 1))


def structure(program: Program) -> dict[str, Any]:
    content = program_file.to_bytes(program)
    held: dict[str, Any] = json.loads(npz.from_bytes(content, len(content))["program"].tobytes())
    return held


def test_binary_programs_are_written_as_before() -> None:
    held = structure(random_program(3, "bits"))
    assert held["format"] < program_file.OF_TERNARY and not any("ternary" in op for op in held["ops"])


@pytest.mark.parametrize(("value", "number", "message"), [(False, 6, "is False, not true"), (True, 5, "has 'ternary'")])
def test_the_field_is_written_in_one_way(value: bool, number: int, message: str) -> None:
    content = program_file.to_bytes(NET)
    arrays = npz.from_bytes(content, len(content))
    held = structure(NET)
    held["format"] = number
    held["ops"][0]["ternary"] = value
    arrays["program"] = np.frombuffer(json.dumps(held).encode(), np.uint8)
    with pytest.raises(BlrcError, match=message):
        program_file.parse(npz.to_bytes(arrays), Path("net.program.npz"))

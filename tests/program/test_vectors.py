"""Recorded vectors: digests by their definition, and a file that is checked against today's reference."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import reference
from blrc.program.program import Program, Value
from blrc.program.vectors import MOST, inputs_of, layer_digest, memory, record, to_bytes
from blrc.program.vectors import differences as differences_of

KINDS = ["uint8", "int8", "bits"]


def differences(path: Path, program: Program) -> tuple[Any, list[str]]:
    content = path.read_bytes()
    inputs = inputs_of(content, path, program)
    return inputs, differences_of(content, path, program, record(program, inputs))


def defined(elements: list[int]) -> int:
    state = 2166136261
    for element in elements:
        state ^= element % 2**32
        state = (state ^ state // 2**16) * 2654435761 % 2**32
    return state


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "bits"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (2, 2, 33), (1, 1, 64)])
def test_digests_follow_their_definition(dtype: Any, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    maps: Any
    if dtype == "bits":
        maps = rng.random((4, *shape)) < 0.5
        elements = [
            sum(int(bit) << i for i, bit in enumerate(pixel[start : start + 32]))
            for pixel in maps.reshape(4, -1, shape[2])[2]
            for start in range(0, shape[2], 32)
        ]
    else:
        info = np.iinfo(dtype)
        maps = rng.integers(info.min, info.max, (4, *shape), endpoint=True).astype(dtype)
        elements = maps[2].ravel().tolist()
    found = layer_digest(Value("x", dtype, shape), maps)
    assert found.dtype == np.uint32
    assert found[2] == defined(elements)
    assert memory(Value("x", dtype, shape), maps).reshape(4, -1)[2].tolist() == elements


def test_any_change_of_one_element_changes_the_digest() -> None:
    maps = np.zeros((41, 1, 2, 20), bool)
    maps[np.arange(40), 0, np.arange(40) // 20, np.arange(40) % 20] = True
    assert len(set(layer_digest(Value("x", "bits", (1, 2, 20)), maps).tolist())) == 41


def test_a_channel_that_is_wrong_at_two_positions_changes_the_digest() -> None:
    """Two wrong bits 31 of words, or one of each of two channels, once cancelled each other."""
    bits = np.random.default_rng(0).random((20, 1, 1, 1, 6, 32)) < 0.5
    wrong = np.repeat(np.repeat(bits, 32, axis=1), 32, axis=2)
    for first in range(32):
        for second in range(32):
            for position in (1, 4):
                wrong[:, first, second, 0, 0, first] ^= True
                wrong[:, first, second, 0, position, second] ^= True
                found = layer_digest(Value("x", "bits", (1, 6, 32)), wrong[:, first, second])
                assert not (found == layer_digest(Value("x", "bits", (1, 6, 32)), bits[:, 0, 0])).any()
                wrong[:, first, second] = bits[:, 0, 0]


def programs() -> list[Program]:
    return [random_program(seed, kind, (5, 4, 3)) for seed, kind in enumerate(KINDS)] + [
        random_program(5, "uint8", (5, 4, 3), members=2)
    ]


@pytest.mark.parametrize("program", programs())
def test_a_record_is_read_back_without_differences(program: Program, tmp_path: Path) -> None:
    inputs = random_inputs(program, 5)
    path = tmp_path / "v.npz"
    path.write_bytes(to_bytes(program, record(program, inputs)))
    found, wrong = differences(path, program)
    assert wrong == []
    np.testing.assert_array_equal(found, inputs)
    assert to_bytes(program, record(program, inputs)) == path.read_bytes()
    with np.load(path) as file:
        for member in range(len(program.members)):
            np.testing.assert_array_equal(file[f"{member}/scores"], reference.scores(program, inputs, member))


def edited(raw: bytes, **changes: Any) -> bytes:
    with np.load(io.BytesIO(raw)) as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changes.items():
        if change is None:
            del arrays[name]
        else:
            arrays[name] = change(arrays[name])
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def other(array: Any) -> Any:
    changed = array.copy()
    changed.reshape(len(array), -1)[3, 0] += 1
    return changed


@pytest.mark.parametrize("program", programs())
def test_every_edited_number_is_named(program: Program, tmp_path: Path) -> None:
    raw = to_bytes(program, record(program, random_inputs(program, 5)))
    path = tmp_path / "v.npz"
    for member, name in enumerate(program.members):
        for op in program.ops:
            path.write_bytes(edited(raw, **{f"{member}/hash/{op.y.name}": other}))
            assert differences(path, program)[1] == [f"{path}: vector 3, member {name!r}: op {op.name!r} differs"]
        path.write_bytes(edited(raw, **{f"{member}/scores": other}))
        assert differences(path, program)[1] == [f"{path}: scores of member {name!r} differ"]


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": None},
        {"inputs": lambda a: a[:0]},
        {"inputs": lambda a: a[:3]},
        {"inputs": lambda a: a.astype(np.float32)},
        {"inputs": lambda a: a.astype(np.int64)},
        {"inputs": lambda a: a[:, :1]},
        {"inputs": lambda a: a[0]},
        {"0/scores": None},
        {"0/hash/scores": None},
        {"0/hash/scores": lambda a: a[:1]},
        {"0/hash/scores": lambda a: a[0]},
    ],
)
def test_a_file_of_another_form_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    program = random_program(0, "uint8", (5, 4, 3))
    path = tmp_path / "v.npz"
    path.write_bytes(edited(to_bytes(program, record(program, random_inputs(program, 5))), **changes))
    with pytest.raises(BlrcError, match=r"v\.npz: recorded vectors are missing or damaged .*export again"):
        differences(path, program)


def test_vectors_of_another_program_are_not_taken(tmp_path: Path) -> None:
    first, second = random_program(0, "uint8", (5, 4, 3)), random_program(1, "uint8", (5, 4, 3))
    path = tmp_path / "v.npz"
    path.write_bytes(to_bytes(first, record(first, random_inputs(first, 5))))
    try:
        assert differences(path, second)[1] != []
    except BlrcError as error:
        assert "missing or damaged" in str(error)


def test_more_inputs_than_are_ever_recorded_are_refused(tmp_path: Path) -> None:
    program = random_program(0, "uint8", (5, 4, 3))
    path = tmp_path / "v.npz"
    path.write_bytes(
        edited(to_bytes(program, record(program, random_inputs(program, 5))), inputs=lambda a: a[[0] * 257])
    )
    with pytest.raises(BlrcError, match=rf"257 inputs; an export records {MOST} at most"):
        differences(path, program)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_no_npz(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    path.write_bytes(content)
    with pytest.raises(BlrcError, match=r"v\.npz: recorded vectors are missing or damaged"):
        differences(path, random_program(0, "uint8", (5, 4, 3)))

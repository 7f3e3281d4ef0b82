"""Programs that add up bits and codes under windows: what is legal, what they compute, and their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_programs import SUMS, Builder, random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.program import SumPool, Value, Window
from blrc.reading import npz

WINDOWS = [
    Window((1, 1)),
    Window((2, 2), (2, 2)),
    Window((3, 2), (2, 1), (1, 0, 2, 1)),
    Window((5, 6)),
    Window((2, 3), (3, 4), (1, 2, 0, 0)),
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("bits", [0, 1, 2, 3])
def test_sums_are_those_of_plain_loops(bits: int, window: Window) -> None:
    """Over all pixels of a window that lie inside the map; for codes and for bits that are 1."""
    rng = np.random.default_rng(bits)
    x = Value("x", "codes8" if bits else "bits", (5, 6, 3))
    if bits:
        x = replace(x, dtype=f"codes{bits}")  # type: ignore[arg-type]
    maps = rng.integers(0, 2 ** max(1, bits), (4, 5, 6, 3)).astype(np.uint8)
    size = window.output(5, 6)
    op = SumPool("sums", x, Value("y", "codes8", (*size, 3)), window)
    op.check()
    found = op.run(None, maps.astype(x.element.value))  # type: ignore[arg-type]
    assert found.dtype == np.uint8 and found.shape == (4, *size, 3)
    for n, row, column, c in np.ndindex(found.shape):
        expected = 0
        for ky in range(window.kernel[0]):
            for kx in range(window.kernel[1]):
                at = row * window.stride[0] - window.padding[0] + ky, column * window.stride[1] - window.padding[1] + kx
                if 0 <= at[0] < 5 and 0 <= at[1] < 6:
                    expected += int(maps[n, at[0], at[1], c])
        assert found[n, row, column, c] == expected


def _sums(x: str, y: str, window: Window, shape: tuple[int, int, int]) -> SumPool:
    return SumPool("sums", Value("x", x, (16, 16, 3)), Value("y", y, shape), window)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (_sums("int8", "codes8", Window((2, 2), (2, 2)), (8, 8, 3)), "sums take bits or codes, and give codes"),
        (_sums("bits", "bits", Window((1, 1)), (16, 16, 3)), "sums take bits or codes, and give codes"),
        (_sums("bits", "codes8", Window((2, 2), (2, 2)), (8, 7, 3)), r"pooled shape \(8, 7, 3\), expected \(8, 8, 3\)"),
        (_sums("bits", "codes8", Window((2, 2), dilation=(2, 1)), (14, 15, 3)), "windows of sums are not dilated"),
        (_sums("bits", "codes8", Window((16, 16)), (1, 1, 3)), "sums up to 256 do not fit codes8"),
        (_sums("codes4", "codes7", Window((3, 3), (3, 3)), (5, 5, 3)), "sums up to 135 do not fit codes7"),
        (_sums("bits", "codes3", Window((2, 2), (2, 2), (2, 0, 0, 0)), (9, 8, 3)), "may not lie wholly in the padding"),
    ],
)
def test_what_has_no_sum_is_refused(op: SumPool, message: str) -> None:
    with pytest.raises(BlrcError, match=f"op 'sums': .*{message}"):
        op.check()


def test_sums_that_just_fit() -> None:
    _sums("bits", "codes8", Window((15, 16)), (2, 1, 3)).check()
    _sums("bits", "codes3", Window((2, 2), (2, 2)), (8, 8, 3)).check()
    _sums("codes8", "codes8", Window((1, 1)), (16, 16, 3)).check()


@pytest.mark.parametrize("seed", [SUMS, SUMS + 1, SUMS + 5, SUMS + 7])
def test_files_come_back(seed: int, tmp_path: Path) -> None:
    program = random_program(seed, ("bits", "uint8", "int8")[seed % 3], members=2)
    assert any(isinstance(op, SumPool) for op in program.ops)
    path = tmp_path / "net.program.npz"
    program_file.save(program, path)
    found = program_file.load(path)
    assert found.ops == program.ops and program_file.digest(found) == program_file.digest(program)
    raw = random_inputs(program, 5)
    np.testing.assert_array_equal(reference.scores(found, raw, 1), reference.scores(program, raw, 1))


def test_others_are_written_in_an_older_format() -> None:
    builder = Builder(Value("input", "bits", (4, 4, 3)), np.random.default_rng(0), members=1)
    assert b'"format":1,' in program_file.to_bytes(builder.finish(np.int8))
    builder = Builder(Value("input", "bits", (4, 4, 3)), np.random.default_rng(0), members=1)
    builder.sums("sums", Window((2, 2), (2, 2)))
    assert b'"format":7,' in program_file.to_bytes(check(builder.finish(np.int8)))


@pytest.mark.parametrize("number", [1, 4, 6])
def test_regression_a_file_that_says_an_older_format_is_refused_by_op(number: int, tmp_path: Path) -> None:
    """Refuse an edited number: what reads that format knows no sums, and the file was taken."""
    builder = Builder(Value("input", "bits", (4, 4, 3)), np.random.default_rng(0), members=1)
    builder.sums("counts", Window((2, 2), (2, 2)))
    arrays = npz.from_bytes(program_file.to_bytes(check(builder.finish(np.int8))), 1 << 20)
    structure = json.loads(arrays["program"].tobytes()) | {"format": number}
    structure = {key: value for key, value in structure.items() if number >= 4 or key not in ("gate", "heads")}
    arrays["program"] = np.frombuffer(json.dumps(structure).encode(), np.uint8)
    message = f"op 'counts' \\(sum_pool\\) is of program format 7, and the file says {number}; export the model again"
    with pytest.raises(BlrcError, match=message):
        program_file.parse(npz.to_bytes(arrays), tmp_path / "net.program.npz")

"""The kernel that adds up bits and codes under windows, at the edges of its shapes and of its types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from by_night import night
from c_exports import assert_equal, export
from random_programs import SUMS, Builder, random_inputs, random_program

from blrc.net.elements import MOST_PLANES
from blrc.program.program import Program, SumPool, Value, Window
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild

Case = tuple[int, int, Window, int]
# bits read (0: +-1), channels, window, bits beyond those that are needed
CASES: list[Case] = [
    *((0, channels, Window((2, 2), (2, 2)), 0) for channels in (1, 31, 32, 33, 65)),  # sums in planes
    *((0, channels, Window((4, 5)), 0) for channels in (1, 32, 33)),  # in bytes, of the whole map
    *((bits, 35, Window((2, 2), (1, 2), (1, 0, 0, 1)), spare) for bits in (1, 2, 3, 4) for spare in (0, 2)),
    (0, 35, Window((3, 2), (2, 1), (1, 1, 0, 1)), 5),
    (4, 33, Window((4, 4), padding=(0, 1, 2, 0)), 0),  # sums up to 240
    (5, 33, Window((2, 4)), 0),  # bytes, sums up to 248
    (6, 3, Window((2, 2), (2, 3)), 0),
    (7, 1, Window((1, 2), (1, 1), (0, 1, 0, 0)), 0),
    (8, 40, Window((1, 1), (2, 2)), 0),
    (1, 33, Window((1, 1)), 0),  # one plane to one plane
]


def side_by_side() -> Program:
    """Every case, each behind a layer that makes codes of its size from the same bits."""
    builder = Builder(Value("input", "bits", (4, 5, 3)), np.random.default_rng(0), members=1)
    first = builder.x, builder.sample
    for i, (bits, channels, window, spare) in enumerate(CASES):
        builder.x, builder.sample = first
        builder.bits = bits
        builder.conv(f"feed{i}", Window((1, 1)), None, 1, channels)
        builder.sums(f"case{i}", window, spare)
    return builder.finish()


@pytest.mark.slow("compiles and runs every case")
@pytest.mark.parametrize("flags", [SANITIZE, *night(("-O2", *STRICT))])
def test_sums_of_bits_and_codes(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """On random maps, on the smallest numbers alone and on the largest alone."""
    program = side_by_side()
    places = {(op.x.element.planes > 0, op.y.element.planes > 0) for op in program.ops if isinstance(op, SumPool)}
    assert MOST_PLANES == 4 and places == {(True, True), (True, False), (False, False)}
    rng = np.random.default_rng(1)
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", flags) as c:
        for op in program.ops:
            if not isinstance(op, SumPool):
                continue
            assert c.step(op.name).kernel == "pool_sums"
            maps = rng.integers(0, op.x.element.high + 1, (6, *op.x.shape)).astype(op.x.element.value)
            maps[0], maps[1] = 0, op.x.element.high
            np.testing.assert_array_equal(c.run_op(op.name, maps), op.run(program, maps), err_msg=op.name)


@pytest.mark.slow("compiles and runs random programs")
@pytest.mark.parametrize("seed", [SUMS, SUMS + 1, SUMS + 7, *night(*(SUMS + i for i in (2, 3, 5, 6, 10, 15, 23)))])
def test_random_programs(tmp_path: Path, seed: int) -> None:
    program = random_program(seed, ("uint8", "bits", "int8")[seed % 3], members=1 + seed % 2)
    raw = random_inputs(program, 20)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", SANITIZE) as c:
        for member in range(len(program.members)):
            assert_equal(program, c.run(raw, member), raw, [step.y.name for step in c.layout.steps], member)


@pytest.mark.slow("compiles C twice")
def test_a_kernel_that_loses_its_carry_is_found(tmp_path: Path) -> None:
    builder = Builder(Value("input", "bits", (4, 5, 3)), np.random.default_rng(0), members=1)
    builder.sums("sums", Window((2, 2)))
    program = builder.finish(np.int8)
    raw = random_inputs(program, 4)
    folder = export(program, tmp_path, raw)
    source = folder / "net_blrc.c"
    text = source.read_text(encoding="ascii")
    assert " | ((other ^ one) & carry)" in text
    source.write_text(text.replace(" | ((other ^ one) & carry)", ""), encoding="ascii")
    with HostBuild(folder, "net", ("-O1",)) as c, pytest.raises(AssertionError):
        np.testing.assert_array_equal(c.run_op("sums", raw), program.ops[0].run(program, raw))

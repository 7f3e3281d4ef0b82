"""Kernels of weights of 8 bits, at the edges of their shapes, of what they read, and of the types of their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from by_night import night
from c_exports import assert_equal, export
from every_kernel import PLAIN
from random_programs import Builder, random_inputs, random_program
from tile_programs import assert_steps_equal

from blrc.program.program import Conv, Program, Value, Window
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.families.levels import limit_bits
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.layout.layout import lay_out

SAME = Window((3, 3), padding=(1, 1, 1, 1))
SKEW = Window((3, 2), (2, 1), (2, 0, 0, 1), (1, 2))
BEYOND = Window((2, 2), (1, 1), (3, 4, 3, 2))  # windows that lie wholly in the padding
ONE = Window((1, 1))
HALF = Window((2, 2), (2, 2))
OVERLAP = Window((3, 3), (2, 2), (1, 1, 1, 1))

Case = tuple[str, int, int, tuple[int, int, int], Window, int, int, Window | None]
# kernel, bits read (0: +-1), bits written, input shape, window, groups, outputs of a group, pool
CASES: list[Case] = [
    # rows: four at a time, and alone; numbers of a row up to a multiple of four
    *(("conv_whole", 0, 0, (4, 5, c), ONE, 1, n, None) for c, n in ((1, 2), (2, 1), (3, 3), (4, 4), (5, 5), (33, 9))),
    *(("conv_whole", k, 0, (4, 5, 7), SAME, 1, n, HALF) for k, n in ((0, 8), (1, 6), (2, 7), (3, 33), (4, 4))),
    *(
        ("conv_whole", k, j, (4, 5, 9), SAME, 1, 6, OVERLAP)
        for k, j in ((5, 1), (6, 2), (7, 3), (8, 4), (8, 8), (0, 5))
    ),
    *(("conv_whole", k, 3, (7, 6, 10), SKEW, 1, 33, None) for k in (0, 4, 8)),
    *(("conv_whole", k, 0, (3, 4, 5), BEYOND, 1, 6, HALF) for k in (0, 2, 8)),
    *(("conv_whole", k, 6, (6, 6, 66), SAME, 2, 5, None) for k in (0, 3, 5)),
    *(("conv_whole", k, 0, (3, 5, 33), Window((3, 5)), 1, 65, None) for k in (0, 1, 8)),  # dense
    ("conv_whole", 8, 8, (4, 4, 6), SAME, 6, 2, None),  # every input has two outputs
    ("conv_whole", 0, 0, (4, 4, 34), SAME, 34, 3, HALF),
    *(("conv_whole_depthwise", k, 0, (4, 5, c), SAME, c, 1, HALF) for k, c in ((0, 2), (2, 31), (4, 33), (8, 64))),
    *(("conv_whole_depthwise", k, j, (7, 6, 10), SKEW, 10, 1, OVERLAP) for k, j in ((0, 8), (1, 5), (3, 2), (6, 1))),
    *(("conv_whole_depthwise", k, 4, (3, 4, 40), BEYOND, 40, 1, None) for k in (0, 3, 8)),
    ("conv_whole_depthwise", 8, 8, (3, 5, 1), Window((3, 5)), 1, 1, None),
]


def side_by_side(cases: Sequence[Case]) -> Program:
    """Every case, each behind a layer that makes codes of its size from the same bits."""
    builder = Builder(Value("input", "bits", (4, 5, 3)), np.random.default_rng(0), members=1)
    first = builder.x, builder.sample
    for i, (_, read, written, (height, width, channels), window, groups, each, pool) in enumerate(cases):
        builder.x, builder.sample = first
        builder.bits, builder.whole = read, False
        feed = Window((max(1, 5 - height), max(1, 6 - width)), padding=(0, 0, max(0, height - 4), max(0, width - 5)))
        builder.conv(f"feed{i}", feed, None, 1, channels)
        builder.bits, builder.whole = written, True
        builder.conv(f"case{i}", window, pool, groups, each)
    builder.whole = False
    return builder.finish()


BUILDS = [
    (SANITIZE, 2),
    *(pytest.param(flags, 1, marks=pytest.mark.nightly) for flags in (SANITIZE, ("-O2", *STRICT), ("-O3",))),
]
"""Flags, and of how many cases one is taken."""


@pytest.mark.slow("compiles and runs every case")
@pytest.mark.parametrize(("flags", "every"), BUILDS)
def test_layers_of_8_bits(tmp_path: Path, flags: tuple[str, ...], every: int) -> None:
    cases = CASES[::every]
    program = side_by_side(cases)
    assert limit_bits(program) == 32
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", flags) as c:
        for i, case in enumerate(cases):
            assert c.step(f"case{i}").kernel == case[0]
        assert_steps_equal(program, c.run_op, " ".join(flags), count=6)


@pytest.mark.slow("compiles C")
def test_limits_of_16_bits(tmp_path: Path) -> None:
    """As of a depthwise layer on bits: twice the largest sum fits."""
    cases = [
        ("conv_whole_depthwise", 0, 2, (4, 5, 33), SAME, 33, 1, HALF),
        ("conv_whole", 0, 0, (4, 5, 9), ONE, 1, 5, None),
    ]
    program = side_by_side(cases)  # type: ignore[arg-type]
    assert limit_bits(program) == 16
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", SANITIZE) as c:
        assert_steps_equal(program, c.run_op, "limits of 16 bits", count=6)


def test_every_kernel_has_a_case() -> None:
    assert {case[0] for case in CASES} == {name for name in PLAIN if KERNELS[name].whole}


@pytest.mark.slow("compiles C")
@pytest.mark.parametrize("kind", ["uint8", *night("int8")])
def test_first_layers(tmp_path: Path, kind: str) -> None:
    """On pixels by a table for each channel, and on int8; two members; written as bits and as codes."""
    cases = [
        (window, groups, pool) for window in (ONE, SAME, SKEW, BEYOND) for groups in (1, 3) for pool in (None, HALF)
    ]
    builder = Builder(Value("input", kind, (5, 11, 3)), np.random.default_rng(7), members=2)  # type: ignore[arg-type]
    if kind == "uint8":
        builder.encode()
    first = builder.x, builder.sample
    builder.whole = True
    for i, (window, groups, pool) in enumerate(cases):
        builder.x, builder.sample, builder.bits = *first, (0, 2, 8)[i % 3]
        builder.conv(f"case{i}", window, pool, groups, 7 if groups == 1 else 1)
    program = builder.finish()
    kernels = [step.kernel for step in lay_out(program).steps]
    assert kernels.count("conv_whole") == kernels.count("conv_whole_depthwise") == len(cases) // 2
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", SANITIZE) as c:
        raw = random_inputs(program, 6)
        for member in range(2):
            assert_equal(program, c.run(raw, member), raw, [step.y.name for step in c.layout.steps], member)


@pytest.mark.slow("compiles and runs random programs")
@pytest.mark.parametrize("seed", [3003, *night(3000, 3006, 3009, 3012, 3015, 3018, 3021, 3024, 3027, 3039, 3045)])
def test_random_programs(tmp_path: Path, seed: int) -> None:
    program = random_program(seed, ("uint8", "bits", "int8")[seed // 3 % 3], members=1 + seed % 2)
    raw = random_inputs(program, 20)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", SANITIZE) as c:
        for member in range(len(program.members)):
            assert_equal(program, c.run(raw, member), raw, [step.y.name for step in c.layout.steps], member)


def test_a_byte_for_a_weight() -> None:
    """A row has a multiple of four weights, so that it is read by words; a depthwise layer has one for each tap."""
    program = side_by_side([CASES[4], ("conv_whole_depthwise", 0, 0, (4, 5, 2), SAME, 2, 1, HALF)])
    layers = [step for step in lay_out(program).steps if isinstance(step.op, Conv) and step.op.whole]
    assert [step.tables[0].nbytes for step in layers] == [5 * 8, 9 * 2]

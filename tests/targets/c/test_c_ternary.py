"""Kernels of weights of -1, 0 and +1, at the edges of their shapes and of the types of their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from by_night import first, night
from c_exports import assert_equal, export
from every_kernel import PLAIN
from random_programs import Builder, random_inputs, random_program
from tile_programs import assert_steps_equal

from blrc.net.bits import pack_ternary
from blrc.program.program import BinaryScores, Conv, Program, Value, Window
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.families.levels import limit_bits
from blrc.targets.c.kernels.families.ternary import interleaved, three_rows
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.layout.layout import lay_out

SAME = Window((3, 3), padding=(1, 1, 1, 1))
SKEW = Window((3, 2), (2, 1), (2, 0, 0, 1), (1, 2))
BEYOND = Window((2, 2), (1, 1), (3, 4, 3, 2))  # windows that lie wholly in the padding
ONE = Window((1, 1))
HALF = Window((2, 2), (2, 2))
OVERLAP = Window((3, 3), (2, 2), (1, 1, 1, 1))
CARRY_SAVE = ("-O2", "-DNET_BLRC_UNIT_BITS=32", "-DNET_BLRC_HAS_POPCOUNT=0")
COUNTED = ("-O2", "-mpopcnt")

Case = tuple[str, int, int, tuple[int, int, int], Window, int, int, Window | None]
# kernel, bits read (0: +-1), bits written, input shape, window, groups, outputs of a group, pool
CASES: list[Case] = [
    *(("conv_ternary", 0, 0, (4, 5, c), SAME, 1, n, HALF) for c, n in ((1, 1), (7, 31), (32, 32), (33, 33), (64, 65))),
    ("conv_ternary", 0, 0, (7, 6, 40), SKEW, 1, 33, OVERLAP),
    ("conv_ternary", 0, 0, (3, 4, 5), BEYOND, 1, 6, None),
    ("conv_ternary", 0, 0, (3, 4, 32), BEYOND, 1, 6, None),
    ("conv_ternary", 0, 0, (6, 6, 33), SAME, 33, 1, None),  # depthwise
    ("conv_ternary", 0, 0, (6, 6, 66), SAME, 2, 12, HALF),  # groups of 33 bits
    ("conv_ternary", 0, 0, (3, 3, 128), SAME, 2, 20, None),  # groups of whole words
    ("conv_ternary", 0, 0, (3, 5, 33), Window((3, 5)), 1, 65, None),  # dense
    # words of a row: alone, pairs, four pairs with and without one alone, eight pairs, and what is left of them
    *(("conv_ternary", 0, 0, (1, 1, 32 * n), ONE, 1, 5, None) for n in (1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 31, 32, 41)),
    *(("conv_ternary_planes", k, 0, (4, 5, 32), SAME, 1, n, None) for k, n in ((1, 33), (2, 4), (3, 5), (4, 1))),
    *(("conv_ternary_planes", 2, k, (4, 5, c), SAME, 1, 9, HALF) for k, c in ((1, 1), (3, 7), (5, 33), (8, 64))),
    ("conv_ternary_planes", 3, 4, (7, 6, 40), SKEW, 1, 33, OVERLAP),
    ("conv_ternary_planes", 4, 0, (3, 4, 5), BEYOND, 1, 6, None),
    ("conv_ternary_planes", 2, 3, (6, 6, 66), SAME, 2, 12, HALF),
    *(("conv_ternary_planes", 0, k, (4, 5, 33), SAME, 1, 9, HALF) for k in (1, 4, 8)),
    ("conv_ternary_planes", 0, 2, (3, 4, 6), BEYOND, 3, 2, OVERLAP),
    *(("conv_ternary_bytes", k, 2, (4, 5, 9), SAME, 1, n, HALF) for k, n in ((5, 5), (6, 6), (7, 7), (8, 33))),
    ("conv_ternary_bytes", 8, 8, (7, 6, 40), SKEW, 1, 33, OVERLAP),
    ("conv_ternary_bytes", 8, 0, (3, 4, 5), BEYOND, 1, 6, None),
    ("conv_ternary_bytes", 5, 1, (6, 6, 33), SAME, 33, 1, None),
    ("conv_ternary_bytes", 8, 5, (6, 6, 22), SAME, 2, 9, None),
    *(("conv_ternary_bytes", 8, 0, (1, 1, c), ONE, 1, 5, None) for c in (1, 2, 3, 32, 33, 34, 66, 67, 200)),
]


def side_by_side(cases: Sequence[Case]) -> Program:
    """Every case, each behind a layer that makes codes of its size from the same bits."""
    builder = Builder(Value("input", "bits", (4, 5, 3)), np.random.default_rng(0), members=1)
    first = builder.x, builder.sample
    for i, (_, read, written, (height, width, channels), window, groups, each, pool) in enumerate(cases):
        builder.x, builder.sample = first
        builder.bits, builder.ternary = read, False
        feed = Window((max(1, 5 - height), max(1, 6 - width)), padding=(0, 0, max(0, height - 4), max(0, width - 5)))
        builder.conv(f"feed{i}", feed, None, 1, channels)
        builder.bits, builder.ternary = written, True
        builder.conv(f"case{i}", window, pool, groups, each)
    return builder.finish()


BUILDS = [
    (32, SANITIZE, 2),
    (16, CARRY_SAVE, 4),
    (16, COUNTED, 6),
    *(
        pytest.param(limits, flags, 1, marks=pytest.mark.nightly)
        for flags in (SANITIZE, CARRY_SAVE, COUNTED, ("-O2", *STRICT), (*SANITIZE, *CARRY_SAVE[1:]))
        for limits in (16, 32)
    ),
]
"""Bits of the limits, flags, and of how many cases one is taken: by day half of them under sanitizers, and some
with each other way to count bits and with small limits."""


def is_narrow(case: Case) -> bool:
    """Whether its limits fit 16 bits: sums on both sides of 0, twice."""
    _, read, _, (_, _, channels), window, groups, _, _ = case
    return 2 * (2 ** max(1, read) - 1) * window.taps * channels // groups + 1 < 2**15


@pytest.mark.slow("compiles and runs every case")
@pytest.mark.parametrize(("limits", "flags", "every"), BUILDS)
def test_ternary_layers(tmp_path: Path, flags: tuple[str, ...], limits: int, every: int) -> None:
    cases = [case for case in CASES if limits == 32 or is_narrow(case)]
    assert len(cases) > 40
    cases = cases[::every]
    program = side_by_side(cases)
    assert limit_bits(program) == limits
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", flags) as c:
        for i, case in enumerate(cases):
            assert c.step(f"case{i}").kernel == case[0]
        assert_steps_equal(program, c.run_op, " ".join(flags), count=6)


def test_every_kernel_has_a_case() -> None:
    ternary = {name for name in PLAIN if KERNELS[name].ternary}
    assert {case[0] for case in CASES} | {"scores_ternary", "conv_ternary_pairs"} == ternary


@pytest.mark.slow("compiles C")
@pytest.mark.parametrize("kind", first(1, ["uint8", "int8"]))
def test_first_layers(tmp_path: Path, kind: str) -> None:
    """Codes of one three and of as many as are tabulated; rows in sixes that cross words; odd widths; pools."""
    cases = [
        *((Window((1, 1)), n, None) for n in (1, 5, 6, 7, 27, 31, 32, 33, 65)),
        *((window, 37, pool) for window in (SAME, SKEW, BEYOND) for pool in (None, HALF, OVERLAP)),
        (Window((1, 11)), 6, None),
        (Window((3, 4), padding=(1, 1, 1, 2)), 6, HALF),
    ]
    builder = Builder(Value("input", kind, (5, 11, 3)), np.random.default_rng(7), members=2)  # type: ignore[arg-type]
    if kind == "uint8":
        builder.encode()
    first = builder.x, builder.sample
    builder.ternary = True
    for i, (window, outputs, pool) in enumerate(cases):
        builder.x, builder.sample = first
        builder.conv(f"case{i}", window, pool, 1, outputs)
    program = builder.finish()
    kernels = {step.op.name: step.kernel for step in lay_out(program).steps}
    assert [kernels[f"case{i}"] for i in range(len(cases))].count("conv_ternary_pairs") == len(cases) - 1
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", SANITIZE) as c:
        raw = random_inputs(program, 6)
        for member in range(2):
            assert_equal(program, c.run(raw, member), raw, [step.y.name for step in c.layout.steps], member)


@pytest.mark.slow("compiles and runs random programs")
@pytest.mark.parametrize("seed", [1005, *night(1010, 1015, 1020, 1025, 1040, 1050, 1055, 1095)])
def test_random_programs(tmp_path: Path, seed: int) -> None:
    program = random_program(seed, ("uint8", "bits", "int8")[seed % 3], members=1 + seed % 2)
    raw = random_inputs(program, 20)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", SANITIZE) as c:
        for member in range(len(program.members)):
            assert_equal(program, c.run(raw, member), raw, [step.y.name for step in c.layout.steps], member)


@pytest.mark.slow("compiles C")
@pytest.mark.parametrize("bits", [0, 4, 8, *night(1)])
def test_scores(tmp_path: Path, bits: int) -> None:
    """Of +-1, of planes and of bytes, at their extremes."""
    builder = Builder(Value("input", "bits", (3, 2, 35)), np.random.default_rng(bits), members=2)
    builder.bits = bits
    builder.conv("feed", ONE, None, 1, 37)
    builder.ternary = True
    program = builder.finish_binary()
    last = program.ops[-1]
    assert isinstance(last, BinaryScores) and last.ternary
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", SANITIZE) as c:
        assert c.step("scores").kernel == "scores_ternary"
        for member in range(2):
            x = np.concatenate([each for _, each in last.extremes(program, member)])
            np.testing.assert_array_equal(c.run_op("scores", x, member), last.run(program, x, member))


@pytest.mark.slow("compiles C twice")
def test_a_kernel_without_its_mask_is_found(tmp_path: Path) -> None:
    program = side_by_side([CASES[2]])
    raw = random_inputs(program, 1)
    folder = export(program, tmp_path, raw)
    source = folder / "net_blrc.c"
    text = source.read_text(encoding="ascii")
    mask = " & NET_BLRC_READ(uint32_t, w, 2)"
    assert mask in text
    source.write_text(text.replace(mask, ""), encoding="ascii")
    with HostBuild(folder, "net", CARRY_SAVE) as c, pytest.raises(pytest.fail.Exception, match="without the mask"):
        assert_steps_equal(program, c.run_op, "without the mask", count=6)


def test_rows_by_hand() -> None:
    """Three words: a pair of signs, a pair of what is not 0, and the last ones alone."""
    numbers = np.zeros((1, 1, 1, 70), np.int8)
    numbers[..., 0], numbers[..., 33], numbers[..., 69], numbers[..., 68] = 1, -1, 1, -1
    row = interleaved(pack_ternary(numbers), 70)
    assert row.tolist() == [[1, 0, 1, 2, 0b100000, 0b110000]]


def test_threes_by_hand() -> None:
    """Rows of four weights: (1, 0, -1), 1; seven rows are two blocks, and what is missing is 0."""
    numbers = np.tile(np.array([1, 0, -1, 1], np.int8), (7, 1)).reshape(7, 1, 1, 4)
    words = three_rows(pack_ternary(numbers), 4, 1)
    first, second, none = 2 + 3 + 0, 2 + 3 + 9, 13
    whole = [sum(number << 5 * row for row in range(6)) for number in (first, second, none)]
    assert words.tolist() == [
        whole[0],
        whole[1],
        *(number + sum(none << 5 * row for row in range(1, 6)) for number in (first, second)),
    ]


def test_both_planes_are_counted() -> None:
    """A ternary layer takes twice the flash of a binary one, in bytes for pixels five bits for three weights."""
    program = random_program(1000, "bits")
    for step in lay_out(program).steps:
        if isinstance(step.op, Conv):
            words = -(-step.op.fan_in // 32)
            assert step.tables[0].nbytes == step.y.shape[2] * words * 8

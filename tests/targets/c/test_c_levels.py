"""Kernels of codes of several thresholds, at the edges of their shapes and of the types of their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from by_night import night
from c_exports import assert_equal, export
from every_kernel import PLAIN
from random_programs import Builder, random_inputs
from tile_programs import assert_steps_equal

from blrc.net.bits import pack_signs
from blrc.net.elements import MOST_PLANES
from blrc.program.program import Constant, Conv, Program, Value, Window
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.families.levels import limit_bits
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.layout.layout import X86_64, lay_out
from blrc.targets.c.runtime_files import constant

SAME = Window((3, 3), padding=(1, 1, 1, 1))
SKEW = Window((3, 2), (2, 1), (2, 0, 0, 1), (1, 2))
BEYOND = Window((2, 2), (1, 1), (3, 4, 3, 2))  # windows that lie wholly in the padding
ONE = Window((1, 1))
HALF = Window((2, 2), (2, 2))
OVERLAP = Window((3, 3), (2, 2), (1, 1, 1, 1))
CARRY_SAVE = ("-O2", "-DNET_BLRC_UNIT_BITS=32", "-DNET_BLRC_HAS_POPCOUNT=0")

Case = tuple[str, int, int, tuple[int, int, int], Window, int, int, Window | None]
# kernel, bits read (0: +-1), bits written, input shape, window, groups, outputs of a group, pool
CASES: list[Case] = [
    *(("conv_planes", k, 2, (4, 5, 32), SAME, 1, n, None) for k, n in ((1, 33), (2, 4), (3, 5), (4, 1))),
    *(("conv_planes", 2, k, (4, 5, c), SAME, 1, 9, HALF) for k, c in ((1, 1), (3, 7), (4, 31), (5, 33), (8, 64))),
    ("conv_planes", 3, 4, (7, 6, 41), SKEW, 1, 33, OVERLAP),
    ("conv_planes", 4, 0, (3, 4, 5), BEYOND, 1, 6, None),
    ("conv_planes", 2, 2, (6, 6, 33), SAME, 33, 1, None),  # depthwise
    ("conv_planes", 2, 3, (6, 6, 66), SAME, 2, 12, HALF),  # groups of 33 bits, rows in fours
    ("conv_planes", 1, 7, (6, 6, 70), SAME, 2, 3, None),  # groups of 35 bits, single rows
    ("conv_planes", 4, 4, (3, 5, 33), Window((3, 5)), 1, 65, None),  # dense
    *(("conv_planes", 2, 2, (1, 1, c), ONE, 1, 5, None) for c in (31, 33, 288, 289, 1000)),
    ("conv_planes", 2, 2, (1, 1, 32), ONE, 1, 4, None),
    *(("conv_planes", 0, k, (4, 5, 33), SAME, 1, 9, HALF) for k in (1, 4, 8)),
    ("conv_planes", 0, 2, (3, 4, 6), BEYOND, 3, 2, OVERLAP),
    *(("conv_bytes", k, 2, (4, 5, 9), SAME, 1, n, HALF) for k, n in ((5, 7), (6, 8), (7, 9), (8, 33))),
    ("conv_bytes", 8, 8, (7, 6, 40), SKEW, 1, 33, OVERLAP),
    ("conv_bytes", 8, 0, (3, 4, 5), BEYOND, 1, 6, None),
    ("conv_bytes", 5, 1, (6, 6, 33), SAME, 33, 1, None),
    ("conv_bytes", 8, 5, (6, 6, 22), SAME, 2, 9, None),
    ("conv_bytes", 8, 4, (3, 5, 33), Window((3, 5)), 1, 65, None),
    *(("conv_bytes", 8, 8, (1, 1, c), ONE, 1, 5, None) for c in (1, 31, 32, 33, 200)),
    *(("conv_bytes", 8, 8, (1, 3, c), ONE, 1, 9, None) for c in (127, 128, 129, 256)),  # two pixels, then one
    ("conv_bytes", 6, 3, (5, 5, 8), SAME, 1, 7, Window((1, 1), (2, 2))),
    # planes
    ("conv_bytes", 3, 4, (7, 6, 40), SKEW, 1, 33, OVERLAP),
    ("conv_bytes", 2, 8, (4, 5, 36), SAME, 1, 65, HALF),
    ("conv_bytes", 4, 3, (5, 5, 72), SAME, 2, 40, None),  # groups of 36
    ("conv_bytes", 4, 0, (3, 4, 64), BEYOND, 1, 96, None),
    ("conv_bytes", 3, 2, (1, 1, 132), ONE, 1, 200, None),
]


def side_by_side(cases: Sequence[Case]) -> Program:
    """Every case, each behind a layer that makes codes of its size from the same bits."""
    builder = Builder(Value("input", "bits", (4, 5, 3)), np.random.default_rng(0), members=1)
    first = builder.x, builder.sample
    for i, (_, read, written, (height, width, channels), window, groups, each, pool) in enumerate(cases):
        builder.x, builder.sample = first
        builder.bits = read
        feed = Window((max(1, 5 - height), max(1, 6 - width)), padding=(0, 0, max(0, height - 4), max(0, width - 5)))
        builder.conv(f"feed{i}", feed, None, 1, channels)
        builder.bits = written
        builder.conv(f"case{i}", window, pool, groups, each)
    return builder.finish()


BUILDS = [
    (32, SANITIZE, 2),
    (16, CARRY_SAVE, 4),
    *(
        pytest.param(limits, flags, 1, marks=pytest.mark.nightly)
        for flags in (SANITIZE, CARRY_SAVE, ("-O2", *STRICT), (*SANITIZE, *CARRY_SAVE[1:]))
        for limits in (16, 32)
    ),
]
"""Bits of the limits, flags, and of how many cases one is taken: by day half of them under sanitizers, and some
with the other way to count bits and with small limits."""


def is_narrow(case: Case) -> bool:
    """Whether its limits fit 16 bits: sums on both sides of 0, twice."""
    _, read, _, (_, _, channels), window, groups, _, _ = case
    return 2 * (2 ** max(1, read) - 1) * window.taps * channels // groups + 1 < 2**15


@pytest.mark.slow("compiles and runs every case")
@pytest.mark.parametrize(("limits", "flags", "every"), BUILDS)
def test_layers_of_codes(tmp_path: Path, flags: tuple[str, ...], limits: int, every: int) -> None:
    cases = [case for case in CASES if limits == 32 or is_narrow(case)]
    assert len(cases) > 30
    cases = cases[::every]
    program = side_by_side(cases)
    assert limit_bits(program) == limits
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", flags) as c:
        for i, case in enumerate(cases):
            assert c.step(f"case{i}").kernel == case[0]
        assert_steps_equal(program, c.run_op, " ".join(flags), count=6)


@pytest.mark.parametrize("flags", [SANITIZE, *night(("-O2", *STRICT))])
def test_the_largest_sums_fit_their_halves(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Of windows of the largest codes beside such that see few, with all weights alike and with every other one."""
    builder = Builder(Value("input", "bits", (3, 7, 4)), np.random.default_rng(0), members=1)
    for name, bits, window, rows in (("feed", 8, ONE, 150), ("case", 8, SKEW, 5), ("next", 8, SAME, 4)):
        builder.bits = bits
        builder.conv(name, window, None, 1, rows)
        op = builder.ops[-1]
        assert isinstance(op, Conv)
        low, high = builder.program().bounds(op)
        line = np.full(2**bits - 1, low) if name == "feed" else np.linspace(low + 1, high, 2**bits - 1)
        builder.constants[op.thresholds] = Constant((np.tile(line, (rows, 1)).astype(np.int32),), (0,))
        if name == "case":
            signs = np.ones((rows, *window.kernel, 150), np.int64)
            signs[1], signs[2, ..., ::2], signs[3, ..., 75:] = -1, -1, -1
            builder.constants[op.weights] = Constant((pack_signs(signs),), (0,))
            z = op.preactivation(builder.program(), builder.before)
            assert z.max() == high and z.min() == low
        builder.sample = op.run(builder.program(), builder.before)
    program = builder.finish()
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", flags) as c:
        assert c.step("case").kernel == "conv_bytes"
        assert_steps_equal(program, c.run_op, " ".join(flags), count=3)


def test_every_kernel_has_a_case() -> None:
    of_levels = {name for name in PLAIN if KERNELS[name].levels}
    assert {case[0] for case in CASES} | {"pool_levels", "pool_sums", "scores_levels", "scores_signs"} == of_levels


@pytest.mark.parametrize("flags", [SANITIZE, *night(("-O2", *STRICT))])
def test_thresholds_on_a_line_become_multipliers(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """For each member that has thresholds of its own, and of channels that always give one code."""
    rng = np.random.default_rng(5)
    builder = Builder(Value("input", "int8", (5, 6, 3)), rng, members=2)
    for name, bits in (("bytes", 8), ("whole", 4), ("planes", 7)):
        builder.bits = bits
        builder.conv(name, SAME, HALF if name == "bytes" else None, 1, 9)
        op = builder.ops[-1]
        assert isinstance(op, Conv)
        tables = []
        for member in range(2):
            z = op.preactivation(builder.program(), builder.before, member)
            slope = 4 * z.std(axis=(0, 1, 2)) / 2**bits
            line = np.ceil(slope[:, None] * (np.arange(1, 2**bits) - 0.5) + z.mean(axis=(0, 1, 2))[:, None])
            low, high = builder.program().bounds(op)
            line[0], line[1] = low, high + 1
            tables.append(line.clip(low, high + 1).astype(np.int32))
        builder.constants[op.thresholds] = Constant(tuple(tables), (0, 1))
        builder.sample = op.run(builder.program(), builder.before)
    program = builder.finish()
    raw = random_inputs(program, 12)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", flags) as c:
        assert [c.step(name).tables[-1].role for name in ("bytes", "whole", "planes")] == ["scales"] * 3
        for member in range(2):
            assert_equal(program, c.run(raw, member), raw, [op.y.name for op in program.ops], member)
        # Members of one structure share a library on hosts, whose tables have one length.
        assert {step.tables[-1].role for step in lay_out(program, cpu=X86_64).steps[:3]} == {"limits"}


def test_c_and_python_hold_codes_of_the_same_lengths_in_planes() -> None:
    assert constant("BLRC_MOST_PLANES") == MOST_PLANES

"""Kernels of exports for x86-64: every level of the instruction set gives the reference's bits."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_night import where
from c_exports import assert_equal, export
from hypothesis import given
from hypothesis import strategies as st
from random_programs import random_program
from tile_programs import (
    CODE_EDGES,
    EDGES,
    HALF,
    LANE_EDGES,
    SAME,
    assert_steps_equal,
    inputs,
    many_convs,
    random_cases,
    random_maps,
)

from blrc.errors import BlrcError
from blrc.net.bits import unpack
from blrc.program import reference
from blrc.program.program import Conv, DType, Program, Window
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.cpus import TIERS as ALL_TIERS
from blrc.targets.c.kernels.families.host import lanes
from blrc.targets.c.kernels.families.host.tiles import limits, look_bytes, units
from blrc.targets.c.kernels.tiers import VARIABLE, tier_flags
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native
from blrc.targets.c.options import parse_c
from blrc.targets.c.runtime_files import constant, include_flags, runtime_dir, runtime_files

TIERS = ALL_TIERS["x86-64"]
NEEDED = {
    "portable": set(),
    "popcnt": {"popcnt", "ssse3", "sse4_1"},
    "avx2": {"avx2"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vpopcntdq", "avx512_vnni"},
}

pytestmark = [
    pytest.mark.needs("cc"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="this machine is no x86-64"),
]


def need(tier: str) -> None:
    """Skip where this CPU lacks the level: the code would quietly take a lower one."""
    found = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    if missing := NEEDED[tier] - found:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")


def test_the_runtime_counts_levels_as_python_does() -> None:
    for name, levels in ALL_TIERS.items():
        assert [constant(f"BLRC_TIER_{level.upper()}") for level in levels] == list(range(len(levels))), name
    assert constant("BLRC_TIERS") == len(TIERS)
    masks = re.search(r"enum \{(.*), BLRC_MASKS \}", runtime_files()["blrc_lanes.h"].read_text())
    assert masks is not None and masks[1].count(",") + 1 == lanes.MASKS


def check_level(program: Program, tier: str) -> set[str]:
    """Every op of the program, alone on random input, gives the reference's bits at this level; the kernels."""
    native = Native(library_files(program, "net"), "net", program, 1, ("-O1",))
    assert_steps_equal(program, native.run_op, tier)
    return {step.kernel for step in native.layout.steps}


@pytest.mark.parametrize(
    ("tier", "part"),
    [
        *(pytest.param(tier, 0, marks=[] if tier in ("portable", "avx2") else [pytest.mark.nightly]) for tier in TIERS),
        *(pytest.param(tier, 1, marks=[] if tier == TIERS[-1] else [pytest.mark.nightly]) for tier in TIERS),
    ],
)
@pytest.mark.slow("compiles kernels of every level")
def test_every_level_at_the_edges_of_blocks(tier: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    need(tier)
    monkeypatch.setenv(VARIABLE, tier)
    dense = {"dense_tiles"} if part == 1 else set()
    assert check_level(many_convs(EDGES[part]), tier) == {"conv_tiles", "scores_dots"} | dense


@pytest.mark.nightly
@pytest.mark.parametrize("tier", TIERS)
def test_bit_sliced_layers_of_every_level(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need(tier)
    monkeypatch.setenv(VARIABLE, tier)
    rng = np.random.default_rng(int(os.environ.get("BLRC_FUZZ_SEED", "0")))
    program = many_convs([*LANE_EDGES, *random_maps(rng, 6)], int(rng.integers(2**31)))
    kernels = [step.kernel for step in lay_out(program, cpu="x86-64").steps if step.op.name.startswith("case")]
    assert set(kernels) == {"conv_lanes"}
    check_level(program, tier)


@pytest.mark.parametrize("tier", [pytest.param("popcnt", marks=pytest.mark.nightly), "avx2"])
def test_bit_sliced_maps_smaller_than_a_vector(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And groups of every size, the last of them smaller; whether it pays or not."""
    need(tier)
    monkeypatch.setenv(VARIABLE, tier)
    for name, value in (("LEAST_LANES", 0), ("LEAST_OUTPUTS", 1), ("SHARED", lanes.SHARING)):
        monkeypatch.setattr(lanes, name, value)
    monkeypatch.setattr(lanes.slices, "sharing", lambda op: 1 + op.y.shape[2] % lanes.SHARING)
    maps = [(1, 1, 5, None), (1, 9, 3, None), (3, 1, 8, None), (2, 2, 1, HALF), (7, 7, 33, HALF), (5, 17, 70, HALF)]
    program = many_convs(
        [
            (height, width, channels, outputs, SAME, pool)
            for i, (height, width, channels, pool) in enumerate(maps)
            for outputs in (i + 1, i + 7, i + 15)
        ]
    )
    steps = [step for step in lay_out(program, cpu="x86-64").steps if step.op.name.startswith("case")]
    assert {step.kernel for step in steps} == {"conv_lanes"}
    shared = {int(table.arrays[0][0]) for step in steps for table in step.tables if table.role == "lists"}
    assert shared == set(range(1, lanes.SHARING + 1))
    check_level(program, tier)


@pytest.mark.parametrize("tier", where(lambda tier: tier != "avx2", TIERS))
@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.nightly) for i in range(1, len(CODE_EDGES)))])
def test_first_layers_of_every_level(tier: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    need(tier)
    monkeypatch.setenv(VARIABLE, tier)
    assert check_level(many_convs(CODE_EDGES[part], dtype="int8"), tier) == {"conv_dots", "scores_dots"}


@pytest.mark.nightly
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", ["bits", "int8"])
def test_random_shapes_of_every_level(tier: str, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    need(tier)
    monkeypatch.setenv(VARIABLE, tier)
    rng = np.random.default_rng(int(os.environ.get("BLRC_FUZZ_SEED", "0")))
    check_level(many_convs(random_cases(rng, 16, dtype == "int8"), int(rng.integers(2**31)), dtype), tier)


@pytest.mark.parametrize(
    ("tier", "kind", "dtype"),
    [
        *(
            pytest.param(tier, kind, dtype, marks=[] if (tier, kind) == (TIERS[-1], "codes") else [pytest.mark.nightly])
            for kind, dtype in (("tiles", "bits"), ("codes", "int8"))
            for tier in TIERS
        ),
        pytest.param("popcnt", "lanes", "bits", marks=pytest.mark.nightly),
        pytest.param("avx2", "lanes", "bits", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.slow("compiles kernels of every level")
def test_no_level_reads_or_writes_outside(
    tier: str, kind: str, dtype: DType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(tier)
    monkeypatch.setenv(VARIABLE, tier)
    program = many_convs({"tiles": EDGES[0], "lanes": LANE_EDGES[1:3], "codes": CODE_EDGES[0]}[kind], 0, dtype)
    raw = inputs(program)
    expected = reference.run(program, raw)
    with HostBuild(export(program, tmp_path, raw, cpu="x86-64"), "net", SANITIZE) as build:
        assert_equal(program, build.run(raw), raw, list(expected))


@given(seed=st.integers(0, 10**6))
def test_limits_are_thresholds(seed: int) -> None:
    """popcount(run xor weights) <= limit is z >= threshold, wherever the window lies."""
    rng = np.random.default_rng(seed)
    kernel, size = tuple(rng.integers(1, 4, 2)), tuple(rng.integers(2, 6, 2))
    window = Window(
        (int(kernel[0]), int(kernel[1])), padding=tuple(int(p) for p in rng.integers(0, 3, 4)), dilation=(1, 2)
    )
    if min(window.output(*size)) < 1:
        return
    program = many_convs([(int(size[0]), int(size[1]), int(rng.integers(1, 40)), 3, window, None)], seed)
    op = program.ops[0]
    assert isinstance(op, Conv)
    x = inputs(program, 1, seed)
    z = op.preactivation(program, x)[0]
    weights, thresholds = program.constant(op.weights), program.constant(op.thresholds)
    step = lay_out(program, cpu="x86-64").steps[0]
    places = step.tables[-1].arrays[0]
    table = limits(op, weights, thresholds)
    top, left, bottom, right = window.padding
    padded = np.pad(x[0], ((top, bottom), (left, right), (0, 0)))
    bits = unpack(weights, op.group_channels)
    for my in range(op.unpooled[0]):
        for mx in range(op.unpooled[1]):
            seen = padded[my : my + window.span[0], mx : mx + window.span[1] : window.dilation[1]]
            ones = (seen[None] != bits).sum(axis=(1, 2, 3))
            limit = table[places[my] + places[op.unpooled[0] + mx], : len(thresholds)]
            np.testing.assert_array_equal(ones <= limit, z[my, mx] >= thresholds, err_msg=f"{op} at {my}, {mx}")


def test_tables_hold_every_bit_once() -> None:
    rng = np.random.default_rng(0)
    for out, total in ((1, 1), (32, 2), (33, 7), (16 * 32 + 5, 9)):
        rows = rng.integers(0, 2**32, (out, total)).astype(np.uint32)
        by_unit = units(rows).reshape(-1, -(-total // 2), 32, 2)
        ones = int(np.bitwise_count(rows).sum())
        assert int(np.bitwise_count(by_unit).sum()) == int(np.bitwise_count(look_bytes(rows)).sum()) == ones
        assert by_unit[0, 0, 0, 0] == rows[0, 0]
        if out > 2:
            assert (by_unit[0, 0, 8, 0], by_unit[0, 0, 1, 0]) == (rows[1, 0], rows[2, 0])


@pytest.mark.slow("compiles kernels of every level")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_random_networks_with_every_op(seed: int) -> None:
    program = random_program(seed, "uint8", members=2, layers=3)
    raw = np.random.default_rng(seed).integers(0, 256, (5, *program.input.shape)).astype(np.uint8)
    native = Native(library_files(program, "net"), "net", program, 1, ("-O1",))
    for member in range(2):
        assert_equal(program, native.run(raw, member), raw, [s.y.name for s in native.layout.steps], member)


def test_the_level_is_an_option_of_the_user() -> None:
    assert tier_flags("net", "x86-64", {}) == ()
    assert tier_flags("net", "x86-64", {VARIABLE: "avx2"}) == ("-DNET_BLRC_TIER_MOST=2",)
    assert tier_flags("net", "portable", {VARIABLE: "avx2"}) == ()
    assert tier_flags("net", "aarch64", {VARIABLE: "neon"}) == ("-DNET_BLRC_TIER_MOST=1",)
    with pytest.raises(BlrcError, match="BLRC_TIER=avx2: there is no such level of aarch64; take one of portable"):
        tier_flags("net", "aarch64", {VARIABLE: "avx2"})
    with pytest.raises(BlrcError, match="BLRC_TIER=avx: there is no such level of x86-64; take one of por"):
        tier_flags("net", "x86-64", {VARIABLE: "avx"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu": "x86"}, "--cpu x86: expected portable, x86-64, .* or "),
        *(
            ({"cpu": cpu, **small}, f"--cpu {cpu} cannot be combined with --flash, --ram, --package or --optimize")
            for cpu in ("aarch64", "x86-64")
            for small in ({"flash": "1M"}, {"ram": 9}, {"packages": "cmake"}, {"optimize": "ram"})
        ),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        parse_c(**options)


def test_large_layers_fall_back_to_portable_kernels() -> None:
    huge = Window((9, 9), padding=(4, 4, 4, 4))
    program = many_convs([(12, 12, 2048, 3, huge, None), (5, 200, 2000, 3, Window((3, 3)), None)])
    assert [step.kernel for step in lay_out(program, cpu="x86-64").steps[:2]] == ["conv_rows", "conv_rows"]


def test_the_avx512_level_takes_lanes_where_all_are_pixels() -> None:
    """Counting bits in tiles took 142 us there and AVX2's lanes 121 (3x3, 128 channels to 128 at 32x32, Zen 4)."""
    maps = {
        (32, 32): "avx512",
        (16, 16): "avx512",
        (14, 14): "avx2",
        (31, 32): "avx512",
        (30, 30): "avx2",
        (8, 20): "avx2",
    }
    program = many_convs([(*size, 32, 16, SAME, None) for size in maps])
    steps = [step for step in lay_out(program, cpu="x86-64").steps if step.op.name.startswith("case")]
    for step, (size, level) in zip(steps, maps.items(), strict=True):
        assert step.kernel == "conv_lanes", size
        lists = next(table for table in step.tables if table.role == "lists")
        assert TIERS[lists.arrays[0][1]] == level, size
        assert ("before AVX-512" in step.why) == (level == "avx2")


LANES_MAIN = """
#include <stdio.h>
#include "blrc_conv_lanes.c"
static int32_t now;
static const char *ran;
int32_t blrc_tier(void) { return now; }
void blrc_lanes_popcnt(const blrc_lanes *in) { (void)in; ran = "popcnt"; }
void blrc_lanes_avx2(const blrc_lanes *in) { (void)in; ran = "avx2"; }
void blrc_conv_tiles(const blrc_conv *op, const uint32_t *x, const uint32_t *weights, const uint8_t *bytes,
                     const int32_t *limits, const int32_t *places, uint32_t *y)
{ (void)op, (void)x, (void)weights, (void)bytes, (void)limits, (void)places, (void)y; ran = "tiles"; }
int main(void)
{
    static uint32_t scratch[16384], x[64], y[64];
    static blrc_conv op;
    uint16_t lists[BLRC_LANES_LIST] = {1, 0};
    op.in_height = op.in_width = op.out_height = op.out_width = 8, op.in_channels = op.out_channels = 1;
    op.pool.kernel_y = 1;
    for (lists[1] = 1; lists[1] < BLRC_TIERS; ++lists[1]) {
        for (now = 0; now < BLRC_TIERS; ++now) {
            blrc_conv_lanes(&op, x, 0, 0, 0, lists, 0, scratch, y);
            printf("%s ", ran);
        }
    }
    return 0;
}
"""


def test_each_level_runs_the_kernel_that_the_table_names(tmp_path: Path) -> None:
    """On any CPU: the level is a stub, and so are the inner loops."""
    (tmp_path / "main.c").write_text(LANES_MAIN)
    include = f"-I{runtime_dir() / 'include'}"
    subprocess.run(
        ["cc", include, *include_flags(), str(tmp_path / "main.c"), "-o", str(tmp_path / "main")], check=True
    )
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    below = ["tiles", "popcnt"]
    assert said == [*below, "tiles", "tiles", *below, "avx2", "tiles", *below, "avx2", "avx2"]

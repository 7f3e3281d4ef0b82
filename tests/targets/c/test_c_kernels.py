"""Each kernel on the shapes at its edges. The layout's choice is part of every case: no kernel goes untested."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import rows_where
from c_exports import assert_equal, export, one_conv
from every_kernel import PLAIN
from random_programs import random_inputs
from tile_programs import assert_steps_equal, inputs, many_convs

from blrc.net.bits import pack_signs
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Pool, Program, Value, Window
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels import thresholds
from blrc.targets.c.kernels.registry import KERNELS

SAME = Window((3, 3), padding=(1, 1, 1, 1))
SKEW = Window((3, 2), (2, 1), (2, 0, 0, 1), (1, 2))
BEYOND = Window((2, 2), (1, 1), (3, 4, 3, 2))  # windows that lie wholly in the padding
HALF = Window((2, 2), (2, 2))
OVERLAP = Window((3, 3), (2, 2), (1, 1, 1, 1))
DILATED_POOL = Window((2, 2), (1, 2), (1, 0, 1, 1), (2, 1))

# kernel, type of input, input shape, outputs, window, groups, pool
CASES = [
    *(("conv_packed", "bits", (5, 6, c), 4, SAME, 1, HALF) for c in (1, 2, 3, 4, 7, 28, 33, 65)),
    *(("conv_packed", "bits", (4, 4, 8), n, SAME, 1, None) for n in (1, 3, 5, 31, 32, 33, 36)),
    ("conv_packed", "bits", (7, 6, 40), 33, SKEW, 1, OVERLAP),
    ("conv_packed", "bits", (3, 4, 5), 6, BEYOND, 1, None),
    ("conv_packed", "bits", (6, 6, 33), 33, SAME, 33, None),  # depthwise
    ("conv_packed", "bits", (6, 6, 66), 24, SAME, 2, HALF),  # groups of 33 bits, rows in fours
    ("conv_packed", "bits", (6, 6, 70), 6, SAME, 2, DILATED_POOL),  # groups of 35 bits, single rows
    *(("conv_gather", "bits", (5, 6, c), 4, SAME, 1, HALF) for c in (31, 32, 64, 96, 128)),
    *(("conv_gather", "bits", (4, 4, 32), n, SAME, 1, None) for n in (1, 3, 5, 31, 32, 33, 36)),
    ("conv_gather", "bits", (7, 6, 64), 33, SKEW, 1, OVERLAP),
    ("conv_gather", "bits", (3, 4, 32), 6, BEYOND, 1, None),
    ("conv_gather", "bits", (6, 6, 64), 6, SAME, 2, DILATED_POOL),  # groups of whole words, single rows
    ("conv_gather", "bits", (6, 6, 64), 8, SAME, 2, None),  # and rows in fours
    ("conv_gather", "bits", (5, 5, 300), 9, Window((1, 1)), 3, None),
    ("conv_packed", "bits", (1, 9, 20), 17, Window((1, 3), (1, 2), (0, 1, 0, 1)), 1, None),  # one-dimensional
    ("conv_rows", "bits", (5, 6, 129), 6, SAME, 1, None),  # 5 words a pixel, 45 a row: odd everywhere
    ("conv_rows", "bits", (6, 5, 256), 33, SAME, 1, OVERLAP),
    ("conv_rows", "bits", (9, 8, 63), 5, Window((5, 5), (2, 3), (2, 1, 0, 3)), 1, None),
    ("conv_rows", "bits", (9, 8, 160), 5, Window((3, 3), padding=(2, 1, 2, 1), dilation=(2, 1)), 1, HALF),
    ("conv_rows", "bits", (3, 3, 320), 4, BEYOND, 1, None),
    ("conv_taps", "bits", (6, 7, 160), 5, Window((3, 3), padding=(1, 2, 1, 2), dilation=(1, 2)), 1, HALF),
    ("conv_taps", "bits", (4, 4, 300), 8, SAME, 2, None),  # groups of 150 bits, rows in fours
    ("conv_taps", "bits", (4, 4, 300), 6, SAME, 2, None),
    ("conv_taps", "bits", (2, 2, 2420), 8, Window((1, 1)), 2, None),  # 38 words a tap: two pieces
    ("conv_taps", "bits", (2, 2, 2420), 2, Window((1, 1)), 2, None),
    *(("dense", "bits", (1, 1, c), 37, Window((1, 1)), 1, None) for c in (1, 31, 32, 33, 64, 65, 1000)),
    ("dense", "bits", (3, 5, 33), 64, Window((3, 5)), 1, None),
    *(
        ("conv_gather", "bits", (2, 11, 32), 6, Window((1, words), padding=(0, 1, 0, 0)), 1, None)
        for words in (1, 2, 7, 8, 9, 10)
    ),
    *(("conv_gather", "bits", (2, 3, 32 * c), 6, Window((1, 1)), 1, None) for c in (15, 16, 17, 33)),
    *(("conv_pairs", "uint8", (2, 2, c), 9, Window((2, 2)), 1, None) for c in (1, 3, 7, 8)),
    ("conv_columns", "uint8", (2, 2, 2), 9, Window((2, 2)), 1, None),
    *(("conv_columns", "uint8", (3, w, 1), 5, SAME, 1, None) for w in (1, 2, 3, 4, 5)),
    *(("conv_columns", "int8", (4, 5, 1), n, SAME, 1, HALF) for n in (7, 8, 9, 32, 33)),
    ("conv_columns", "uint8", (7, 8, 2), 34, Window((3, 2), (2, 1), (2, 0, 0, 1)), 1, OVERLAP),
    ("conv_columns", "uint8", (9, 8, 1), 9, SAME, 1, DILATED_POOL),
    ("conv_columns", "int8", (3, 4, 2), 6, Window((2, 2), (1, 1), (3, 4, 3, 2)), 1, None),
    ("conv_columns", "uint8", (11, 9, 1), 9, Window((2, 4), (3, 2), (1, 2, 1, 1), (1, 2)), 1, None),  # rows in between
    ("conv_columns", "uint8", (9, 9, 1), 17, Window((8, 3), padding=(7, 1, 7, 1)), 1, Window((2, 1))),
    ("conv_columns", "uint8", (5, 6, 4), 8, Window((3, 1), padding=(1, 0, 1, 0)), 1, HALF),
    *(("conv_codes", "uint8", (2, 2, c), 9, Window((2, 2)), 1, None) for c in (9, 16, 17)),
    *(("conv_pairs", "int8", (4, 5, 2), n, SAME, 1, HALF) for n in (1, 7, 8, 9, 15, 16, 17, 32, 33)),
    *(("conv_pairs", "uint8", (3, w, 1), 5, Window((5, 5), padding=(2, 2, 2, 2)), 1, None) for w in (1, 2, 3, 4)),
    ("conv_pairs", "uint8", (7, 6, 3), 34, SKEW, 1, OVERLAP),
    ("conv_pairs", "uint8", (7, 8, 2), 9, SAME, 1, DILATED_POOL),
    ("conv_pairs", "int8", (3, 4, 5), 6, BEYOND, 1, None),
    ("conv_pairs", "uint8", (5, 5, 4), 9, Window((2, 3), dilation=(1, 2)), 1, None),
    ("conv_pairs", "int8", (6, 9, 1), 9, Window((5, 6), (2, 3), (2, 2, 1, 3)), 1, Window((1, 3), (1, 3))),
    ("conv_codes", "int8", (4, 5, 8), 17, SAME, 1, HALF),
    ("conv_codes", "uint8", (7, 6, 9), 34, SKEW, 1, OVERLAP),
    ("conv_codes", "int8", (3, 4, 9), 6, BEYOND, 1, None),
    ("conv_codes", "uint8", (5, 5, 6), 42, SAME, 6, None),  # groups of 7 rows straddle words
    ("conv_codes", "int8", (3, 3, 4), 50, SAME, 2, None),  # the second group's first 8 rows are bits 25 to 32
    ("conv_codes", "uint8", (5, 5, 4), 9, Window((3, 3), dilation=(1, 2)), 1, None),
    ("conv_codes", "uint8", (3, 12, 3), 9, Window((3, 12)), 1, None),  # 108 codes: words begin within a pixel
    ("conv_codes", "int8", (5, 5, 8), 26, Window((5, 5), padding=(2, 2, 2, 2)), 2, HALF),
]


CARRY_SAVE = ("-O2", "-DNET_BLRC_UNIT_BITS=32", "-DNET_BLRC_HAS_POPCOUNT=0")
BINARY = [i for i, case in enumerate(CASES) if case[1] == "bits"]


BUILDS = [(SANITIZE, 2), (CARRY_SAVE, 5), (SANITIZE, 1), (CARRY_SAVE, 1), (("-O2",), 1)]
"""Flags, and of how many cases one is taken; all of them by night."""


@pytest.mark.slow("compiles and runs every case of bits")
@pytest.mark.parametrize(("flags", "every"), rows_where(lambda case: case[1] > 1, BUILDS))
def test_layers_of_bits(tmp_path: Path, flags: tuple[str, ...], every: int) -> None:
    """Every case of bits, alone, in one export that is compiled once. Memory that ends with a layer's own is the
    night's (`test_kernel`) and the farm's (`test_direct.py`)."""
    cases = [CASES[i] for i in BINARY[::every]]
    program = many_convs(
        [(*shape, outputs, window, pool, groups) for _, _, shape, outputs, window, groups, pool in cases]
    )
    with HostBuild(export(program, tmp_path, inputs(program, 1)), "net", flags) as c:
        for i, case in enumerate(cases):
            assert c.step(f"case{i}").kernel == case[0]
        assert_steps_equal(program, c.run_op, " ".join(flags), count=12)


# Of codes by day every 17th case, one for each kernel, under sanitizers; all else by night.
CODES = [i for i in range(len(CASES)) if i not in BINARY]
CODES_BY_DAY = CODES[::17]


@pytest.mark.parametrize(
    ("case", "flags"),
    [(i, SANITIZE) for i in CODES_BY_DAY]
    + [
        pytest.param(i, flags, marks=pytest.mark.nightly)
        for cases, flags in (
            (CODES, ("-O2", *STRICT)),
            ({*CODES, *BINARY} - {*CODES_BY_DAY}, SANITIZE),
            (BINARY[::2], ("-O2", *STRICT)),
            (BINARY[::4], CARRY_SAVE),
            (BINARY[1::4], (*SANITIZE, *CARRY_SAVE[1:3])),
        )
        for i in sorted(cases)
    ],
)
def test_kernel(tmp_path: Path, case: int, flags: tuple[str, ...]) -> None:
    kernel, kind, shape, outputs, window, groups, pool = CASES[case]
    program = one_conv(shape, outputs, window, groups, pool, kind, seed=case)
    raw = random_inputs(program, 24, seed=case)
    export(program, tmp_path, raw[:1])
    with HostBuild(tmp_path, "net", flags) as c:
        assert c.step("conv").kernel == kernel
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        assert 0 < found["out"].mean() < 1  # thresholds that decide something


FIRST_OF_KERNEL = [i for i, case in enumerate(CASES) if case[0] not in {before[0] for before in CASES[:i]}]


@pytest.mark.parametrize(
    ("case", "flags"),
    [(i, SANITIZE) for i in FIRST_OF_KERNEL[::6]]
    + [pytest.param(i, SANITIZE, marks=pytest.mark.nightly) for i in FIRST_OF_KERNEL if i not in FIRST_OF_KERNEL[::6]]
    + [pytest.param(i, ("-O2", *STRICT), marks=pytest.mark.nightly) for i in FIRST_OF_KERNEL],
)
def test_kernel_with_thresholds_of_32_bits(
    tmp_path: Path, case: int, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cases above have such as fit 16."""
    monkeypatch.setattr(thresholds, "INT16_MAX", 0)
    kernel, kind, shape, outputs, window, groups, pool = CASES[case]
    program = one_conv(shape, outputs, window, groups, pool, kind, seed=case)
    raw = random_inputs(program, 24, seed=case)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", flags) as c:
        assert c.step("conv").kernel == kernel
        assert c.layout.thresholds["bits" if kind == "bits" else "int8"] == 32
        assert_equal(program, c.run(raw), raw, ["out", "scores"])


# n x peak is 32766, or 32767.
@pytest.mark.parametrize(
    ("kind", "n", "peak", "bits"),
    [
        ("bits", 32767, 1, 32),
        ("uint8", 258, 127, 16),
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in (("bits", 32766, 1, 16), ("uint8", 1057, 31, 32))),
    ],
)
@pytest.mark.parametrize("flags", [pytest.param(("-O2", *STRICT), marks=pytest.mark.nightly), SANITIZE])
def test_thresholds_at_the_edge_of_16_bits(
    tmp_path: Path, kind: str, n: int, peak: int, bits: int, flags: tuple[str, ...]
) -> None:
    """Sums at both ends of what can occur, thresholds there, and missing rows, which must never pass."""
    program = one_conv((1, 1, n), 10, Window((1, 1)), kind=kind)
    constants = dict(program.constants)
    high = n * peak
    rows = pack_signs(np.repeat([[1], [-1]], 5, axis=0).repeat(n, axis=1).reshape(10, 1, 1, n))
    constants["weights"] = Constant((rows,), (0,))
    thresholds = np.array([-high, 1 - high, high - 1, high, high + 1] * 2, np.int32)
    constants["thresholds"] = Constant((thresholds,), (0,))
    if kind == "uint8":
        table = np.linspace(-peak, peak, 256).round().astype(np.int8)
        constants["table"] = Constant((np.repeat(table[None], n, axis=0),), (0,))
    program = check(replace(program, constants=constants))
    raw = random_inputs(program, 6)  # the first two are the extremes
    raw[2], raw[3] = raw[0], raw[1]
    raw[2, 0, 0, -1], raw[3, 0, 0, 0] = raw[1, 0, 0, 0], raw[0, 0, 0, 0]
    with HostBuild(export(program, tmp_path, raw[:1]), "net", flags) as c:
        assert c.layout.thresholds["bits" if kind == "bits" else "int8"] == bits
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        ends = found["out"][:2, 0, 0].astype(int).tolist()
        always, never = [1, 0, 0, 0, 0], [1, 1, 1, 1, 0]
        assert ends == [always + never, never + always]


def test_every_kernel_has_a_case() -> None:
    """Levels have theirs in `test_c_levels.py`, other weights in `test_c_ternary.py` and `test_c_whole.py`."""
    plain = (name for name in PLAIN if KERNELS[name].op is Conv)
    others = {name for name in PLAIN if KERNELS[name].levels or KERNELS[name].ternary or KERNELS[name].whole}
    of_bits = set(plain) - others
    assert {case[0] for case in CASES} == of_bits


def one_hot_program(channels: int) -> Program:
    """Bits in, bit k out where input k alone is set, scores that tell which bit it was."""
    program = one_conv((1, 1, channels), channels, Window((1, 1)))
    rows = np.zeros((channels, 1, 1, -(-channels // 32)), np.uint32)
    for k in range(channels):
        rows[k, 0, 0, k // 32] = 1 << (k % 32)
    scores = program.ops[-1]
    weights = (np.eye(channels) * 2 - 1).astype(np.int8).reshape(channels, 1, 1, channels)
    constants = {
        "weights": Constant((rows,), (0,)),
        "thresholds": Constant((np.full(channels, channels, np.int32),), (0,)),  # all of n bits agree
        "score_weights": Constant((weights,), (0,)),
        "bias": Constant((np.zeros(channels, np.int32),), (0,)),
    }
    out = replace(scores.y, shape=(1, 1, channels))
    return check(replace(program, ops=(program.ops[0], replace(scores, y=out)), constants=constants))


ONE_HOT_MAIN = """
#include "net.h"
int main(void)
{
    static uint32_t arena[(NET_ARENA_SIZE + 3) / 4], input[NET_INPUT_SIZE];
    static int32_t scores[NET_CLASSES];
    int k;
    for (k = 0; k < NET_CLASSES; ++k) {
        input[k / 32] = (uint32_t)1 << (k % 32);
        if (net_classify(input, arena, scores) != k || scores[k] != NET_CLASSES) {
            return k + 1;
        }
        input[k / 32] = 0;
    }
    return 0;
}
"""


@pytest.mark.parametrize("channels", [33, *(pytest.param(n, marks=pytest.mark.nightly) for n in (31, 32, 65))])
def test_one_hot_inputs_prove_the_bit_order(tmp_path: Path, channels: int) -> None:
    # The words are written here in C, so that the order is not Python's packing compared with itself.
    program = one_hot_program(channels)
    export(program, tmp_path, np.eye(channels, dtype=np.bool_)[:1].reshape(1, 1, 1, channels))
    (tmp_path / "main.c").write_text(ONE_HOT_MAIN)
    compiler = build.find_compiler()
    objects = [
        build.compile_object(compiler, ("-O2",), source, tmp_path / f"{source.stem}.o", tmp_path)
        for source in [*build.sources(tmp_path, "net"), tmp_path / "main.c"]
    ]
    binary = build.link(compiler, (), objects, tmp_path / "main")
    assert subprocess.run([binary], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(
    ("window", "in_place"),
    [
        (Window((3, 2), (2, 1), (0, 0, 1, 1), (1, 2)), True),
        (Window((2, 3), (1, 2), (0, 2, 1, 1), (2, 1)), False),  # an output would lie behind its first input
        pytest.param(Window((2, 2), (2, 2), (1, 0, 0, 1)), False, marks=pytest.mark.nightly),
    ],
)
def test_pooling_by_itself(tmp_path: Path, window: Window, in_place: bool) -> None:
    program = one_conv((7, 8, 5), 40, SAME, kind="int8")
    conv, scores = program.ops
    pooled = Value("pooled", "bits", (*window.output(7, 8), 40))
    weights = np.random.default_rng(0).integers(-9, 10, (2, *pooled.shape)).astype(np.int8)
    ops = (conv, Pool("pool", conv.y, pooled, window), replace(scores, x=pooled))
    constants = {**program.constants, "score_weights": Constant((weights,), (0,))}
    changed = check(replace(program, ops=ops, constants=constants))
    raw = random_inputs(changed, 20)
    with HostBuild(export(changed, tmp_path, raw[:1]), "net", SANITIZE) as c:
        assert (c.layout.arena.offsets["out"] == c.layout.arena.offsets["pooled"]) == in_place
        assert_equal(changed, c.run(raw), raw, ["out", "pooled", "scores"])

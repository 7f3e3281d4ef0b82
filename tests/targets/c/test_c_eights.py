"""First layers of eight pixels at once: which can be one, and every edge of the kernel against the reference."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_exports import assert_equal, export, one_conv
from hypothesis import given
from hypothesis import strategies as st
from random_programs import random_inputs

from blrc.net.bits import pack_signs
from blrc.program import legal
from blrc.program.program import Constant, Conv, Program, Window
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.families import eights
from blrc.targets.c.layout.layout import CORTEX_M55, lay_out
from blrc.targets.c.layout.strips import scratch_of
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import Machine
from blrc.targets.c.size.choose import choose

SAME = Window((3, 3), padding=(1, 1, 1, 1))
HALF = Window((2, 2), (2, 2))
FIVE = Window((5, 5), padding=(2, 2, 2, 2))

# kind, input shape, outputs, window, pool
CASES = [
    *(("uint8", (3, width, 1), 5, SAME, None) for width in (1, 7, 8, 9, 15, 16, 17, 30)),
    *(("uint8", (4, width, 1), 5, SAME, HALF) for width in (2, 7, 8, 9, 16, 17, 19)),
    *(("int8", (height, 9, 1), 8, SAME, HALF) for height in (2, 3, 4, 5)),
    *(("int8", (3, 9, 1), outputs, SAME, None) for outputs in (1, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 40, 41, 65)),
    *(("uint8", (4, 9, channels), 9, SAME, HALF) for channels in (2, 3)),
    *(("uint8", (2, 9, channels), 9, Window((2, 2)), None) for channels in (1, 3, 7, 8)),
    *(("int8", (1, 9, channels), 9, Window((1, 1)), None) for channels in (1, 4, 5, 31, 32)),
    ("uint8", (7, 11, 1), 16, FIVE, HALF),
    ("uint8", (5, 9, 2), 9, Window((4, 4), padding=(3, 0, 0, 3)), None),
    ("int8", (3, 4, 2), 6, Window((2, 2), (1, 1), (3, 4, 3, 2)), None),
    ("uint8", (9, 19, 1), 7, Window((3, 3), (2, 2), (1, 1, 1, 1)), None),
    ("uint8", (11, 29, 2), 7, Window((2, 3), (3, 2), (1, 2, 1, 1)), HALF),  # rows in between
    ("uint8", (4, 30, 3), 7, Window((1, 2), (1, 3), (0, 5, 0, 0)), None),
    ("uint8", (12, 9, 1), 17, Window((8, 3), padding=(7, 1, 7, 1)), None),
    ("uint8", (2, 3, 1), 3, Window((2, 1), padding=(0, 9, 0, 9)), None),
    ("int8", (6, 8, 1), 33, Window((6, 5)), None),  # a map of one row
    ("int8", (2, 1, 1), 9, Window((1, 1), (1, 9), (0, 70, 0, 0)), None),  # the codes lie beyond what pixels see
    # Maps that are larger than the scratch memory, which then is the arena's end.
    ("uint8", (3, 150, 1), 33, Window((2, 2)), None),
    ("uint8", (9, 81, 3), 33, Window((2, 2), (1, 2)), None),  # codes to the right that no pixel sees
]
AT_THE_END = (len(CASES) - 2, len(CASES) - 1)


def conv_of(program: Program) -> Conv:
    return next(op for op in program.ops if isinstance(op, Conv))


def fits(program: Program) -> bool:
    return eights.fits(conv_of(program))


@pytest.fixture(autouse=True)
def _eights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every first layer that can be takes eight pixels at once, whether it pays or not."""
    monkeypatch.setattr(
        sys.modules["blrc.targets.c.emit"],
        "choose",
        lambda program, _optimize, _ram, cpu, _flash: lay_out(program, ["conv"] if fits(program) else [], cpu=cpu),
    )


def check(case: int, folder: Path, flags: tuple[str, ...]) -> None:
    kind, shape, outputs, window, pool = CASES[case]
    program = one_conv(shape, outputs, window, pool=pool, kind=kind, seed=case)
    raw = random_inputs(program, 12, seed=case)
    with HostBuild(export(program, folder, raw[:1], cpu=CORTEX_M55), "net", flags) as c:
        assert c.step("conv").kernel == "conv_eights"
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        assert 0 < found["out"].mean() < 1  # thresholds that decide something
        np.testing.assert_array_equal(c.run_op("conv", raw), found["out"])


SANITIZED = sorted({*range(0, len(CASES), 18), *AT_THE_END})


@pytest.mark.nightly
@pytest.mark.parametrize("case", range(len(CASES)))
def test_every_edge(tmp_path: Path, case: int) -> None:
    check(case, tmp_path, ("-O2",))


@pytest.mark.parametrize(
    "case", [pytest.param(i, marks=[pytest.mark.nightly] * (i not in SANITIZED)) for i in range(len(CASES))]
)
def test_edges_under_sanitizers(tmp_path: Path, case: int) -> None:
    check(case, tmp_path, SANITIZE)


@pytest.mark.parametrize("case", AT_THE_END)
def test_the_arena_ends_with_the_codes(case: int) -> None:
    """Where a sanitizer sees what is read or written beyond them."""
    kind, shape, outputs, window, pool = CASES[case]
    layout = lay_out(one_conv(shape, outputs, window, pool=pool, kind=kind), ["conv"], cpu=CORTEX_M55)
    (step,) = (step for step in layout.steps if step.scratch)
    assert layout.arena.offsets[scratch_of(step.y)] + step.scratch == layout.arena_bytes


def test_sums_at_both_ends(tmp_path: Path) -> None:
    """The largest that the kernel takes, and thresholds there and beyond."""
    program = one_conv((3, 9, 32), 12, Window((1, 1)), kind="int8")
    largest = 32 * 128
    constants = dict(program.constants)
    signs = np.repeat([1, -1], 6).reshape(12, 1, 1, 1) * np.ones((1, 1, 1, 32), np.int8)
    constants["weights"] = Constant((pack_signs(signs),), (0,))
    ends = np.array([-largest, 1 - largest, 0, largest - 1, largest, largest + 1] * 2, np.int32)
    constants["thresholds"] = Constant((ends,), (0,))
    program = legal.check(replace(program, constants=constants))
    assert program.bounds(conv_of(program))[1] == largest
    raw = np.stack([np.full((3, 9, 32), value, np.int8) for value in (127, -128, 0)])
    with HostBuild(export(program, tmp_path, raw[:1], cpu=CORTEX_M55), "net", SANITIZE) as c:
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        sums = 32 * raw[:, 1, 8, :1].astype(int) * np.repeat([1, -1], 6)
        assert np.array_equal(found["out"][:, 1, 8], sums >= ends)


def test_members_have_tables_of_their_own(tmp_path: Path) -> None:
    program = one_conv((6, 9, 1), 20, SAME, pool=HALF, kind="uint8")
    other = one_conv((6, 9, 1), 20, SAME, pool=HALF, kind="uint8", seed=1)
    constants = dict(program.constants)
    for name in ("weights", "thresholds"):
        constants[name] = Constant((*program.constants[name].tables, *other.constants[name].tables), (0, 1))
    for name in ("table", "score_weights", "bias"):
        constants[name] = Constant(program.constants[name].tables, (0, 0))
    two = legal.check(replace(program, constants=constants, members=("0", "1")))
    raw = random_inputs(two, 8)
    with HostBuild(export(two, tmp_path, raw[:1], cpu=CORTEX_M55), "net") as c:
        assert c.step("conv").kernel == "conv_eights"
        for member in (0, 1):
            assert_equal(two, c.run(raw, member), raw, ["out", "scores"], member)


@pytest.mark.parametrize(
    ("emulated", "case"),
    [
        ("cortex-m55", "wide"),
        ("avr", "small"),
        *(
            pytest.param(name, case, marks=pytest.mark.nightly)
            for name in ("cortex-m55", "cortex-m4", "s390x", "aarch64", "avr")
            for case in ("small", "stride", "wide")
            if (name, case) not in (("cortex-m55", "wide"), ("avr", "small"))
        ),
    ],
    indirect=["emulated"],
)
def test_on_other_machines(emulated: Machine, case: str, tmp_path: Path) -> None:
    """With vectors of the machine and without; big-endian words; tables that have addresses of their own."""
    program = {
        "small": one_conv((4, 9, 1), 33, SAME, pool=HALF, kind="uint8"),
        "stride": one_conv((7, 19, 2), 18, Window((3, 3), (2, 2), (1, 1, 1, 1)), kind="uint8"),
        "wide": one_conv((3, 5, 3), 41, SAME, kind="int8"),
    }[case]
    raw = random_inputs(program, 3)
    with EmulatedBuild(export(program, tmp_path, raw[:1], cpu=CORTEX_M55), "net", emulated) as c:
        assert c.step("conv").kernel == "conv_eights"
        assert_equal(program, c.run(raw), raw, ["out", "scores"])
        assert c.selftest() == 0


@pytest.mark.parametrize(
    ("program", "possible"),
    [
        (one_conv((4, 8, 3), 16, SAME, kind="uint8"), True),
        (one_conv((4, 8, 4), 16, SAME, kind="uint8"), False),  # 36 codes a row
        (one_conv((4, 8, 3), 16, SAME), False),  # bits
        (one_conv((4, 8, 2), 16, SAME, kind="uint8", groups=2), False),
        (one_conv((1, 9, 31), 16, Window((1, 1), (1, 302)), kind="int8"), True),
        (one_conv((1, 9, 31), 16, Window((1, 1), (1, 303)), kind="int8"), False),  # wrong values: see eights.REACH
        (one_conv((4, 8, 1), 16, Window((2, 2), dilation=(1, 2)), kind="uint8"), False),
        (one_conv((4, 8, 1), 16, Window((2, 2), dilation=(2, 1)), kind="uint8"), False),
        (one_conv((6, 8, 1), 16, SAME, kind="uint8", pool=Window((3, 3), (3, 3))), False),
        (one_conv((6, 8, 1), 16, SAME, kind="uint8", pool=Window((2, 2))), False),
    ],
)
def test_which_layers_can_be_one(program: Program, possible: bool) -> None:
    assert fits(program) == possible


@pytest.mark.parametrize(
    ("shape", "outputs", "chosen"),
    [
        ((28, 28, 1), 16, True),
        ((28, 28, 1), 15, False),  # too few outputs share the tables
        ((9, 5, 1), 16, True),
        ((9, 4, 1), 16, False),  # too few lanes
        ((9, 12, 1), 16, True),
        ((9, 9, 1), 16, False),
    ],
)
def test_where_it_pays(shape: tuple[int, int, int], outputs: int, chosen: bool) -> None:
    program = one_conv(shape, outputs, SAME, kind="uint8")
    assert bool(choose(program, "speed", cpu=CORTEX_M55).sliced) == chosen
    assert not choose(program, "speed").sliced and not choose(program, "size", cpu=CORTEX_M55).sliced


@given(st.integers(1, 40), st.integers(1, 99))
def test_thresholds_stay_within_reach(outputs: int, largest: int) -> None:
    """Of every sum: the difference has 16 bits. Those that no sum reaches stay such."""
    beyond = np.random.default_rng(outputs).integers(-largest - 2, largest + 3, outputs).astype(np.int32)
    found = eights.thresholds(beyond, largest).astype(int)
    assert len(found) % 8 == 0 and found.min() >= -largest and found.max() <= largest + 1
    sums = np.arange(-largest, largest + 1)
    assert np.array_equal(sums >= found[:outputs, None], sums >= beyond[:, None])
    assert not (sums >= found[outputs:, None]).any()

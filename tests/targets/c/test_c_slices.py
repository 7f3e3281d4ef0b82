"""Bit-sliced convolutions: which can be one, their tables, and every edge of the kernel against the reference."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import first, night
from c_exports import assert_equal, export, one_conv
from hypothesis import given
from hypothesis import strategies as st
from random_programs import random_inputs
from tile_programs import Case, assert_steps_equal, inputs, many_convs

from blrc.net.bits import pack, pack_signs
from blrc.program import legal
from blrc.program.program import Constant, Conv, Program, Window
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.families import slices
from blrc.targets.c.layout.layout import CORTEX_M55, PORTABLE, lay_out
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import Machine

SAME = Window((3, 3), padding=(1, 1, 1, 1))
HALF = Window((2, 2), (2, 2))

KERNELS = {PORTABLE: "conv_slices", CORTEX_M55: "conv_quads"}
# input shape, outputs, pool
CASES = [
    *(((4, width, 8), 3, HALF) for width in (2, 7, 8, 9, 15, 16, 17, 31, 32)),
    *(((3, width, 16), 5, None) for width in (1, 2, 7, 8, 9, 16, 17, 31, 32)),
    *(((height, 14, 8), 2, HALF) for height in (2, 3, 5, 6)),
    *(((height, 7, 8), 2, None) for height in (1, 2, 4, 5, 9)),
    *(((height, 8, 8), 2, HALF) for height in (2, 7, 8, 10)),
    *(((height, 20, 8), 2, HALF) for height in (2, 3, 7)),
    *(((5, 6, channels), 4, HALF) for channels in (1, 3, 24, 31, 32, 33, 40, 64, 72)),
    *(((height, 18, 3), 7, HALF) for height in (2, 3, 4, 5)),
    *(((4, 5, 32), outputs, None) for outputs in (1, 31, 32, 33, 65)),
    ((3, 3, 1816), 2, None),
    *(((height, 9, 8), 3, HALF) for height in (8, 10, 16)),
    *(((height, 5, 8), 3, None) for height in (15, 16, 17)),
]


def conv_of(program: Program) -> Conv:
    return next(op for op in program.ops if isinstance(op, Conv))


@pytest.fixture(autouse=True)
def _sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every convolution that can be is bit-sliced, whether it pays or not."""
    monkeypatch.setattr(
        sys.modules["blrc.targets.c.emit"],
        "choose",
        lambda program, _optimize, _ram, cpu, _flash: lay_out(program, fitting(program), cpu=cpu),
    )


def fitting(program: Program) -> list[str]:
    return [op.name for op in program.ops if isinstance(op, Conv) and slices.fits(op)]


def check(program: Program, folder: Path, seed: int, flags: tuple[str, ...], cpu: str = PORTABLE) -> None:
    raw = random_inputs(program, 12, seed=seed)
    export(program, folder, raw[:1], cpu=cpu)
    with HostBuild(folder, "net", flags) as c:
        assert c.step("conv").kernel == KERNELS[cpu]
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        assert 0 < found["out"].mean() < 1  # thresholds that decide something
        np.testing.assert_array_equal(c.run_op("conv", raw), found["out"])


def check_together(cases: list[Case], folder: Path, cpu: str, seed: int = 0, flags: tuple[str, ...] = ("-O2",)) -> None:
    """Run layers alone that one export holds: it compiles once for all of them."""
    program = many_convs(cases, seed)
    with HostBuild(export(program, folder, inputs(program, 1), cpu=cpu), "net", flags) as c:
        assert {c.step(f"case{i}").kernel for i in range(len(cases))} == {KERNELS[cpu]}
        assert_steps_equal(program, c.run_op, cpu, count=12)


@pytest.mark.parametrize(
    ("cpu", "flags", "every"),
    [
        *((cpu, SANITIZE, 3) for cpu in KERNELS),
        *(pytest.param(cpu, flags, 1, marks=pytest.mark.nightly) for cpu in KERNELS for flags in (SANITIZE, ("-O2",))),
    ],
)
def test_every_edge(tmp_path: Path, cpu: str, flags: tuple[str, ...], every: int) -> None:
    cases: list[Case] = [(*shape, outputs, SAME, pool) for shape, outputs, pool in CASES[::every]]
    check_together(cases, tmp_path, cpu, flags=flags)


@pytest.mark.nightly
@pytest.mark.parametrize("case", range(0, len(CASES), 5))
@pytest.mark.parametrize("cpu", KERNELS)
def test_edges_under_sanitizers(tmp_path: Path, cpu: str, case: int) -> None:
    shape, outputs, pool = CASES[case]
    check(one_conv(shape, outputs, SAME, pool=pool, seed=case), tmp_path, case, SANITIZE, cpu)


@pytest.mark.parametrize("cpu", KERNELS)
def test_thresholds_at_both_ends(tmp_path: Path, cpu: str) -> None:
    """Sums that are as large or small as they can be, at borders and inside; thresholds there and beyond."""
    program = one_conv((4, 5, 8), 12, SAME)
    n = 72
    constants = dict(program.constants)
    signs = np.repeat([[[[1]]], [[[-1]]]], 6, axis=0) * np.ones((12, 3, 3, 8), np.int8)
    constants["weights"] = Constant((pack_signs(signs),), (0,))
    constants["thresholds"] = Constant((np.array([-n, 1 - n, 0, n - 1, n, n + 1] * 2, np.int32),), (0,))
    program = legal.check(replace(program, constants=constants))
    raw = np.zeros((2, 4, 5, 8), np.bool_)
    raw[1] = True
    with HostBuild(export(program, tmp_path, raw[:1], cpu=cpu), "net", SANITIZE) as c:
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        ends = found["out"][:, 1, 1].astype(int).tolist()
        assert ends == [[1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    "emulated",
    [
        "avr",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("cortex-m0", "cortex-m4", "rv32imc", "s390x")),
    ],
    indirect=True,
)
@pytest.mark.nightly
def test_on_other_machines(emulated: Machine, tmp_path: Path) -> None:
    program = one_conv((5, 14, 16), 33, SAME, pool=HALF, seed=3)  # what fits an AVR
    raw = random_inputs(program, 4)
    with EmulatedBuild(export(program, tmp_path, raw[:1]), "net", emulated) as c:
        assert c.step("conv").kernel == "conv_slices"
        assert_equal(program, c.run(raw), raw, ["out", "scores"])
        assert c.selftest() == 0


# Maps higher than a quad, and one whose last quad is not full; pooled and not; of each number of rows in a word.
@pytest.mark.parametrize("shape", [(18, 7, 24), *night((17, 14, 16), (9, 32, 8))], ids=str)
@pytest.mark.parametrize(
    "emulated",
    ["cortex-m55", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("cortex-m4", "s390x", "aarch64"))],
    indirect=True,
)
def test_quads_on_other_machines(emulated: Machine, shape: tuple[int, int, int], tmp_path: Path) -> None:
    program = one_conv(shape, 33, SAME, pool=HALF if shape[0] == 18 else None, seed=3)
    raw = random_inputs(program, 3)
    raw[0], raw[1] = 0, 1
    with EmulatedBuild(export(program, tmp_path, raw[:1], cpu=CORTEX_M55), "net", emulated) as c:
        assert c.step("conv").kernel == "conv_quads"
        assert_equal(program, c.run(raw), raw, ["out", "scores"])
        assert c.selftest() == 0


@pytest.mark.parametrize("emulated", ["avr"], indirect=True)
def test_quads_where_tables_have_addresses_of_their_own(emulated: Machine, tmp_path: Path) -> None:
    """Weights were read from RAM at the flash address of their table."""
    program = one_conv((3, 5, 8), 9, SAME, seed=3)
    raw = random_inputs(program, 2)
    with EmulatedBuild(export(program, tmp_path, raw[:1], cpu=CORTEX_M55), "net", emulated) as c:
        assert c.step("conv").kernel == "conv_quads"
        assert_equal(program, c.run(raw), raw, ["out", "scores"])


@pytest.mark.parametrize("cpu", first(1, list(KERNELS)))
def test_groups_of_every_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: str) -> None:
    """The last group may be smaller; kinds of taps may be empty, or end anywhere in their eights and sixteens."""
    sizes = [(sharing, outputs) for sharing in range(1, slices.SHARING + 1) for outputs in (1, 5, 6, 7, 33)]
    monkeypatch.setattr(slices, "sharing", lambda op: sizes[int(op.name.removeprefix("case"))][0])
    check_together([(6, 9, 7, n, SAME, HALF if n % 2 else None) for _, n in sizes], tmp_path, cpu)


def test_members_have_tables_of_their_own(tmp_path: Path) -> None:
    """Limits depend on weights and thresholds, which members share or do not."""
    program = one_conv((5, 6, 8), 7, SAME)
    other, constants = one_conv((5, 6, 8), 7, SAME, seed=1), dict(program.constants)
    constants["weights"] = Constant(
        (program.constants["weights"].tables[0], other.constants["weights"].tables[0]), (0, 1, 1)
    )
    constants["thresholds"] = Constant(
        (program.constants["thresholds"].tables[0], other.constants["thresholds"].tables[0]), (0, 0, 1)
    )
    for name in constants.keys() - {"weights", "thresholds"}:
        constants[name] = Constant(constants[name].tables, (0, 0, 0))
    program = legal.check(replace(program, constants=constants, members=("map", "sample 0:1", "sample 0:2")))
    raw = random_inputs(program, 6)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", SANITIZE) as c:
        lists, limits = c.step("conv").tables
        assert (lists.of_member, limits.of_member) == ((0, 1, 1), (0, 1, 2))
        for member in range(3):
            assert_equal(program, c.run(raw, member), raw, ["out", "scores"], member)


@pytest.mark.parametrize("emulated", first(1, ["avr", "cortex-m4"]), indirect=True)
def test_regression_members_lists_are_equally_long(emulated: Machine, tmp_path: Path) -> None:
    """Kinds of taps fill eights, so that lists had as many lengths as members; an AVR finds members by their number."""
    programs = [one_conv((3, 5, 16), 12, SAME, seed=seed) for seed in range(3)]
    constants = {name: Constant(constant.tables, (0, 0, 0)) for name, constant in programs[0].constants.items()}
    for name in ("weights", "thresholds"):
        constants[name] = Constant(tuple(one.constants[name].tables[0] for one in programs), (0, 1, 2))
    members = ("sample 0:0", "sample 0:1", "sample 0:2")
    program = legal.check(replace(programs[0], constants=constants, members=members))
    sharing = slices.sharing(conv_of(program))
    exact = {len(slices.lists(one.constants["weights"].tables[0], 16, sharing)) for one in programs}
    assert len(exact) > 1
    raw = random_inputs(program, 3)
    with EmulatedBuild(export(program, tmp_path, raw[:1]), "net", emulated) as c:
        assert {len(array) for array in c.step("conv").tables[0].arrays} == {max(exact)}
        for member in range(3):
            assert_equal(program, c.run(raw, member), raw, ["out", "scores"], member)


@given(st.integers(1, 14), st.integers(1, 40), st.integers(1, slices.SHARING), st.integers(0, 99))
def test_lists_hold_every_tap_with_the_signs_of_its_weights(out: int, channels: int, sharing: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, (out, 3, 3, channels)).astype(np.bool_)
    left = slices.lists(pack(bits), channels, sharing).tolist()
    scaled = slices.lists(pack(bits), channels, sharing, 4)
    assert scaled.shape == (len(left),)
    assert len(left) <= slices.longest(conv_of(one_conv((2, 2, channels), out, SAME)), sharing)
    for at in range(0, out, sharing):
        outputs = min(sharing, out - at)
        found = {}
        sign = [1] * outputs  # of each output, for the kind of taps at hand
        for kind in range(2 ** (outputs - 1)):
            eights, *left = left
            places, left = left[: 8 * eights], left[8 * eights :]
            assert scaled[0] == eights and (scaled[1 : 1 + 8 * eights] // 4).tolist() == places
            scaled = scaled[1 + 8 * eights :]
            real = [place for place in places if place]
            assert len(real) > 8 * eights - 8 and places[: len(real)] == real
            found |= {(place - 1) // 2: ((place - 1) % 2, tuple(sign)) for place in real}
            flip = next((j for j in range(outputs - 1) if (kind + 1) >> j & 1), None)  # one after the other
            if flip is not None:
                sign[flip + 1] *= -1
        assert sorted(found) == list(range(9 * channels))
        for tap, (weight, signs) in found.items():
            row, rest = divmod(tap, 3 * channels)
            channel, column = divmod(rest, 3)
            for j, one in enumerate(signs):
                assert bool(bits[at + j, row, column, channel]) == (bool(weight) == (one == 1))
    assert not left


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9)),
    st.integers(1, 9),
    st.integers(1, slices.SHARING),
    st.integers(0, 99),
)
def test_limits_are_what_may_differ_at_each_place(
    shape: tuple[int, int, int], out: int, sharing: int, seed: int
) -> None:
    program = one_conv(shape, out, SAME, seed=seed)
    op, (height, width, channels) = conv_of(program), shape
    weights, thresholds = program.constants["weights"].tables[0], program.constants["thresholds"].tables[0]
    planes = slices.planes(9 * channels)
    found = slices.limits(op, weights, thresholds, sharing).reshape(out, planes)
    bits = np.unpackbits(weights.view(np.uint8).reshape(out, 3, 3, -1), axis=3, bitorder="little")[..., :channels]
    for o, y, x in np.ndindex(out, height, width):
        place = 3 * (0 if y == 0 else 2 if y == height - 1 else 1) + (0 if x == 0 else 2 if x == width - 1 else 1)
        number = sum((int(found[o, k]) >> place & 1) << k for k in range(planes))
        number -= (number >> (planes - 1)) << planes
        number += int((bits[o] != bits[o // sharing * sharing]).sum())  # what counts with the opposite sign
        absent = [
            bits[o, ky, kx].sum()
            for ky, kx in np.ndindex(3, 3)
            if not (0 <= y + ky - 1 < height and 0 <= x + kx - 1 < width)
        ]
        real = (9 - len(absent)) * channels
        # As many may differ of the real taps as leave the sum at the threshold.
        allowed = max((d for d in range(real + 1) if real - 2 * d >= thresholds[o]), default=None)
        if allowed is None:
            assert number < sum(absent)
        else:
            assert number == allowed + sum(absent) or (number >= 9 * channels and allowed == real)


@pytest.mark.parametrize(
    ("shape", "window", "groups", "pool"),
    [
        ((5, 33, 8), SAME, 1, None),
        ((3, 3, 1824), SAME, 1, None),
        ((5, 5, 16), SAME, 2, None),
        ((5, 5, 8), Window((3, 3)), 1, None),
        ((5, 5, 8), Window((3, 3), (2, 2), (1, 1, 1, 1)), 1, None),
        ((5, 5, 8), Window((5, 5), padding=(2, 2, 2, 2)), 1, None),
        ((6, 6, 8), SAME, 1, Window((3, 3), (3, 3))),
        ((6, 6, 8), SAME, 1, Window((2, 2), (1, 1))),
    ],
)
def test_what_cannot_be_sliced(shape: tuple[int, int, int], window: Window, groups: int, pool: Window | None) -> None:
    assert not slices.fits(conv_of(one_conv(shape, 4, window, groups, pool)))
    assert slices.fits(conv_of(one_conv((5, 32, 8), 4, SAME))) and slices.fits(conv_of(one_conv((5, 5, 13), 4, SAME)))
    assert not slices.fits(conv_of(one_conv((5, 32, 8), 4, SAME, kind="int8")))

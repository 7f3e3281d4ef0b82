"""Dense layers whose lanes are outputs: which can be one, their tables, and every edge against the reference."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import first, rows_where
from c_exports import assert_equal, export, one_conv
from hypothesis import given
from hypothesis import strategies as st
from random_programs import random_inputs
from tile_programs import many_convs, values

from blrc.net.bits import pack, pack_signs
from blrc.program import legal
from blrc.program.program import Constant, Conv, Program, Window
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.families import columns
from blrc.targets.c.layout.layout import CORTEX_M55, PORTABLE, lay_out
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import Machine
from blrc.targets.c.size.choose import choose

KERNELS = {PORTABLE: "dense_columns", CORTEX_M55: "dense_quads"}
SHAPES = [
    *((1, 1, channels) for channels in (1, 2, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 300)),
    *((2, 2, 32), (3, 1, 64), (1, 5, 96), (7, 7, 64)),
]
OUTPUTS = (1, 31, 32, 33, 64, 127, 128, 129, 200)


def dense(shape: tuple[int, int, int], outputs: int, seed: int = 0) -> Program:
    return one_conv(shape, outputs, Window(shape[:2]), seed=seed)


def conv_of(program: Program) -> Conv:
    return next(op for op in program.ops if isinstance(op, Conv))


def fitting(program: Program) -> list[str]:
    return [op.name for op in program.ops if isinstance(op, Conv) and columns.fits(op)]


def inputs(program: Program, seed: int) -> np.ndarray:
    """With no bit set, all of them, one half and one more or less, and random ones."""
    n = conv_of(program).fan_in
    raw = np.random.default_rng(seed).permuted(
        np.stack([np.arange(n) < k for k in (0, n, n // 2, n // 2 + 1, (n + 1) // 2, 1, n - 1, n // 3, 2 * n // 3)]),
        axis=1,
    )
    return raw.reshape(-1, *program.input.shape)


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer that can have its outputs in lanes has them there, whether it pays or not."""
    monkeypatch.setattr(
        sys.modules["blrc.targets.c.emit"],
        "choose",
        lambda program, _optimize, _ram, cpu, _flash: lay_out(program, fitting(program), cpu=cpu),
    )


@pytest.mark.parametrize(
    ("flags", "every"), rows_where(lambda case: case[1] > 1, [(SANITIZE, 2), (SANITIZE, 1), (("-O2",), 1)])
)
@pytest.mark.parametrize("cpu", KERNELS)
def test_every_number_of_inputs_and_outputs(tmp_path: Path, cpu: str, flags: tuple[str, ...], every: int) -> None:
    """Each layer alone, in one export; by day half of them."""
    cases = [*((shape, 37) for shape in SHAPES), *(((1, 2, 64), outputs) for outputs in OUTPUTS)][::every]
    program = many_convs([(*shape, outputs, Window(shape[:2]), None) for shape, outputs in cases])
    with HostBuild(export(program, tmp_path, values(program.input, 1, 0), cpu=cpu), "net", flags) as c:
        for i, (shape, outputs) in enumerate(cases):
            step, raw = c.step(f"case{i}"), inputs(dense(shape, outputs), 3)
            assert step.kernel == KERNELS[cpu]
            np.testing.assert_array_equal(c.run_op(step.op.name, raw), step.op.run(program, raw))


@pytest.mark.parametrize(
    "shape",
    SHAPES,
    ids=str,
)
@pytest.mark.nightly
@pytest.mark.parametrize("cpu", KERNELS)
def test_every_number_of_inputs(tmp_path: Path, cpu: str, shape: tuple[int, int, int]) -> None:
    program = dense(shape, 37)
    raw = inputs(program, 3)
    with HostBuild(export(program, tmp_path, raw[:1], cpu=cpu), "net", SANITIZE) as c:
        assert c.step("conv").kernel == KERNELS[cpu]
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        np.testing.assert_array_equal(c.run_op("conv", raw), found["out"])


@pytest.mark.nightly
@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("cpu", KERNELS)
def test_every_number_of_outputs(tmp_path: Path, cpu: str, outputs: int) -> None:
    program = dense((1, 2, 64), outputs, seed=outputs)
    raw = inputs(program, outputs)
    with HostBuild(export(program, tmp_path, raw[:1], cpu=cpu), "net", SANITIZE) as c:
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        assert 0 < found["out"].mean() < 1


@pytest.mark.parametrize("cpu", KERNELS)
@pytest.mark.parametrize("n", first(1, [96, 1, 64]))
def test_thresholds_at_both_ends(tmp_path: Path, cpu: str, n: int) -> None:
    program = dense((1, 1, n), 12)
    constants = dict(program.constants)
    signs = np.repeat([[[[1]]], [[[-1]]]], 6, axis=0) * np.ones((12, 1, 1, n), np.int8)
    constants["weights"] = Constant((pack_signs(signs),), (0,))
    ends = [-n, 1 - n, 0, n - 1, n, n + 1]
    constants["thresholds"] = Constant((np.array(ends * 2, np.int32),), (0,))
    program = legal.check(replace(program, constants=constants))
    raw = np.zeros((2, 1, 1, n), np.bool_)
    raw[1] = True
    with HostBuild(export(program, tmp_path, raw[:1], cpu=cpu), "net", SANITIZE) as c:
        found = c.run(raw)
        assert_equal(program, found, raw, ["out", "scores"])
        for image, z in ((0, (-n, n)), (1, (n, -n))):
            assert found["out"][image, 0, 0].tolist() == [int(z[i // 6] >= ends[i % 6]) for i in range(12)]


def test_members_have_limits_of_their_own(tmp_path: Path) -> None:
    program, other = dense((1, 1, 70), 33), dense((1, 1, 70), 33, seed=1)
    constants = {name: Constant(constant.tables, (0, 0, 0)) for name, constant in program.constants.items()}
    for name, of_member in (("weights", (0, 1, 1)), ("thresholds", (0, 0, 1))):
        constants[name] = Constant((program.constants[name].tables[0], other.constants[name].tables[0]), of_member)
    program = legal.check(replace(program, constants=constants, members=("map", "sample 0:1", "sample 0:2")))
    raw = random_inputs(program, 6)
    with HostBuild(export(program, tmp_path, raw[:1]), "net", SANITIZE) as c:
        assert [table.of_member for table in c.step("conv").tables] == [(0, 1, 1), (0, 1, 2)]
        for member in range(3):
            assert_equal(program, c.run(raw, member), raw, ["out", "scores"], member)


# With an instruction that finds the lowest bit, and without.
MACHINES = ["cortex-m0", "cortex-m4", "rv32imc", "rv32imc_zbb", "s390x", "avr"]


@pytest.mark.parametrize(
    "emulated",
    [pytest.param(name, marks=[] if name == "avr" else [pytest.mark.nightly]) for name in MACHINES],
    indirect=True,
)
def test_on_other_machines(emulated: Machine, tmp_path: Path) -> None:
    program = dense((1, 1, 75), 70, seed=3)
    raw = inputs(program, 4)
    with EmulatedBuild(export(program, tmp_path, raw[:1]), "net", emulated) as c:
        assert c.step("conv").kernel == "dense_columns"
        assert_equal(program, c.run(raw), raw, ["out", "scores"])
        assert c.selftest() == 0


@pytest.mark.parametrize(
    "emulated",
    first(1, ["cortex-m55", "avr", "cortex-m4", "s390x", "aarch64"]),
    indirect=True,
)
def test_quads_on_other_machines(emulated: Machine, tmp_path: Path) -> None:
    """On an AVR tables have addresses of their own."""
    program = dense((1, 1, 75), 140, seed=3)
    raw = inputs(program, 4)
    with EmulatedBuild(export(program, tmp_path, raw[:1], cpu=CORTEX_M55), "net", emulated) as c:
        assert c.step("conv").kernel == "dense_quads"
        assert_equal(program, c.run(raw), raw, ["out", "scores"])
        assert c.selftest() == 0


@given(st.integers(1, 70), st.integers(1, 130), st.sampled_from((32, 128)), st.integers(0, 99))
def test_columns_are_the_weights_transposed(out: int, n: int, lanes: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, (out, 1, 1, n)).astype(np.bool_)
    found = columns.columns(pack(bits), n, lanes).reshape(-1, n, lanes // 32)
    assert len(found) == -(-out // lanes)
    for o, i in np.ndindex(len(found) * lanes, n):
        bit = int(found[o // lanes, i, o % lanes // 32]) >> o % 32 & 1
        assert bit == (bits[o, 0, 0, i] if o < out else 0)


@given(st.integers(1, 70), st.integers(1, 130), st.sampled_from((32, 128)), st.integers(0, 99))
def test_limits_leave_room_for_what_may_differ(out: int, n: int, lanes: int, seed: int) -> None:
    program = dense((1, 1, n), out, seed)
    op = conv_of(program)
    weights, thresholds = program.constants["weights"].tables[0], program.constants["thresholds"].tables[0]
    planes = columns.planes(op)
    found = columns.limits(op, weights, thresholds, lanes).reshape(-1, 2, planes, lanes // 32)
    ones = [sum(int(word).bit_count() for word in row.reshape(-1)) for row in weights]
    for o in range(out):
        # Both ways with all inputs: as many as are -1 differ where no weight counts, and so on.
        most = max((d for d in range(n + 1) if n - 2 * d >= thresholds[o]), default=-1)
        for way, expected in ((0, most - ones[o]), (1, most + ones[o])):
            number = sum((int(w[o % lanes // 32]) >> o % 32 & 1) << k for k, w in enumerate(found[o // lanes, way]))
            assert number - (number >> (planes - 1) << planes) == expected


def test_what_cannot_have_its_outputs_in_lanes() -> None:
    assert columns.fits(conv_of(dense((1, 1, 33), 4))) and columns.fits(conv_of(dense((2, 3, 64), 4)))
    assert not columns.fits(conv_of(dense((2, 1, 33), 4)))  # gaps between the inputs' bits
    assert not columns.fits(conv_of(one_conv((4, 4, 32), 4, Window((3, 3)))))
    assert not columns.fits(conv_of(one_conv((1, 1, 32), 4, Window((1, 1)), kind="int8")))
    assert not columns.fits(conv_of(one_conv((1, 1, 64), 4, Window((1, 1)), groups=2)))
    assert not columns.fits(conv_of(dense((1, 1, 2**16), 1)))


@pytest.mark.parametrize(
    ("inputs", "outputs", "cpu", "kernel"),
    [
        (3136, 512, PORTABLE, "dense_columns"),
        (1024, 33, PORTABLE, "dense"),
        (1024, 64, PORTABLE, "dense_columns"),
        (1024, 64, CORTEX_M55, "dense"),
        (3136, 512, CORTEX_M55, "dense_quads"),
    ],
)
def test_where_it_pays(inputs: int, outputs: int, cpu: str, kernel: str) -> None:
    assert choose(dense((1, 1, inputs), outputs), "speed", cpu=cpu).steps[0].kernel == kernel

"""Kernels of exports for AArch64: every level of the instruction set gives the reference's bits, in an emulator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from by_night import first, where
from c_exports import assert_equal, export, one_conv
from every_kernel import gated_members
from random_programs import alone, random_inputs, random_program
from tile_programs import CODE_EDGES, EDGES, HALF, SAME, assert_steps_equal, inputs, many_convs, random_cases

from blrc.program import reference
from blrc.program.program import DType, Program
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.kernels.cpus import AARCH64, HOSTS, TIERS
from blrc.targets.c.kernels.tiers import VARIABLE, host_cpu
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import Machine, find
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native
from blrc.targets.c.native.slots import Slots

CC = "aarch64-linux-gnu-gcc"
# By level, CPUs that have it and not the next: what the program asks when it runs decides.
EMULATED = {"neon": "cortex-a53", "dotprod": "max"}
TOOLS = (CC, "qemu-aarch64")


@pytest.fixture(autouse=True, scope="module")
def _every_level() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        yield


def check_levels(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every op of the program, alone on random input, gives the reference's bits at each level; the kernels."""
    export(program, folder, inputs(program), cpu=AARCH64)
    with HostBuild(folder, "net", ("-O2", "-static"), CC, runner=("qemu-aarch64",)) as c:
        for level, cpu in EMULATED.items():
            monkeypatch.setenv("QEMU_CPU", cpu)
            assert_steps_equal(program, c.run_op, f"{level} ({cpu})")
        return {step.kernel for step in c.layout.steps}


@pytest.mark.needs(*TOOLS)
@pytest.mark.parametrize(
    ("part", "every"), [(0, 2), *(pytest.param(i, 1, marks=pytest.mark.nightly) for i in range(len(EDGES)))]
)
@pytest.mark.slow("emulates every level")
def test_every_level_of_aarch64_at_the_edges_of_blocks(
    part: int, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense = {"dense_tiles"} if part == 1 else set()
    program = many_convs(EDGES[part][::every])
    assert check_levels(program, tmp_path, monkeypatch) == {"conv_tiles", "scores_dots"} | dense


@pytest.mark.nightly
@pytest.mark.needs(*TOOLS)
@pytest.mark.parametrize("part", range(len(CODE_EDGES)))
def test_first_layers_of_every_level_of_aarch64(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = many_convs(CODE_EDGES[part], dtype="int8")
    assert check_levels(program, tmp_path, monkeypatch) == {"conv_dots", "scores_dots"}


@pytest.mark.nightly
@pytest.mark.needs(*TOOLS)
@pytest.mark.parametrize("dtype", ["bits", "int8"])
def test_random_shapes_of_every_level_of_aarch64(dtype: DType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(int(os.environ.get("BLRC_FUZZ_SEED", "0")))
    cases = random_cases(rng, 12, dtype == "int8")
    check_levels(many_convs(cases, int(rng.integers(2**31)), dtype), tmp_path, monkeypatch)


@pytest.mark.nightly
@pytest.mark.needs(*TOOLS)
def test_levels_of_aarch64_are_chosen_when_the_code_runs_and_can_be_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes fewer instructions than the one before, all give the same bits, and what a CPU lacks is not run."""
    program = one_conv((8, 8, 1), 40, SAME, pool=HALF, kind="uint8")
    raw = random_inputs(program, 4)
    folder = export(program, tmp_path, raw, cpu=AARCH64)
    found = {}
    for level in ("portable", "neon", ""):
        monkeypatch.setenv(VARIABLE, level)
        with EmulatedBuild(folder, "net", find("aarch64")) as c:
            assert_equal(program, c.run(raw), raw, [s.y.name for s in c.layout.steps])
            found[level] = c.instructions(raw) or 0
            assert c.compiler.endswith(f" -DNET_BLRC_TIER_MOST={TIERS[AARCH64].index(level)}" if level else " -O2")
            if not level:
                assert c.selftest() == 0
                monkeypatch.setenv("QEMU_CPU", "cortex-a53")
                without_sdot = c.instructions(raw) or 0
                monkeypatch.delenv("QEMU_CPU")
    assert found["portable"] > found["neon"] > 1.1 * found[""] > 0
    assert abs(found["neon"] - without_sdot) < 50


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("dtype", first(1, ["int8", "bits"]))
def test_c_for_aarch64_is_right_on_other_machines(dtype: DType, tmp_path: Path) -> None:
    program = many_convs((EDGES if dtype == "bits" else CODE_EDGES)[0], 0, dtype)
    raw = inputs(program)
    with HostBuild(export(program, tmp_path, raw, cpu=AARCH64), "net", SANITIZE, "gcc") as c:
        assert_equal(program, c.run(raw), raw, list(reference.run(program, raw)))


@pytest.mark.parametrize("cpu", where(lambda cpu: cpu == AARCH64, HOSTS))
@pytest.mark.parametrize("emulated", [pytest.param("armv7", marks=pytest.mark.nightly), "s390x"], indirect=True)
def test_regression_exports_for_hosts_run_on_emulated_machines(cpu: str, emulated: Machine, tmp_path: Path) -> None:
    """What they need of its memory was asked of a list that has no kernels for hosts."""
    program = one_conv((8, 8, 16), 40, SAME, pool=HALF)
    raw = random_inputs(program, 3)
    with EmulatedBuild(export(program, tmp_path, raw, cpu=cpu), "net", emulated) as c:
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])
        assert c.need.arena == c.layout.arena_bytes and c.selftest() == 0


@pytest.mark.needs("cc")
def test_python_takes_c_for_aarch64_on_such_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `blrc.compile`, `blrc eval` and `blrc verify` would compile there; here its portable level runs."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert host_cpu() == AARCH64
    program = gated_members()
    raw = random_inputs(program, 9)
    native, slots = Native(library_files(program, "net"), "net", program, 1, ("-O1",)), Slots(program, ("-O1",))
    assert native.layout.cpu == AARCH64 and any(step.kernel == "conv_dots" for step in native.layout.steps)
    for member in range(len(program.members)):
        assert_equal(program, native.run(raw, member), raw, [step.y.name for step in native.layout.steps], member)
        expected = reference.scores(program, raw, member)
        np.testing.assert_array_equal(slots.scores(alone(program, member), raw), expected)
    slots.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        pytest.param(*case, marks=pytest.mark.needs(case[0]))
        for case in (
            (CC, ("-std=c99",)),
            (CC, ("-std=c99", "-mcpu=cortex-a76")),
            ("clang-19", ("--target=aarch64-linux-gnu", "-xc++", "-std=c++11", "-I/usr/aarch64-linux-gnu/include")),
            ("clang-19", ("--target=aarch64-linux-gnu", "-std=c99", "-I/usr/aarch64-linux-gnu/include")),
            ("clang-19", ("--target=aarch64-linux-gnu", "-mcpu=cortex-a76", "-I/usr/aarch64-linux-gnu/include")),
        )
    ],
)
def test_compilers_take_c_for_aarch64_without_a_word(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    program = random_program(2, "uint8", layers=2)
    folder = export(program, tmp_path, random_inputs(program, 1), cpu=AARCH64)
    sources = sorted(map(str, folder.glob("*_blrc_*.c")))
    command = [compiler, *flags, *STRICT, f"-I{folder}", "-fsyntax-only", *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr

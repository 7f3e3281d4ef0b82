"""The C gives the reference's bits: random programs under several compilers, sanitizers and languages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import first, where
from c_exports import assert_equal, export, one_conv
from random_programs import random_inputs, random_program

from blrc.program.legal import check
from blrc.program.program import Conv, Encode, Program, Value, Window
from blrc.targets.c.build import compiled
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild

KINDS = ("uint8", "int8", "bits")
BY_NIGHT = pytest.mark.nightly
ONE_BY_DAY = [*(pytest.param(kind, marks=BY_NIGHT) for kind in KINDS[:2]), KINDS[2]]


def check_program(program: Program, folder: Path, samples: int = 40, **build: object) -> None:
    """Whole runs, then every step alone on the reference's inputs, for every member."""
    raw = random_inputs(program, samples)
    export(program, folder, raw[:3])
    with HostBuild(folder, "net", **build) as c:  # type: ignore[arg-type]
        stored = [step.y.name for step in c.layout.steps]
        for member in range(len(program.members)):
            found = c.run(raw, member)
            assert_equal(program, found, raw, stored, member)
            for step in c.layout.steps:
                # The values are equal to the reference's by now.
                alone = c.run_op(step.op.name, found[step.x.name], member)
                np.testing.assert_array_equal(alone, found[step.y.name], err_msg=step.op.name)


@BY_NIGHT
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs(tmp_path: Path, seed: int, kind: str) -> None:
    check_program(random_program(seed, kind), tmp_path)


@pytest.mark.parametrize("kind", where(lambda kind: kind == "int8", KINDS))
@pytest.mark.parametrize("seed", [20, *(pytest.param(seed, marks=BY_NIGHT) for seed in (21, 22))])
def test_random_programs_under_sanitizers(tmp_path: Path, seed: int, kind: str) -> None:
    check_program(random_program(seed, kind, layers=4), tmp_path, flags=SANITIZE)


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("-O3", "-DNET_BLRC_UNIT_BITS=32"), marks=BY_NIGHT),
        ("-O2", "-DNET_BLRC_UNIT_BITS=32", "-DNET_BLRC_HAS_POPCOUNT=1"),
        ("-O2", "-DNET_BLRC_UNIT_BITS=64", "-DNET_BLRC_HAS_POPCOUNT=1"),
    ],
)
@pytest.mark.parametrize("seed", first(1, [30, 31]))
def test_every_form_of_popcount(tmp_path: Path, seed: int, flags: tuple[str, ...]) -> None:
    check_program(random_program(seed, "bits"), tmp_path, flags=flags)


@pytest.mark.parametrize("kind", ONE_BY_DAY)
@pytest.mark.needs("g++")
def test_random_programs_as_cplusplus(tmp_path: Path, kind: str) -> None:
    program = random_program(40, kind, binary=kind == "bits")
    check_program(program, tmp_path, cc="g++", cplusplus=True, flags=("-O2", *STRICT))


@pytest.mark.parametrize("kind", ONE_BY_DAY)
@pytest.mark.needs("clang")
def test_random_programs_with_clang(tmp_path: Path, kind: str) -> None:
    check_program(random_program(41, kind), tmp_path, cc="clang", flags=("-O2", *STRICT))


@BY_NIGHT
@pytest.mark.needs("clang++")
def test_random_programs_with_clang_as_cplusplus(tmp_path: Path) -> None:
    check_program(random_program(42), tmp_path, cc="clang++", cplusplus=True, flags=("-O2", *STRICT))


@BY_NIGHT
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [50, 51])
@pytest.mark.needs("s390x-linux-gnu-gcc", "qemu-s390x")
def test_random_programs_on_a_big_endian_machine(tmp_path: Path, seed: int, kind: str) -> None:
    build = {"cc": "s390x-linux-gnu-gcc -static", "runner": ("qemu-s390x",), "flags": ("-O2", *STRICT)}
    check_program(random_program(seed, kind), tmp_path, samples=10, **build)


@pytest.mark.parametrize("kind", ONE_BY_DAY)
def test_every_member_has_its_own_tables(tmp_path: Path, kind: str) -> None:
    program = random_program(60, kind, members=3)
    assert any(len(constant.tables) > 1 for constant in program.constants.values())
    check_program(program, tmp_path)


def test_codes_that_several_layers_read_are_stored(tmp_path: Path) -> None:
    program = one_conv((5, 6, 3), 33, Window((3, 3), padding=(1, 1, 1, 1)), kind="uint8")
    encode, conv, scores = program.ops
    assert isinstance(encode, Encode) and isinstance(conv, Conv)
    second = replace(conv, name="second", y=Value("second.out", "bits", conv.y.shape))
    both = check(replace(program, ops=(encode, second, conv, scores)))
    raw = random_inputs(both, 10)
    with HostBuild(export(both, tmp_path, raw), "net") as c:
        assert [step.op.name for step in c.layout.steps] == ["encode", "second", "conv", "scores"]
        assert_equal(both, c.run(raw), raw, ["codes", "second.out", "out", "scores"])


def test_no_sample_and_many_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(0, "uint8")
    monkeypatch.setattr(compiled, "BATCH_BYTES", 6_000)
    raw = random_inputs(program, 300)
    with HostBuild(export(program, tmp_path, raw[:1]), "net") as c:
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])
        assert c.run(raw[:0])["label"].shape == (0,)

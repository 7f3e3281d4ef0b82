"""The C on an AVR (ATmega2560 in simavr): tables in flash, numbers equal to the reference's at every layer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import first
from c_exports import assert_equal, export, one_conv
from random_networks import calibrated_net, deep_network, raw_samples
from random_programs import gated, random_inputs, random_program

import blrc
from blrc.datasets.idx import read_idx
from blrc.errors import BlrcError
from blrc.lowering.lower import lower
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import Conv, Encode, Program, Value, Window
from blrc.targets.c.build import compiler as build
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.simavr import SimAvr
from blrc.targets.c.machines.table import Machine, find
from blrc.targets.c.runtime_files import include_flags, runtime_dir, runtime_files, runtime_sources

pytestmark = pytest.mark.needs("avr-gcc", "avr-size")
MEGA = ("avr-gcc", "-mmcu=atmega2560")
FLAGS = ("-mmcu=atmega2560", "-Os", *build.STRICT)
ARDUINO = ("-Os", "-std=gnu11", "-ffunction-sections", "-fdata-sections", "-flto", "-Wl,--gc-sections")


@pytest.fixture
def avr(simulated_avr: SimAvr) -> Machine:
    """An ATmega2560 for which everything is compiled without a warning."""
    return replace(find("avr"), flags=FLAGS)


def check_program(program: Program, folder: Path, machine: Machine, samples: int = 3) -> None:
    """All layers of all members, what they say together, and the self-test."""
    raw = random_inputs(program, samples)
    with EmulatedBuild(export(program, folder, raw[:2]), "net", machine) as c:
        for member in range(len(program.members)):
            assert_equal(program, c.run(raw, member), raw, [step.y.name for step in c.layout.steps], member)
        expected, found = reference.answer(program, raw), c.answers(raw)
        for field in ("label", "members", "mean", "variance", "log_p"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field), err_msg=field)
        assert c.selftest() == 0


OTHERS = [(0, "bits"), (2, "uint8"), (4, "bits"), (5, "uint8")]


@pytest.mark.parametrize(
    ("seed", "kind"), [(1, "int8"), *(pytest.param(*case, marks=pytest.mark.nightly) for case in OTHERS)]
)
def test_random_programs(avr: Machine, tmp_path: Path, seed: int, kind: str) -> None:
    check_program(random_program(seed, kind), tmp_path, avr)


def test_an_ensemble_of_three_with_a_gate(avr: Machine, tmp_path: Path) -> None:
    program = gated(random_program(3, "uint8", members=3), 40_000)
    assert any(len(constant.tables) > 1 for constant in program.constants.values())
    check_program(program, tmp_path, avr, samples=6)


KERNELS: dict[str, Callable[[], Program]] = {
    "conv_rows": lambda: one_conv((3, 4, 321), 5, Window((2, 3), padding=(1, 1, 1, 1))),
    "conv_taps": lambda: one_conv((5, 5, 260), 4, Window((3, 3), padding=(1, 1, 1, 1), dilation=(2, 2)), groups=2),
    "encode": lambda: both_read(one_conv((5, 6, 3), 9, Window((3, 3), padding=(1, 1, 1, 1)), kind="uint8")),
}


def both_read(program: Program) -> Program:
    """Two layers that read the same codes, so that these are stored."""
    encode, conv, scores = program.ops
    assert isinstance(encode, Encode) and isinstance(conv, Conv)
    second = replace(conv, name="second", y=Value("second.out", "bits", conv.y.shape))
    return check(replace(program, ops=(encode, second, conv, scores)))


@pytest.mark.parametrize("kernel", first(1, list(KERNELS)))
def test_kernels_that_are_rare(avr: Machine, tmp_path: Path, kernel: str) -> None:
    program = KERNELS[kernel]()
    check_program(program, tmp_path, avr)
    assert kernel in (tmp_path / "net.h").read_text()


@pytest.mark.nightly
def test_a_network_from_torch(avr: Machine, tmp_path: Path) -> None:
    checkpoint, net = calibrated_net(deep_network, 3)
    program = lower([net])
    raw = np.moveaxis(raw_samples(checkpoint.encoding, 2, 1), 1, -1)
    with EmulatedBuild(export(program, tmp_path, raw), "net", avr) as c:
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])


@pytest.mark.parametrize(
    "flags",
    [*(pytest.param(flags, marks=pytest.mark.nightly) for flags in (("-O1",), ("-O2",))), ARDUINO],
    ids=["O1", "O2", "Arduino's"],
)
def test_tables_beyond_32_and_64_kb(avr: Machine, tmp_path: Path, flags: tuple[str, ...]) -> None:
    # 80,640 bytes of weights in three parts.
    program = one_conv((6, 6, 33), 280, Window((6, 6)))
    check_program(program, tmp_path, replace(avr, flags=(*FLAGS, *flags)), samples=2)
    assert "net_const_conv_weights_part_3[" in (tmp_path / "net_weights.c").read_text()


def test_nothing_but_geometry_is_copied_to_ram(tmp_path: Path) -> None:
    program = random_program(3, "uint8", members=3)
    folder = export(program, tmp_path, random_inputs(program, 2))
    in_ram = 0
    for source in [*build.sources(folder, "net"), folder / "net_selftest.c"]:
        compiled = build.compile_object(MEGA, FLAGS, source, tmp_path / "x.o", folder)
        sections = [line.split() for line in build.run_tool(["avr-size", "-A", str(compiled)], "").splitlines()]
        in_ram += sum(int(s[1]) for s in sections if s and s[0].startswith((".rodata", ".data", ".bss")))
    kernels = [step.kernel for step in lay_out(program).steps]
    assert in_ram == 4 * (26 * sum(k.startswith("conv_") for k in kernels) + 13 * kernels.count("pool_or"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mcu", "cplusplus"),
    [
        (mcu, cplusplus)
        for mcu in ("atmega328p", "atmega1284p", "atxmega128a1", "atmega2560")
        for cplusplus in (False, True)
    ],
)
def test_no_warnings(tmp_path: Path, mcu: str, cplusplus: bool) -> None:
    for source in runtime_sources():
        compiler = ("avr-g++" if cplusplus else "avr-gcc", f"-mmcu={mcu}")
        flags = ("-Os", *build.STRICT, *include_flags())
        build.compile_object(compiler, flags, source, tmp_path / "x.o", runtime_dir() / "include", cplusplus)


def test_what_no_avr_can_hold_is_refused(tmp_path: Path) -> None:
    program = one_conv((200, 200, 1), 1, Window((200, 200)), kind="int8")
    export(program, tmp_path, random_inputs(program, 1))
    with pytest.raises(BlrcError, match="AVR: the input has 40000 bytes; an array has at most 32767 there"):
        build.compile_object(MEGA, FLAGS, tmp_path / "net.c", tmp_path / "net.o", tmp_path)
    build.compile_object(build.find_compiler(), ("-O0",), tmp_path / "net.c", tmp_path / "net.o", tmp_path)


def test_a_cpu_that_cannot_read_its_flash_is_refused(tmp_path: Path) -> None:
    source = runtime_files()["blrc_run.c"]
    command = [
        "avr-gcc",
        "-mmcu=attiny10",
        f"-I{runtime_dir() / 'include'}",
        *include_flags(),
        "-fsyntax-only",
        str(source),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "AVR: this CPU cannot read tables from its flash into any register; take a larger one" in said


@pytest.mark.nightly
def test_mnist(avr: Machine, tmp_path: Path) -> None:
    examples = runtime_dir().parent / "examples" / "mnist"
    blrc.export(examples / "mnist.pt", folder=tmp_path / "out", targets=("c",))
    raw = read_idx(examples / "data" / "t10k-images-idx3-ubyte.gz")[:5, :, :, None]
    with EmulatedBuild(tmp_path / "out", "mnist", avr) as c:
        assert_equal(c.program, c.run(raw), raw, [step.y.name for step in c.layout.steps])
        sizes = build.measure([c.build_folder / "device.elf"], "avr-size")["device.elf"]
    assert sizes.text + sizes.data <= 256 * 1024
    assert sizes.data + sizes.bss <= 4 * 1024

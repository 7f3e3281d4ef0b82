"""The stack that calls take in an emulator, where it was painted before, against what is stated of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from by_night import rows_where, where
from c_exports import export, one_conv
from every_kernel import HALF, PROGRAMS, SAME
from random_programs import Builder, gated, random_inputs, random_program

from blrc.frontend import checkpoint
from blrc.frontend.sample import Member, sample
from blrc.lowering.lower import lower
from blrc.program.program import Program, Value, Window
from blrc.targets.c.build import compiler
from blrc.targets.c.layout.layout import CORTEX_M55, PORTABLE
from blrc.targets.c.machines.emulator import Emulator
from blrc.targets.c.machines.linker import linker_script
from blrc.targets.c.machines.table import MACHINES
from blrc.targets.c.runtime_files import runtime_dir
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import Optimize, choose

pytestmark = pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-arm")

ROOT = Path(__file__).parents[3]
PAINTED = 8192  # bytes below the caller
UNWRITTEN = 200  # bytes that a call may reserve and not write on these inputs

# Paints what lies below, calls, and looks for the lowest byte that is painted no more.
MAIN = """
#include "machine.h"
#include "net.h"

#define PAINTED 8192
#define PAINT 0xA5C3965Au

static uint32_t arena[(NET_ARENA_SIZE + 7) / 8 * 2];
static int32_t scores[NET_CLASSES];
static net_ensemble members;
static net_answer answer;
static INPUT input[NET_INPUT_SIZE];

static uint32_t below(volatile uint32_t *top, int paint)
{
    volatile uint32_t *const end = top - PAINTED / 4;
    volatile uint32_t *at;

    if (paint) {
        for (at = top - 16; at > end; --at) { /* its own frame, and this one's, are above */
            *at = PAINT;
        }
        return 0;
    }
    for (at = end + 1; at < top && *at == PAINT;) {
        ++at;
    }
    return (uint32_t)((uintptr_t)top - (uintptr_t)at);
}

__attribute__((noinline)) static uint32_t call(int predict)
{
    volatile uint32_t *top;
    uint32_t used;

    __asm__ volatile("mov %0, sp" : "=r"(top));
    below(top, 1);
    if (predict) {
        net_predict(input, arena, &members, 0, &answer);
    } else {
        CLASSIFY;
    }
    used = below(top, 0);
    return used;
}

int main(void)
{
    uint32_t used[2] = {0, 0};

    while (io_read(input, sizeof input) == sizeof input) {
        uint32_t i;

        for (i = 0; i < 2; ++i) {
            const uint32_t found = call((int)i);

            used[i] = found > used[i] ? found : used[i];
        }
    }
    io_write(used, sizeof used);
    io_exit(0);
    return 0;
}
"""


def painted(folder: Path, program: Program, raw: bytes, cpu: str) -> dict[str, int]:
    """Bytes that each call writes to below the address of its caller's stack, over all inputs."""
    machine = MACHINES["cortex-m55" if cpu == CORTEX_M55 else "cortex-m4"]
    assert machine.memory is not None
    objects = folder / "objects"
    objects.mkdir()
    element = {"uint8": "uint8_t", "int8": "int8_t", "bits": "uint32_t"}[program.input.dtype]
    classify = "net_classify(input, arena, scores)" if len(program.members) == 1 else "(void)scores"
    (objects / "main.c").write_text(MAIN.replace("INPUT input", f"{element} input").replace("CLASSIFY", classify))
    include = f"-I{runtime_dir() / 'machines'}"
    library = [
        compiler.compile_object(machine.compiler, machine.flags, source, objects / f"{source.stem}.o", folder)
        for source in compiler.sources(folder, "net")
    ]
    around = [
        compiler.compile_object(
            machine.compiler, [*machine.flags, "-fno-builtin", include], source, objects / f"{source.stem}.o", folder
        )
        for source in (objects / "main.c", *(runtime_dir() / "machines" / file for file in machine.sources))
    ]
    script = objects / "script.ld"
    script.write_text(linker_script(machine.memory, PAINTED + 1024))
    linked = [*machine.compiler, *machine.flags, f"-T{script}", *map(str, [*around, *library]), *machine.link]
    compiler.run_tool([*linked, "-o", str(objects / "main.elf")], "linking")
    written = Emulator(machine, objects, 120).run(objects / "main.elf", raw, "painting the stack")
    classify_bytes, predict = np.frombuffer(written, "<u4").tolist()
    return {"predict": predict, **({"classify": classify_bytes} if len(program.members) == 1 else {})}


def check(folder: Path, program: Program, cpu: str = PORTABLE, optimize: Optimize = "size") -> dict[str, int]:
    """What is stated is no less than what is written, and not much more; the header says the same."""
    inputs = random_inputs(program, 3)
    stated = footprint.measure(choose(program, optimize, cpu=cpu)).calls
    export(program, folder, inputs, cpu=cpu, optimize=optimize)
    header = (folder / "net.h").read_text(encoding="ascii")
    defined = re.findall(r"^#define NET_STACK_(\w+) (\d+)", header, re.MULTILINE)
    assert {name.lower(): int(nbytes) for name, nbytes in defined} == dict(stated)
    found = painted(folder, program, memory_of(program, inputs), cpu)
    assert found.keys() == stated.keys()
    for call, nbytes in found.items():
        assert 0 < nbytes <= stated[call] <= nbytes + UNWRITTEN, (call, nbytes, stated[call])
    return found


def memory_of(program: Program, inputs: np.ndarray) -> bytes:
    from blrc.program.vectors import memory as as_read

    return as_read(program.input, inputs).tobytes()


def small(seed: int, members: int) -> Program:
    """Any layers; an ensemble behind a gate now and then."""
    program = random_program(seed, ("uint8", "bits", "int8")[seed % 3], layers=1 + seed % 7, members=members)
    return gated(program, 60000) if members > 1 and seed % 2 else program


def wide(members: int) -> Program:
    """Layers that --optimize speed gives memory of their own."""
    builder = Builder(Value("input", "uint8", (16, 16, 3)), np.random.default_rng(0), members=members)
    builder.encode()
    builder.conv("first", SAME, HALF, groups=1, per_group=32)
    builder.conv("sliced", SAME, HALF, groups=1, per_group=64)
    builder.conv("dense", Window(builder.x.shape[:2]), None, groups=1, per_group=256)
    return builder.finish(np.int8)


@pytest.mark.parametrize(("seed", "members"), rows_where(lambda case: case == (0, 3), product(range(6), (1, 3))))
def test_random_networks(seed: int, members: int, tmp_path: Path) -> None:
    check(tmp_path / "net", small(seed, members), optimize=("size", "ram", "speed")[seed % 3])


@pytest.mark.parametrize("name", where(lambda name: name in ("gated", "ternary"), PROGRAMS))
def test_every_kernel(name: str, tmp_path: Path) -> None:
    check(tmp_path / "net", PROGRAMS[name]())


FORMS: list[tuple[str, Optimize]] = [
    (PORTABLE, "size"),
    (PORTABLE, "speed"),
    (PORTABLE, "ram"),
    (CORTEX_M55, "size"),
    (CORTEX_M55, "speed"),
]


@pytest.mark.parametrize(
    ("form", "members"), rows_where(lambda case: case in ((FORMS[1], 1), (FORMS[4], 2)), product(FORMS, (1, 2)))
)
def test_every_form(form: tuple[str, Optimize], members: int, tmp_path: Path) -> None:
    check(tmp_path / "net", wide(members), *form)


def test_strips_and_gathered_rows(tmp_path: Path) -> None:
    programs: dict[str, Callable[[], Program]] = {
        "strips": lambda: random_program(3, "uint8", (14, 9, 3), layers=9, members=1),
        "gather": lambda: one_conv((4, 8, 512), 16, SAME),
    }
    for name, make in programs.items():
        check(tmp_path / name, make(), optimize="ram")


@pytest.mark.nightly
@pytest.mark.parametrize("optimize", ["size", "speed", "ram"])
def test_the_shipped_network(optimize: Optimize, tmp_path: Path) -> None:
    """One network, of which the stated stack was that of classify while every example calls predict."""
    source = checkpoint.load(ROOT / "examples" / "mnist" / "mnist.pt")
    found = check(tmp_path / "map", lower([sample(source, running=True)]), optimize=optimize)
    assert found["predict"] > found["classify"]


@pytest.mark.nightly
def test_the_shipped_network_as_an_ensemble(tmp_path: Path) -> None:
    source = checkpoint.load(ROOT / "examples" / "mnist" / "mnist.pt")
    check(tmp_path / "two", lower([sample(source, Member(0, k), running=True) for k in range(2)]))

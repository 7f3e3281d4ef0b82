"""The exported C on every machine: all that an export can do, against the reference; sizes, stack, instructions."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_exports import assert_equal, export, one_conv
from random_programs import Builder, gated, random_inputs, random_program, top_probability
from tile_programs import EDGES, inputs, many_convs

from blrc.errors import BlrcError
from blrc.net.window import Window
from blrc.program import reference
from blrc.program.program import Conv, Program, Value
from blrc.targets.c.build import compiler
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import ALL, Machine, Tool, find
from blrc.targets.c.size.fit import DoesNotFitError, NoRoomToTestError

MEMBERS = 3


@pytest.fixture(scope="module")
def program() -> Program:
    """Three members behind a gate that lets about half of the inputs pass."""
    whole = random_program(5, members=MEMBERS)
    raw = random_inputs(whole, 40)
    return gated(whole, int(np.median(top_probability(whole, raw))))


@pytest.fixture(scope="module")
def folder(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(program, tmp_path_factory.mktemp("net"), random_inputs(program, 3))


BY_DAY = ("cortex-m4", "avr", "s390x")
"""Machines of different words, byte orders and memories. CI runs all in tools/pages/targets.py as well."""


@pytest.mark.parametrize(
    "emulated",
    [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in ALL],
    indirect=True,
)
def test_every_machine_agrees_with_the_reference(emulated: Machine, program: Program, folder: Path) -> None:
    raw = random_inputs(program, 12, seed=9)
    with EmulatedBuild(folder, "net", emulated) as c:
        values = [step.y.name for step in c.layout.steps]
        for member in range(MEMBERS):
            assert_equal(program, c.run(raw, member), raw, values, member)
        answer, found = reference.answer(program, raw), c.answers(raw)
        for name in ("label", "log_p", "mean", "variance", "members"):
            np.testing.assert_array_equal(getattr(found, name), getattr(answer, name), err_msg=name)
        np.testing.assert_array_equal(c.answers(raw, stop=True).label, answer.label)
        last = c.layout.steps[-1]
        alone = random_inputs(replace(program, input=last.x), 5)
        expected = last.op.run(program, alone, 1)
        np.testing.assert_array_equal(c.run_op(last.op.name, alone, 1), expected)
        assert c.selftest() == 0
        assert c.instructions(raw) == c.instructions(raw)
        tables = sum(step.flash for step in c.layout.steps)
        assert tables < c.flash < tables + 36_000  # an AVR computes 8 bits at a time
        assert 0 < c.stack < 4_000
        assert c.compiler.endswith(" ".join(emulated.flags))


@pytest.mark.parametrize(
    ("emulated", "part"),
    [
        ("cortex-m55", 0),
        *(pytest.param(name, 0, marks=pytest.mark.nightly) for name in ("aarch64", "armv7", "rv64gcv", "wasm_simd")),
        *(
            pytest.param(name, 1, marks=pytest.mark.nightly)
            for name in ("cortex-m55", "aarch64", "armv7", "rv64gcv", "wasm_simd")
        ),
    ],
    indirect=["emulated"],
)
def test_vectors_at_the_edges_of_blocks(emulated: Machine, part: int, tmp_path: Path) -> None:
    """Where bits are counted in vectors: rows of many numbers of words, borders, bits that all differ."""
    program = many_convs(EDGES[part])
    with EmulatedBuild(export(program, tmp_path, inputs(program)), "net", emulated) as c:
        for op in program.ops:
            if not isinstance(op, Conv) or not op.name.startswith("case"):
                continue
            x = np.random.default_rng(1).random((3, *op.x.shape)) < 0.5
            x[0], x[1] = False, True
            different = np.argwhere(c.run_op(op.name, x) != op.run(program, x))
            if len(different):
                sample, row, column, channel = different[0]
                z = op.preactivation(program, x[sample : sample + 1])[0, :, :, channel]
                where = f"sample {sample}, position {(row, column)}, channel {channel}"
                threshold = program.constant(op.thresholds)[channel]
                pytest.fail(f"{emulated.name}: op {op}, {where}: threshold {threshold}, z {z}")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["netNAME", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("FILENAME", "MULTIPLIER"))]
)
def test_names_that_hold_the_templates_words(tmp_path: Path, name: str) -> None:
    """What stands for the model's name in a template is replaced once: not again in the name itself."""
    program = gated(random_program(0, "bits", members=2), 40_000)
    raw = random_inputs(program, 2)
    with EmulatedBuild(export(program, tmp_path, raw, name), name, find("host")) as c:
        assert c.selftest() == 0
        np.testing.assert_array_equal(c.answers(raw).label, reference.answer(program, raw).label)


@pytest.mark.parametrize(
    "emulated",
    ["host", "cortex-m0", "rv32imc", "wasm"],
    indirect=True,
)
@pytest.mark.nightly
def test_instructions_are_counted(emulated: Machine, folder: Path, program: Program) -> None:
    """They grow with the work: a member more is about as much again, and no count is of another member's run."""
    raw = random_inputs(program, 1)
    with EmulatedBuild(folder, "net", emulated) as c:
        counts = [c.instructions(raw, member) for member in range(MEMBERS)]
        macs = sum(getattr(op, "macs", 0) for op in program.ops)
        for count in counts:
            assert count is not None and macs / 32 < count < 100 * macs


@pytest.mark.parametrize("emulated", ["cortex-m4", pytest.param("rv32imc", marks=pytest.mark.nightly)], indirect=True)
def test_instructions_of_steps_add_up_to_those_of_the_network(
    emulated: Machine, folder: Path, program: Program
) -> None:
    """What is left is the calls and the label: little, and the same for every input and member."""
    with EmulatedBuild(folder, "net", emulated) as c:
        rest = set()
        for member in range(MEMBERS):
            raw = random_inputs(program, 2, seed=member)
            steps, whole = c.step_instructions(raw, member), c.instructions(raw, member)
            assert steps is not None and whole is not None
            assert list(steps) == [step.op.name for step in c.layout.steps]
            assert all(count > 10 for count in steps.values())
            rest.add(whole - sum(steps.values()))
        assert max(rest) - min(rest) < 40  # the first maximum of the scores, where it stands
        assert 0 < min(rest) < 300


@pytest.mark.nightly
def test_instructions_of_a_known_loop_are_exact(tmp_path: Path, folder: Path) -> None:
    """100,000 rounds of a loop whose body is so many instructions, by the machine's own disassembly."""
    machine = find("rv32imc")
    if any(not tool.found for tool in machine.tools):
        pytest.skip("no RISC-V tools; test_every_machine_agrees_with_the_reference fails in CI without them")
    with EmulatedBuild(folder, "net", machine) as c:
        counts = []
        for rounds in (1, 100_001):
            source = tmp_path / "loop.c"
            source.write_text(
                '#include "machine.h"\nint main(void)\n{\n'
                f'    __asm__ volatile("li t0, {rounds}\\n1: addi t0, t0, -1\\n nop\\n bnez t0, 1b" ::: "t0");\n'
                "    return 0;\n}\n",
                encoding="ascii",
            )
            machines = Path(__file__).parents[3] / "runtime" / "machines"
            objects = [
                compiler.compile_object(
                    machine.compiler, [*machine.flags, f"-I{machines}"], each, tmp_path / f"{each.stem}.o", machines
                )
                for each in (source, *(machines / name for name in machine.sources))
            ]
            binary = tmp_path / "loop.elf"
            subprocess.run(
                [*machine.compiler, *machine.flags, *map(str, objects), *machine.link, "-o", str(binary)], check=True
            )
            counts.append(c._emulator.count(binary, b""))
        # li of a large number may take two instructions where that of a small one takes one
        assert counts[1] - counts[0] in (300_000, 300_001)


def test_a_changed_table_is_found_by_the_self_test(folder: Path, tmp_path: Path, program: Program) -> None:
    machine = find("host")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    weights = broken / "net_weights.c"
    text = weights.read_text(encoding="ascii")
    start = text.index("{", text.index("/* scores: bias"))
    weights.write_text(text[: start + 1] + " 77 +" + text[start + 1 :], encoding="ascii")
    with EmulatedBuild(broken, "net", machine) as c:
        assert c.selftest() == len(c.layout.steps)  # 1 + member 0 * steps + the last step


def test_what_is_too_large_does_not_fit(folder: Path) -> None:
    small = replace(find("host"), fits=(1000, 8 * 1024))
    with pytest.raises(DoesNotFitError, match=r"needs [\d,]+ bytes of flash and .* there are 1,000 and 8,192"):
        EmulatedBuild(folder, "net", small)
    with pytest.raises(DoesNotFitError):
        EmulatedBuild(folder, "net", replace(find("host"), fits=(10**6, 3)))


def test_what_is_so_large_that_it_does_not_compile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of an AVR have 32,767 bytes at most; the tables say that it does not fit."""

    def refuse(*arguments: object) -> None:
        raise BlrcError("too large for the compiler")

    monkeypatch.setattr(compiler, "compile_object", refuse)
    with pytest.raises(DoesNotFitError, match=r"needs at least [\d,]+ bytes of flash"):
        EmulatedBuild(folder, "net", replace(find("host"), fits=(1000, 8 * 1024)))
    with pytest.raises(BlrcError, match="too large for the compiler"):
        EmulatedBuild(folder, "net", replace(find("host"), fits=(10**6, 8 * 1024)))


@pytest.mark.needs("avr-gcc", "avr-size")
def test_an_input_that_no_avr_can_hold_does_not_fit(tmp_path: Path) -> None:
    """Its C does not even compile there: it has to be refused by its numbers before."""
    program = one_conv((192, 192, 1), 2, Window((192, 192)), kind="int8")
    folder = export(program, tmp_path, random_inputs(program, 1))
    with pytest.raises(DoesNotFitError, match=r"of RAM \(.*input 36,864, .*there are 262,144 and 8,192") as found:
        EmulatedBuild(folder, "net", find("avr"))
    assert found.value.need.input == 192 * 192


def test_the_stack_counts(folder: Path) -> None:
    """The arena, the input and the scores fit, and with the stack they do not."""
    host = find("host")
    with EmulatedBuild(folder, "net", host) as c:
        need = c.need
    assert need.stack > 0 and need.ram == need.arena + need.input + need.scores + need.stack
    with pytest.raises(DoesNotFitError, match=f"stack {need.stack:,}"):
        EmulatedBuild(folder, "net", replace(host, fits=(10**6, need.ram - 1)))


def in_ram(machine: Machine, nbytes: int) -> Machine:
    """The machine with so much RAM."""
    assert machine.memory is not None and machine.fits is not None
    return replace(machine, fits=(machine.fits[0], nbytes), memory=replace(machine.memory, ram_bytes=nbytes))


@pytest.mark.parametrize("emulated", ["cortex-m0"], indirect=True)
def test_a_program_that_does_not_fit_beside_the_test_itself(emulated: Machine, folder: Path) -> None:
    """The model fits, the linker says that model and test together do not: that is no difference."""
    with EmulatedBuild(folder, "net", emulated) as c:
        flash = c.flash
    assert emulated.memory is not None
    tight = replace(emulated, fits=(flash, 8 * 1024), memory=replace(emulated.memory, flash_bytes=flash))
    with EmulatedBuild(folder, "net", tight) as c:
        assert "FLASH is" in c.no_room and c.selftest() is None
        with pytest.raises(NoRoomToTestError):
            c.run(random_inputs(c.program, 1))


@pytest.mark.parametrize("emulated", ["cortex-m0"], indirect=True)
def test_with_little_ram_the_stack_stays_free(emulated: Machine, folder: Path, program: Program) -> None:
    """Just what model, stack and test need is enough; less is refused by the linker, not seen as a wrong answer."""
    raw = random_inputs(program, 2)
    with EmulatedBuild(folder, "net", emulated) as c:
        need, expected = c.need, c.run(raw)
    enough, lacks = -(-need.ram // 8) * 8, True
    while lacks:
        with EmulatedBuild(folder, "net", in_ram(emulated, enough)) as c:
            lacks = bool(c.no_room)
            if lacks:
                found = re.search(r"RAM is ([\d,]+) bytes too small", c.no_room)
                assert found is not None
                enough += -(-int(found[1].replace(",", "")) // 8) * 8
            else:
                for name, values in c.run(raw).items():
                    np.testing.assert_array_equal(values, expected[name])
                assert c.selftest() == 0
    assert need.ram < enough < need.ram + 1024


@pytest.mark.parametrize("emulated", ["avr"], indirect=True)
def test_the_stack_counts_where_no_linker_script_keeps_it_free(emulated: Machine, folder: Path) -> None:
    """An AVR's stack grows down into the data: what is linked is measured."""
    with EmulatedBuild(folder, "net", emulated) as c:
        assert not c.no_room
        need = c.need
    assert emulated.fits is not None
    with EmulatedBuild(folder, "net", replace(emulated, fits=(emulated.fits[0], need.ram))) as c:
        assert not c.runs and re.search(r"RAM is \d+ bytes too small", c.no_room)
        assert c.selftest() is None


@pytest.mark.nightly
@pytest.mark.parametrize("emulated", ["cortex-m0"], indirect=True)
def test_large_maps_that_only_exist_in_strips(emulated: Machine, tmp_path: Path) -> None:
    """The maps of a model in row strips exist nowhere as a whole, so they need not fit the machine: parts are put
    together on the host. Steps alone, which need them whole, are run where there is room."""
    program = tall()
    raw = random_inputs(program, 2)
    with EmulatedBuild(export(program, tmp_path, raw), "net", emulated) as c:
        whole = sum(step.y.nbytes for step in c.layout.steps)
        assert c.layout.rows and c.need.ram < 16 * 1024 < whole and not c.no_room
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])
        fits = {step.op.name: c.step_fits(step.op.name) for step in c.layout.steps}
        assert set(fits.values()) == {True, False}
        step = next(step for step in c.layout.steps if fits[step.op.name])
        x = random_inputs(replace(program, input=step.x), 2)
        np.testing.assert_array_equal(c.run_op(step.op.name, x), step.op.run(program, x))
        assert c.selftest() == 0


def tall() -> Program:
    """Convolutions at 32 x 32 with about 100 channels, pooled twice, as networks for small images begin."""
    builder = Builder(Value("x", "bits", (32, 32, 3)), np.random.default_rng(5), 1)
    same, half = Window((3, 3), padding=(1, 1, 1, 1)), Window((2, 2), (2, 2))
    builder.conv("conv0", same, None, 1, 128)
    builder.conv("conv1", same, half, 1, 96)
    builder.conv("conv2", same, half, 1, 32)
    return builder.finish()


def test_a_missing_tool_is_named(folder: Path) -> None:
    machine = replace(find("host"), tools=(Tool("no-such-gcc", "gcc-no-such"),))
    with pytest.raises(BlrcError, match="no-such-gcc not found; install gcc-no-such"):
        EmulatedBuild(folder, "net", machine)


@pytest.mark.parametrize(("command", "message"), [(("false",), "status 1"), (("sleep", "5"), "did not finish in 1 s")])
def test_a_program_that_fails_or_hangs(folder: Path, program: Program, command: tuple[str, ...], message: str) -> None:
    machine = replace(find("host"), run=command)
    with EmulatedBuild(folder, "net", machine, timeout=1.0) as c, pytest.raises(BlrcError, match=message):
        c.run(random_inputs(program, 1))

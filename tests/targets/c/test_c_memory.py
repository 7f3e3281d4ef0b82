"""Flash, RAM and stack as they are stated before flashing, against what the cross-compiler makes of the export."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from by_night import first
from c_exports import export, longest_strips, one_conv
from cortex_m_sizes import (
    COMPILER,
    ENVIRONMENTS,
    M4,
    M55,
    MEASURED,
    VARIANTS,
    compiler_version,
    linked_bytes,
    measure_folder,
    runtime_figures,
)
from head_networks import saved, stochastic
from hypothesis import given
from hypothesis import strategies as st
from random_programs import gated, random_program

from blrc.app.export import build
from blrc.frontend import checkpoint
from blrc.frontend.sample import MAP, Member, sample
from blrc.lowering.lower import lower
from blrc.program.program import Program, Window
from blrc.program.vectors import record
from blrc.targets.c.build import compiler
from blrc.targets.c.build.callgraph import FLAG, CallGraph, deepest, read_call_graph
from blrc.targets.c.emit import emit
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.layout import strips
from blrc.targets.c.layout.layout import CORTEX_M55, CPUS, PORTABLE, lay_out
from blrc.targets.c.layout.macros import DEFAULTS, runtime_macros
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import Optimize, choose
from blrc.targets.options import EmitOptions
from blrc.verification.inputs.stimuli import random_inputs

ROOT = Path(__file__).parents[3]
SAME = Window((3, 3), padding=(1, 1, 1, 1))
SLACK = 0.01, 400  # what may be stated too much of the flash: a fraction, and bytes


@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
@pytest.mark.slow("compiles the runtime")
def test_the_stored_sizes_are_those_of_two_variants() -> None:
    """Those with the largest frames: a figure of the stack that is 16 bytes off, either way, is seen. By night all
    variants are compared."""
    known = footprint.measured()["cortex-m4"]
    found = runtime_figures(MEASURED["cortex-m4"], VARIANTS[-2:], ENVIRONMENTS[:1])
    for stored, measured in zip((known.code, known.stack), found, strict=True):
        assert measured.keys() == stored.keys()
        assert {name: nbytes for name, nbytes in measured.items() if nbytes > stored[name]} == {}
    if known.compiler.startswith(compiler_version()):
        assert {name for name, nbytes in found[1].items() if nbytes <= known.stack[name] - 16} == set()


@pytest.mark.nightly
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
@pytest.mark.parametrize("cpu", MEASURED)
def test_the_stored_sizes_are_those_of_the_runtime(cpu: str) -> None:
    code, stack = runtime_figures(MEASURED[cpu])
    known = footprint.measured()[cpu]
    if known.compiler.startswith(compiler_version()):
        assert (code, stack) == (known.code, known.stack), "run python tools/cortex_m_sizes.py"
    for stored, measured in ((known.code, code), (known.stack, stack)):
        assert stored.keys() == measured.keys()
        assert all(measured[name] <= stored[name] <= measured[name] * 1.1 + 64 for name in stored)


# Programs whose frames are measured: seed, shape, layers and members; (14, 9, 3) and larger make strips.
FRAMES = [
    *((seed, None, layers, 1) for seed, layers in ((1, 2), (7, 3), (25, 4), (31, 8), (12, 12))),
    *((seed, None, layers, members) for seed, layers, members in ((2, 1, 3), (3, 3, 5), (5, 4, 3), (14, 8, 2))),
    *((seed, (14, 9, 3), layers, 1) for seed, layers in ((1, 2), (3, 9), (6, 14))),
    *((seed, (40, 30, 3), layers, members) for seed, layers, members in ((8, 9, 1), (9, 11, 1), (10, 12, 2))),
]


def counted_again(runtime: Path, kernels: set[str]) -> int:
    """Bytes that are stated for each kernel and lie in an export's runtime once: those of `blrc_inside`."""
    output = compiler.run_tool(["arm-none-eabi-nm", "-S", "-P", str(runtime)], "measuring the runtime")
    found = re.search(r"^net_blrc_inside t \w+ (\w+)", output, re.MULTILINE)
    return 0 if found is None else int(found[1], 16) * (len(kernels) - 1)


def check_stated(program: Program, folder: Path, cpu: str = PORTABLE, optimize: Optimize = "size") -> footprint.Memory:
    """Compile an export for the M4, or the M55: what is stated is no less, and not much more."""
    layout = choose(program, optimize, cpu=cpu)
    stated = footprint.measure(layout)
    options = EmitOptions("net", record(program, random_inputs(program.input, 1, 0)), "0", cpu=cpu, optimize=optimize)
    (folder / "net").mkdir()
    for name, content in emit(program, options).files.items():
        (folder / "net" / name).write_bytes(content)
    (folder / "net" / "net_selftest.c").unlink()
    flags = M55 if cpu == CORTEX_M55 else M4
    measured = measure_folder(folder / "net", folder / "net", folder / "objects", flags)
    together = len(program.members) > 1
    extra = compiler.certainty_bytes(sorted((folder / "objects").glob("*.o")), "net", "arm-none-eabi-nm")
    assert extra > 2500
    flash = sum(measured.code.values()) - (0 if together else extra)
    shared = counted_again(folder / "objects" / "net_blrc.o", {step.kernel for step in layout.steps})
    assert flash <= stated.flash_bytes <= flash * (1 + SLACK[0]) + SLACK[1] + shared
    if not together:
        assert extra <= stated.certainty_flash <= extra + 64
    assert set(stated.calls) == {"predict"} | (set() if together else {"classify"})
    for call, nbytes in stated.calls.items():
        assert (stack := deepest(measured.graph, f"net_{call}", pointers=0)) <= nbytes <= stack + 96, call
    return stated


@pytest.mark.parametrize("seed", first(1, range(14)))
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_what_the_compiler_makes(tmp_path: Path, seed: int) -> None:
    kind = ("uint8", "bits", "int8")[seed % 3]
    members = 1 if seed % 2 else 3
    program = random_program(seed, kind, layers=1 + seed, members=members)
    check_stated(gated(program, 60000) if seed % 4 == 0 else program, tmp_path)


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (0, 1, 3))])
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_what_is_made_for_a_cortex_m55(tmp_path: Path, seed: int) -> None:
    program = random_program(seed, ("uint8", "bits", "int8")[seed % 3], layers=2 + seed, members=1 + 2 * (seed % 2))
    check_stated(program, tmp_path, CORTEX_M55)


@pytest.mark.nightly
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_gathered_and_bit_sliced_layers_of_a_cortex_m55(tmp_path: Path) -> None:
    """Sizes of a Cortex-M4 were stated for them."""
    for name, program, kernel in (
        ("wide", one_conv((4, 8, 512), 16, SAME), "conv_gather"),
        ("sliced", one_conv((16, 16, 32), 32, SAME), "conv_quads"),
        ("eights", one_conv((16, 16, 3), 32, SAME, kind="uint8"), "conv_eights"),
        ("columns", one_conv((7, 7, 64), 256, Window((7, 7))), "dense_quads"),
    ):
        (tmp_path / name).mkdir()
        assert choose(program, "speed", cpu=CORTEX_M55).steps[0].kernel == kernel
        check_stated(program, tmp_path / name, CORTEX_M55, "speed")


@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_what_has_memory_of_its_own(tmp_path: Path) -> None:
    for name, program, kernel in (
        ("sliced", one_conv((16, 16, 32), 32, SAME), "conv_slices"),
        ("columns", one_conv((7, 7, 64), 256, Window((7, 7))), "dense_columns"),
    ):
        (tmp_path / name).mkdir()
        assert choose(program, "speed").steps[0].kernel == kernel
        check_stated(program, tmp_path / name, PORTABLE, "speed")


@pytest.mark.parametrize(
    ("seed", "longest"),
    [(3, 3), *(pytest.param(*case, marks=pytest.mark.nightly) for case in ((1, 2), (9, 2), (13, 4), (19, 6)))],
)
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_strips_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, longest: int
) -> None:
    monkeypatch.setattr(strips, "plan", longest_strips)
    kind = ("uint8", "bits", "int8")[seed % 3]
    program = random_program(seed, kind, (14, 9, 3), layers=2 + seed % 5, members=1 + 2 * (seed % 2))
    assert max(end - first for first, end in lay_out(program).groups) == longest
    check_stated(program, tmp_path)


@pytest.mark.nightly
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_the_mnist_network_keeps_its_goals(tmp_path: Path) -> None:
    program = lower([sample(checkpoint.load(ROOT / "examples" / "mnist" / "mnist.pt"), running=True)])
    stated = check_stated(program, tmp_path)
    arena = next(part.nbytes for part in stated.ram if part.what == "arena")
    assert stated.flash_bytes <= 220_000
    assert arena <= 1228  # 1.2 KB
    assert stated.calls["classify"] <= 512


def test_parts_add_up() -> None:
    layout = lay_out(random_program(3, "uint8", layers=4))
    found = footprint.measure(layout)
    assert found.flash_bytes == sum(part.nbytes for part in found.flash)
    tables = sum(part.nbytes for part in found.flash if part.layer)
    assert tables == sum(step.flash for step in layout.steps)
    gaps = 3 * sum(len(step.tables) for step in layout.steps)
    assert tables + gaps + found.code_bytes == found.flash_bytes
    ram = {part.what: part.nbytes for part in found.ram}
    program = layout.program
    assert ram == {
        "arena": layout.arena_bytes,
        "input": program.input.nbytes,
        "scores": 4 * program.classes,
        "stack": found.stack,
    }
    assert found.stack == found.calls["predict"] == max(found.step_stack.values()) > found.calls["classify"]
    assert list(found.step_stack) == [step.op.name for step in layout.steps]


def test_an_ensemble_s_sums_count_instead_of_the_scores() -> None:
    found = footprint.measure(lay_out(random_program(3, "uint8", members=2)))
    ram = {part.what: part.nbytes for part in found.ram}
    classes = random_program(3, "uint8", members=2).classes
    # uint32 members (padded to 8), int32 log_p, uint32 p, uint64 p_squared; the answer has four words.
    assert ram["sums of members"] == 8 + classes * (4 + 4 + 8) + 16
    assert "scores" not in ram and found.certainty_flash == 0


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3]))
def test_buffers_hold_the_widest_layer_and_no_more(channels: int, outputs: int, kernel: int) -> None:
    window = Window((kernel, kernel), padding=(kernel // 2,) * 4)
    bits = lay_out(one_conv((4, 4, channels), outputs, window))
    macros = runtime_macros(bits)
    step = bits.steps[0]
    taps = {"conv_gather": kernel * kernel * -(-channels // 32), "conv_packed": -(-kernel * kernel * channels // 32)}
    assert macros["BLRC_GATHER_WORDS"] == taps.get(step.kernel, 1) <= DEFAULTS["BLRC_GATHER_WORDS"]
    assert macros["BLRC_CODES"] == 4
    codes = runtime_macros(lay_out(one_conv((4, 4, channels), outputs, window, kind="uint8")))
    fan_in = kernel * kernel * channels
    assert codes["BLRC_CODES"] == min(32, 4 * -(-fan_in // 4))
    assert codes["BLRC_CODE_ROWS"] == (16 if fan_in > 32 else 8)


def test_every_cpu_has_measured_sizes() -> None:
    assert footprint.measured().keys() == MEASURED.keys() == {cpu.sizes for cpu in CPUS.values()}
    for sizes in footprint.measured().values():
        for kernel in KERNELS.values():
            assert kernel.inner or (
                kernel.name in sizes.stack and set(kernel.sources(CPUS[PORTABLE])) <= set(sizes.code)
            )


def test_variants_cover_every_macro() -> None:
    portable = {macro: value for macro, value in DEFAULTS.items() if not macro.startswith("BLRC_TILE_")}
    assert all(variant.keys() == portable.keys() for variant in VARIANTS)
    assert portable in VARIANTS


def code_buffers(fan_in: int) -> tuple[int, int]:
    macros = runtime_macros(lay_out(one_conv((1, fan_in, 1), 2, Window((1, fan_in)), kind="uint8")))
    return macros["BLRC_CODES"], macros["BLRC_CODE_ROWS"]


def test_variants_have_every_pair_of_code_buffers_that_a_layer_can_ask_for() -> None:
    """A first layer of 29 to 32 taps has tables for 32 codes and blocks of 8 rows, which takes more stack than either
    smaller tables or blocks of 16."""
    reachable = {code_buffers(fan_in) for fan_in in range(1, 70)}
    assert reachable == {(codes, 8) for codes in range(4, 33, 4)} | {(32, 16)}
    for bits in (16, 32):
        stored = {(v["BLRC_CODES"], v["BLRC_CODE_ROWS"]) for v in VARIANTS if v["BLRC_CODE_THRESHOLDS"] == bits}
        assert reachable == stored


@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_the_stack_of_a_first_layer_of_29_to_32_taps_is_bounded(tmp_path: Path) -> None:
    check_stated(one_conv((6, 6, 2), 32, Window((4, 4)), kind="uint8"), tmp_path)


@pytest.mark.nightly
@pytest.mark.needs(*COMPILER)
def test_the_bound_on_the_stack_holds_whatever_gcc_inlines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of generated functions, for few and many steps, one network and ensembles, alone and in long strips."""
    monkeypatch.setattr(strips, "plan", longest_strips)
    for case, (seed, shape, layers, members) in enumerate(FRAMES):
        program = random_program(seed, ("uint8", "bits", "int8")[seed % 3], shape, layers=layers, members=members)
        layout = lay_out(program)
        export(program, tmp_path / f"{case}", random_inputs(program.input, 1, 0))
        objects = tmp_path / f"{case}" / "objects"
        objects.mkdir()
        source = tmp_path / f"{case}" / "net.c"
        compiler.compile_object(COMPILER, (*M4, FLAG), source, objects / "net.o", source.parent)
        graph = read_call_graph(objects)
        stack, macros = footprint.sizes_for(layout).stack, runtime_macros(layout)
        runtime = {f"net_blrc_{name}": n + footprint.buffer_bytes(name, macros) for name, n in stack.items()}
        whole = CallGraph({**graph.frames, **runtime}, graph.calls)
        for call, nbytes in footprint.measure(layout).calls.items():
            assert deepest(whole, f"net_{call}", pointers=0) <= nbytes, (call, seed, shape, layers, members)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("heads", "members", "gate"),
    [(12, 3, 30000), *(pytest.param(*case, marks=pytest.mark.nightly) for case in ((2, 1, 0), (5, 1, 0), (3, 3, 0)))],
)
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_several_heads(tmp_path: Path, heads: int, members: int, gate: int) -> None:
    torch.manual_seed(heads)
    checkpoint = saved(stochastic({f"h{place}": 2 + place % 3 for place in range(heads)}))
    drawn = [MAP, Member(1, 0), Member(1, 1)][:members]
    program, _ = build(checkpoint, drawn, gate)
    stated = check_stated(program, tmp_path, CORTEX_M55 if heads == 5 else PORTABLE)
    sums = [part.nbytes for part in stated.ram if part.what == "sums of members"]
    assert sums == ([8 + 16 * program.classes + 16 * heads] if members > 1 else [])


@pytest.mark.parametrize("members", first(1, [1, 3]))
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_a_linked_firmware_takes_no_more_flash_than_stated(tmp_path: Path, members: int) -> None:
    """With all that the linker adds, such as the compiler's own division: as a user's firmware is linked."""
    program = random_program(4, "uint8", members=members)
    program = gated(program, 60000) if members > 1 else program
    export(program, tmp_path / "net", random_inputs(program.input, 1, 0))
    (tmp_path / "net" / "net_selftest.c").unlink()
    stated = footprint.measure(lay_out(program))
    predict = (
        "static uint32_t arena[NET_ARENA_SIZE / 4]; static net_ensemble e; static net_answer a;"
        "static uint8_t x[NET_INPUT_SIZE]; net_predict(x, arena, &e, 0, &a)"
    )
    classify = (
        "static uint32_t arena[NET_ARENA_SIZE / 4]; static int32_t s[NET_CLASSES];"
        "static uint8_t x[NET_INPUT_SIZE]; net_classify(x, arena, s)"
    )
    linked = linked_bytes(tmp_path / "net", tmp_path / "predict", predict)
    bound = stated.flash_bytes + stated.certainty_flash
    assert linked <= bound <= linked * (1 + SLACK[0]) + SLACK[1] + 200
    if members == 1:
        linked = linked_bytes(tmp_path / "net", tmp_path / "classify", classify)
        assert linked <= stated.flash_bytes <= linked * (1 + SLACK[0]) + SLACK[1] + 200

"""Flash, RAM and stack as they are stated before flashing, against what the cross-compiler makes of the export."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_exports import export, longest_strips, one_conv
from cortex_m4_sizes import COMPILER, VARIANTS, compiler_version, measure_folder, runtime_figures
from hypothesis import given
from hypothesis import strategies as st
from random_programs import gated, random_program

from blrc import checkpoint
from blrc.lower import lower
from blrc.program import Program, Window
from blrc.sample import sample
from blrc.targets.c import cortex_m4, memory, strips
from blrc.targets.c.callgraph import deepest
from blrc.targets.c.layout import lay_out
from blrc.targets.c.macros import DEFAULTS, runtime_macros
from blrc.verification.stimuli import random_inputs

ROOT = Path(__file__).parents[2]
SLACK = 0.01, 400  # what may be stated too much of the flash: a fraction, and bytes


@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_the_stored_sizes_are_those_of_the_runtime() -> None:
    code, stack = runtime_figures()
    if cortex_m4.COMPILER.startswith(compiler_version()):
        remedy = "run python tests/targets/cortex_m4_sizes.py"
        assert (code, stack) == (cortex_m4.CODE, cortex_m4.STACK), remedy
    for stored, measured in ((cortex_m4.CODE, code), (cortex_m4.STACK, stack)):
        assert stored.keys() == measured.keys()
        assert all(measured[name] <= stored[name] <= measured[name] * 1.1 + 64 for name in stored)


def check_stated(program: Program, folder: Path) -> memory.Memory:
    """Compile an export for the M4: what is stated is no less, and not much more."""
    stated = memory.measure(lay_out(program))
    export(program, folder / "net", random_inputs(program.input, 1, 0))
    for name in ("net_selftest.c", "net_vectors.c"):
        (folder / "net" / name).unlink()
    measured = measure_folder(folder / "net", folder / "net", folder / "objects")
    certainty = {"net_ensemble", "net_blrc_head"}
    together = len(program.members) > 1
    flash = sum(nbytes for name, nbytes in measured.code.items() if together or name not in certainty)
    assert flash <= stated.flash_bytes <= flash * (1 + SLACK[0]) + SLACK[1]
    if not together:
        extra = sum(measured.code[name] for name in certainty)
        assert extra <= stated.certainty_flash <= extra + 64
    stack = deepest(measured.graph, "net_predict" if together else "net_classify", pointers=0)
    assert stack <= stated.stack <= stack + 64
    return stated


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_what_the_compiler_makes(tmp_path: Path, seed: int) -> None:
    kind = ("uint8", "bits", "int8")[seed % 3]
    members = 1 if seed % 2 else 3
    program = random_program(seed, kind, layers=1 + seed, members=members)
    check_stated(gated(program, 60000) if seed % 4 == 0 else program, tmp_path)


@pytest.mark.parametrize(("seed", "longest"), [(1, 2), (9, 2), (3, 3), (13, 4), (19, 6)])
@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_stated_sizes_bound_strips_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, longest: int
) -> None:
    monkeypatch.setattr(strips, "plan", longest_strips)
    kind = ("uint8", "bits", "int8")[seed % 3]
    program = random_program(seed, kind, (14, 9, 3), layers=2 + seed % 5, members=1 + 2 * (seed % 2))
    assert max(end - first for first, end in lay_out(program).groups) == longest
    check_stated(program, tmp_path)


@pytest.mark.needs(*COMPILER, "arm-none-eabi-size")
def test_the_mnist_network_keeps_its_goals(tmp_path: Path) -> None:
    program = lower([sample(checkpoint.load(ROOT / "examples" / "mnist" / "mnist.pt"), running=True)])
    stated = check_stated(program, tmp_path)
    arena = next(part.nbytes for part in stated.ram if part.what == "arena")
    assert stated.flash_bytes <= 220_000
    assert arena <= 1228  # 1.2 KB
    assert stated.stack <= 512


def test_parts_add_up() -> None:
    layout = lay_out(random_program(3, "uint8", layers=4))
    found = memory.measure(layout)
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
    assert found.stack == max(found.step_stack.values())
    assert list(found.step_stack) == [step.op.name for step in layout.steps]


def test_an_ensemble_s_sums_count_instead_of_the_scores() -> None:
    found = memory.measure(lay_out(random_program(3, "uint8", members=2)))
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


def test_variants_cover_every_macro() -> None:
    assert all(variant.keys() == DEFAULTS.keys() for variant in VARIANTS)
    assert DEFAULTS in VARIANTS

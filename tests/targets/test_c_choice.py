"""Which kernels `--optimize` takes, and that `--ram` is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_exports import assert_equal, one_conv
from random_programs import random_inputs
from test_c_layout import mnist_shaped

from blrc.errors import BlrcError
from blrc.program import Window
from blrc.program_file import to_bytes
from blrc.targets.c import emit, memory
from blrc.targets.c.choice import choose, parse_optimize
from blrc.targets.c.header import read_layout
from blrc.targets.c.host import HostBuild
from blrc.targets.c.layout import CORTEX_M55, lay_out
from blrc.targets.options import EmitOptions
from blrc.vectors import record

SAME = Window((3, 3), padding=(1, 1, 1, 1))


def test_size_takes_no_memory_but_for_maps() -> None:
    program = mnist_shaped()
    assert choose(program, "size").arena == lay_out(program).arena
    assert not choose(program, "size", 10**6).sliced


def test_speed_takes_memory_where_it_pays() -> None:
    layout = choose(mnist_shaped(), "speed")
    assert layout.sliced == {"conv2"}
    assert [step.kernel for step in layout.steps] == ["conv_columns", "conv_slices", "dense", "scores_int8"]
    scratch = layout.steps[1].scratch
    assert scratch == 4 * 48 * 32
    assert layout.arena_bytes == lay_out(mnist_shaped()).arena_bytes + scratch


def test_the_ram_given_is_kept() -> None:
    program = mnist_shaped()
    least, most = (memory.measure(choose(program, how)).ram_bytes for how in ("size", "speed"))
    assert choose(program, "speed", most).sliced
    assert not choose(program, "speed", most - 1).sliced
    assert memory.measure(choose(program, "speed", most - 1)).ram_bytes == least


def test_a_cortex_m55_slices_in_quads_and_gathers_more() -> None:
    program = mnist_shaped()
    plain, fast = choose(program, "size", cpu=CORTEX_M55), choose(program, "speed", cpu=CORTEX_M55)
    assert [step.kernel for step in plain.steps] == [step.kernel for step in lay_out(program).steps]
    assert [step.kernel for step in fast.steps] == ["conv_eights", "conv_quads", "dense", "scores_int8"]
    assert fast.steps[1].scratch == 4 * choose(program, "speed").steps[1].scratch
    assert "112 of 128 lanes" in fast.steps[1].why
    most = memory.measure(fast).ram_bytes
    assert choose(program, "speed", most, CORTEX_M55).sliced == {"conv1", "conv2"}
    less = choose(program, "speed", most - 1, CORTEX_M55)
    assert less.sliced == {"conv1"}
    least = memory.measure(less)
    assert not choose(program, "speed", least.ram_bytes - 1, CORTEX_M55).sliced
    assert choose(program, "speed", cpu=CORTEX_M55, flash=least.flash_bytes - 1).sliced != {"conv1"}
    wide = one_conv((8, 8, 256), 16, SAME)
    assert (lay_out(wide).steps[0].kernel, lay_out(wide, cpu=CORTEX_M55).steps[0].kernel) == (
        "conv_rows",
        "conv_gather",
    )
    # Half of a quad's lanes lie below the map.
    assert not choose(wide, "speed", cpu=CORTEX_M55).sliced and choose(wide, "speed").sliced
    about = emit(program, EmitOptions("net", record(program, random_inputs(program, 1)), "0", cpu=CORTEX_M55)).about
    assert about["cpu"] == CORTEX_M55 and about["memory"] is not None


def test_regression_no_budget_of_flash_is_refused_that_a_choice_keeps() -> None:
    """What needs most memory was given up for flash, too: here the bits in quads, whose code is shorter than plain."""
    program = mnist_shaped()
    choices = [
        memory.measure(lay_out(program, sliced, cpu=CORTEX_M55)).flash_bytes
        for sliced in ([], ["conv1"], ["conv2"], ["conv1", "conv2"])
    ]
    assert len(set(choices)) == 4 and choices.index(min(choices)) == 2
    for flash in choices:
        assert memory.measure(choose(program, "speed", cpu=CORTEX_M55, flash=flash)).flash_bytes <= flash
    assert choose(program, "speed", cpu=CORTEX_M55, flash=choices[2]).sliced == {"conv2"}
    assert not choose(program, "speed", cpu=CORTEX_M55, flash=min(choices) - 1).sliced


def test_the_header_says_whose_kernels_they_are() -> None:
    program = mnist_shaped()
    text = '#define NET_CPU "cortex-m55" /* */\n#define NET_SLICED "2" /* ops */\n'
    assert read_layout(program, "net", text).step("conv2", "net").kernel == "conv_quads"


@pytest.mark.parametrize(
    ("shape", "outputs", "sliced"),
    [
        ((14, 14, 32), 16, True),
        ((14, 14, 32), 15, False),  # too few outputs share the tables
        ((32, 32, 8), 16, True),
        ((32, 17, 8), 16, False),  # too few lanes
        ((1, 8, 8), 16, False),  # one row, where a word has four
        ((3, 8, 8), 16, True),
        ((14, 14, 36), 16, False),  # not in eights
    ],
)
def test_where_it_pays(shape: tuple[int, int, int], outputs: int, sliced: bool) -> None:
    assert bool(choose(one_conv(shape, outputs, SAME), "speed").sliced) == sliced


def test_ram_takes_strips_that_save_little(tmp_path: Path) -> None:
    program = mnist_shaped()
    plain, least = choose(program, "size"), choose(program, "ram")
    assert (least.arena_bytes, plain.arena_bytes) == (616, 1176)
    assert memory.measure(least).ram_bytes < memory.measure(plain).ram_bytes
    raw = random_inputs(program, 2)
    options = EmitOptions("net", record(program, raw), "0.0", optimize="ram")
    for file, content in {**emit(program, options).files, "net.program.npz": to_bytes(program)}.items():
        (tmp_path / file).write_bytes(content)
    with HostBuild(tmp_path, "net") as c:
        assert c.layout.arena_bytes == 616
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])
        c.selftest()  # raises where it finds a difference


def test_the_header_says_what_was_chosen() -> None:
    program = mnist_shaped()
    assert read_layout(program, "net", '#define NET_SLICED "2" /* ops */\n').sliced == {"conv2"}
    assert read_layout(program, "net", '#define OTHER_SLICED "2"\n').sliced == frozenset()


def test_other_words_are_refused() -> None:
    assert [parse_optimize(word) for word in ("size", "speed", "ram")] == ["size", "speed", "ram"]
    with pytest.raises(BlrcError, match="--optimize fast: expected size, speed or ram"):
        parse_optimize("fast")

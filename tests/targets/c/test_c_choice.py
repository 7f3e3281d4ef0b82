"""Which kernels `--optimize` takes, and that `--ram` is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_exports import assert_equal, one_conv
from random_programs import random_inputs
from test_c_layout import mnist_shaped

from blrc.errors import BlrcError
from blrc.program.program import Window
from blrc.program.program_file import to_bytes
from blrc.program.vectors import record
from blrc.targets.c.build.host import HostBuild
from blrc.targets.c.emit import emit
from blrc.targets.c.layout.layout import CORTEX_M55, lay_out
from blrc.targets.c.options import parse_optimize
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import choose
from blrc.targets.c.text.header import read_layout
from blrc.targets.options import EmitOptions

SAME = Window((3, 3), padding=(1, 1, 1, 1))


def test_size_takes_no_memory_but_for_maps() -> None:
    program = mnist_shaped()
    assert choose(program, "size").arena == lay_out(program).arena
    assert not choose(program, "size", 10**6).sliced


def test_speed_takes_memory_where_it_pays() -> None:
    layout = choose(mnist_shaped(), "speed")
    assert layout.sliced == {"conv2", "dense3"}
    assert [step.kernel for step in layout.steps] == ["conv_columns", "conv_slices", "dense_columns", "scores_int8"]
    assert [step.scratch for step in layout.steps] == [0, 4 * (162 + 21 * 32), 4 * (3136 // 2 + 1 + 14), 0]
    assert layout.arena_bytes <= lay_out(mnist_shaped()).arena_bytes + max(step.scratch for step in layout.steps)


def test_the_ram_given_is_kept() -> None:
    program = mnist_shaped()
    least, most = (footprint.measure(choose(program, how)).ram_bytes for how in ("size", "speed"))
    assert choose(program, "speed", most).sliced == {"conv2", "dense3"}
    less = choose(program, "speed", most - 1)
    assert less.sliced == {"conv2"}  # the dense layer's list of inputs takes more
    some = footprint.measure(less).ram_bytes
    assert least < some < most
    assert not choose(program, "speed", some - 1).sliced
    assert footprint.measure(choose(program, "speed", some - 1)).ram_bytes == least


def test_a_cortex_m55_slices_in_quads_and_gathers_more() -> None:
    program = mnist_shaped()
    plain, fast = choose(program, "size", cpu=CORTEX_M55), choose(program, "speed", cpu=CORTEX_M55)
    assert [step.kernel for step in plain.steps] == [step.kernel for step in lay_out(program).steps]
    assert [step.kernel for step in fast.steps] == ["conv_eights", "conv_quads", "dense_quads", "scores_int8"]
    assert fast.steps[1].scratch == 4 * (648 + 78 * 32)
    assert "112 of 128 lanes" in fast.steps[1].why
    most = footprint.measure(fast).ram_bytes
    for sliced in ({"conv1", "conv2", "dense3"}, {"conv1", "dense3"}, {"conv1"}):
        kept = choose(program, "speed", most, CORTEX_M55)
        assert kept.sliced == sliced
        most = footprint.measure(kept).ram_bytes - 1
    assert not choose(program, "speed", most, CORTEX_M55).sliced
    wide = one_conv((8, 8, 256), 16, SAME)
    assert (lay_out(wide).steps[0].kernel, lay_out(wide, cpu=CORTEX_M55).steps[0].kernel) == (
        "conv_rows",
        "conv_gather",
    )
    # Half of a quad's lanes lie below the map, or three quarters.
    assert choose(wide, "speed", cpu=CORTEX_M55).sliced
    low = one_conv((4, 8, 256), 16, SAME)
    assert not choose(low, "speed", cpu=CORTEX_M55).sliced and choose(low, "speed").sliced
    about = emit(program, EmitOptions("net", record(program, random_inputs(program, 1)), "0", cpu=CORTEX_M55)).about
    assert about["cpu"] == CORTEX_M55 and about["memory"] is not None


def test_a_risc_v_with_vectors_takes_what_is_portable() -> None:
    """The portable C counts bits in its vectors: only the header says for which CPU the export was made."""
    program = mnist_shaped()
    vectors = record(program, random_inputs(program, 1))
    for optimize in ("size", "speed", "ram"):
        plain, named = (
            emit(program, EmitOptions("net", vectors, "0", optimize=optimize, cpu=cpu)).files
            for cpu in ("portable", "rv64gcv")
        )
        lines = named["net.h"].splitlines(keepends=True)
        told = [line for line in lines if line not in plain["net.h"].splitlines(keepends=True)]
        assert told == [b'#define NET_CPU "rv64gcv" /* whose kernels these are */\n']
        assert {**named, "net.h": b"".join(line for line in lines if line not in told)} == plain


def test_regression_no_budget_of_flash_is_refused_that_a_choice_keeps() -> None:
    """What needs most memory was given up for flash, too: here the dense layer, whose tables grow little."""
    program = mnist_shaped()
    choices = [
        footprint.measure(lay_out(program, sliced)).flash_bytes
        for sliced in ([], ["dense3"], ["conv2"], ["conv2", "dense3"])
    ]
    assert choices == sorted(choices) and len(set(choices)) == 4
    scratch = {step.op.name: step.scratch for step in choose(program, "speed").steps}
    assert scratch["dense3"] > scratch["conv2"]
    for flash in choices:
        assert footprint.measure(choose(program, "speed", flash=flash)).flash_bytes <= flash
    assert choose(program, "speed", flash=choices[3]).sliced == {"conv2", "dense3"}
    for flash in (choices[3] - 1, choices[1]):
        assert choose(program, "speed", flash=flash).sliced == {"dense3"}
    assert not choose(program, "speed", flash=choices[1] - 1).sliced


def test_the_header_says_whose_kernels_they_are() -> None:
    program = mnist_shaped()
    text = b'#define NET_CPU "cortex-m55" /* */\n#define NET_SLICED "2" /* ops */\n'
    assert read_layout(program, "net", text).step("conv2", "net").kernel == "conv_quads"


@pytest.mark.parametrize(
    ("shape", "outputs", "sliced"),
    [
        ((14, 14, 32), 16, True),
        ((14, 14, 32), 4, True),
        ((14, 14, 32), 3, False),  # too few outputs share the taps
        ((32, 32, 8), 16, True),
        ((32, 17, 8), 16, True),
        ((1, 8, 8), 16, True),  # one row, where a word has four
        ((1, 7, 8), 16, False),  # too few lanes
        ((4, 33, 8), 16, False),  # wider than a word
        ((3, 8, 8), 16, True),
        ((14, 14, 3), 16, True),
    ],
)
def test_where_it_pays(shape: tuple[int, int, int], outputs: int, sliced: bool) -> None:
    assert bool(choose(one_conv(shape, outputs, SAME), "speed").sliced) == sliced


def test_ram_takes_strips_that_save_little(tmp_path: Path) -> None:
    program = mnist_shaped()
    plain, least = choose(program, "size"), choose(program, "ram")
    assert (least.arena_bytes, plain.arena_bytes) == (616, 1176)
    assert footprint.measure(least).ram_bytes < footprint.measure(plain).ram_bytes
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
    assert read_layout(program, "net", b'#define NET_SLICED "2" /* ops */\n').sliced == {"conv2"}
    assert read_layout(program, "net", b'#define OTHER_SLICED "2"\n').sliced == frozenset()


def test_other_words_are_refused() -> None:
    assert [parse_optimize(word) for word in ("size", "speed", "ram")] == ["size", "speed", "ram"]
    with pytest.raises(BlrcError, match="--optimize fast: expected size, speed or ram"):
        parse_optimize("fast")

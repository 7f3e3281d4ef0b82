"""Convolutions that run together row by row: the same values at every layer, from buffers of a few rows."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from by_night import first
from c_exports import assert_equal, export, longest_strips
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import Builder, random_inputs, random_program

from blrc.program.program import Conv, Value, Window
from blrc.targets.c.build import compiler
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.layout import strips
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.layout.strips import Work, placed, plan, rows_needed
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import Machine
from blrc.targets.c.runtime_files import runtime_dir, runtime_files
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import Optimize

# The order of rows, and what each call sees: the compiled scheduler against taps that are counted one by one.


class CWindow(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("ky", "kx", "sy", "sx", "py", "px", "dy", "dx")]


class CConv(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int32) for name in ("in_height", "in_width", "in_channels", "map_height", "map_width")],
        *[(name, ctypes.c_int32) for name in ("out_height", "out_width", "out_channels", "groups", "rows")],
        ("window", CWindow),
        ("pool", CWindow),
    ]


class CStrip(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.POINTER(CConv)),
        ("y", ctypes.c_void_p),
        *[(name, ctypes.c_int32) for name in ("capacity", "first", "done")],
    ]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("strips") / "strips.so"
    source = runtime_files()["blrc_strips.c"]
    include = runtime_dir() / "include"
    flags = ("-std=c99", "-O1", "-shared", "-fPIC", *STRICT, f"-I{include}")
    compiler.run_tool([*compiler.find_compiler(), *flags, str(source), "-o", str(out)], "compiling blrc_strips.c")
    return ctypes.CDLL(str(out))


def columns_of_windows(most_padding: int) -> st.SearchStrategy[Window]:
    """Windows one pixel wide, with padding of up to so many kernels, strides and dilations larger than the kernel."""
    return st.builds(
        lambda kernel, stride, above, below, dilation: Window(
            (kernel, 1), (stride, 1), (min(above, most_padding * kernel), 0, min(below, most_padding * kernel), 0),
            (dilation, 1),
        ),
        *(st.integers(1, 4), st.integers(1, 6), st.integers(0, 8), st.integers(0, 8), st.integers(1, 5)),
    )  # fmt: skip


windows = columns_of_windows(2)
pools = st.none() | columns_of_windows(1)


@st.composite
def chains(draw: st.DrawFn) -> list[Conv]:
    """Convolutions one behind the other, with maps one pixel wide: any heights, paddings, strides, dilations."""
    height = draw(st.integers(1, 14))
    found: list[Conv] = []
    for i in range(draw(st.integers(1, 4))):
        window, pool = draw(windows), draw(pools)
        unpooled = window.output(height, 1)[0]
        if unpooled < 1:
            window, unpooled = Window((1, 1)), height
        if pool is not None and pool.output(unpooled, 1)[0] < 1:
            pool = None
        y = unpooled if pool is None else pool.output(unpooled, 1)[0]
        x = Value(f"map{i}", "bits", (height, 1, 1))
        out = Value(f"map{i + 1}", "bits", (y, 1, 1))
        found.append(Conv(f"conv{i}", x, out, "w", "t", window, 1, pool))
        height = y
    return found


def c_window(window: Window) -> CWindow:
    return CWindow(*window.kernel, *window.stride, *window.padding[:2], *window.dilation)


def c_conv(op: Conv) -> CConv:
    sizes = (*op.x.shape, *op.unpooled[:2], *op.y.shape, 1, 1)
    return CConv(*sizes, c_window(op.window), c_window(op.pool or Window((1, 1))))


def taps(conv: CConv, row: int, first: int) -> dict[tuple[int, int], int]:
    """(tap of the pool, tap of the kernel) to the row of the whole input that it sees, where it lies inside."""
    seen = {}
    for t in range(conv.pool.ky):
        m = row * conv.pool.sy - conv.pool.py + t * conv.pool.dy
        if 0 <= m < conv.map_height:
            for k in range(conv.window.ky):
                at = m * conv.window.sy - conv.window.py + k * conv.window.dy
                if 0 <= at < conv.in_height:
                    seen[t, k] = first + at
    return seen


@given(chains())
def test_every_row_is_computed_once_from_the_rows_it_needs(scheduler: ctypes.CDLL, ops: list[Conv]) -> None:
    shapes = [c_conv(op) for op in ops]
    kept = [min(rows_needed(reader), reader.x.shape[0]) for reader in ops[1:]] + [ops[-1].y.shape[0]]
    buffers = [np.full(rows, -1, np.int32) for rows in kept]
    source = np.arange(ops[0].x.shape[0], dtype=np.int32)  # a row holds its number
    layers = (CStrip * len(ops))(
        *(
            CStrip(ctypes.pointer(shape), buffer.ctypes.data, len(buffer), 0, 0)
            for shape, buffer in zip(shapes, buffers, strict=True)
        )
    )
    part, start, to = CConv(), ctypes.c_void_p(), ctypes.c_void_p()
    done = [0] * len(ops)
    references = (ctypes.byref(part), ctypes.byref(start), ctypes.byref(to))
    while True:
        layer = scheduler.blrc_strips_next(layers, len(ops), source.ctypes.data_as(ctypes.c_void_p), 4, *references)
        if layer < 0:
            break
        row = done[layer]
        assert row < ops[layer].y.shape[0]
        below = source if layer == 0 else buffers[layer - 1]
        offset = ((start.value or 0) - below.ctypes.data) // 4
        needed = taps(shapes[layer], row, 0)
        if part.in_height:
            assert offset >= 0 and offset + part.in_height <= len(below)
            first = int(below[offset])
            assert below[offset : offset + part.in_height].tolist() == list(range(first, first + part.in_height))
            assert layer == 0 or first + part.in_height <= done[layer - 1]
            assert taps(part, 0, first) == needed
        else:
            assert not needed
        assert part.out_height == 1
        assert part.window.py >= 0 and part.pool.py >= 0, "kernels take remainders of a padding"
        place = ((to.value or 0) - buffers[layer].ctypes.data) // 4
        assert 0 <= place < len(buffers[layer])
        buffers[layer][place] = row
        done[layer] += 1
    assert done == [op.y.shape[0] for op in ops]
    assert buffers[-1].tolist() == list(range(len(buffers[-1])))


@given(chains())
def test_rows_kept_are_the_most_that_any_row_needs(ops: list[Conv]) -> None:
    for op in ops:
        spans = []
        for row in range(op.y.shape[0]):
            rows = taps(c_conv(op), row, 0).values()
            spans.append(max(rows) - min(rows) + 1 if rows else 1)
        # A window may see nothing where it begins; what it has passed need not be kept.
        window, pool = op.window, op.pool or Window((1, 1))
        reach = (pool.span[0] - 1) * window.stride[0] + window.span[0]
        assert max(spans) <= rows_needed(op) <= max(1, min(op.x.shape[0], reach))


# Whole networks.


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips wherever they are possible."""
    monkeypatch.setattr(strips, "plan", longest_strips)


def check_in_strips(folder: Path, seed: int, kind: str, members: int = 1, **flags: object) -> int:
    """All values of a random network, whole and step by step, and the self-test; the length of its longest group."""
    program = random_program(seed, kind, (11 + seed % 4, 9, 3), layers=5, members=members)
    raw = random_inputs(program, 20)
    with HostBuild(export(program, folder, raw[:3]), "net", **flags) as c:  # type: ignore[arg-type]
        stored = [step.y.name for step in c.layout.steps]
        for member in range(members):
            found = c.run(raw, member)
            assert_equal(program, found, raw, stored, member)
            for step in c.layout.steps:
                alone = c.run_op(step.op.name, found[step.x.name], member)
                np.testing.assert_array_equal(alone, found[step.y.name], err_msg=step.op.name)
        assert "equal" in c.selftest()
        assert c.answers(raw).label.shape == (20,)
        return max(end - first for first, end in c.layout.groups)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_random_networks_in_strips(tmp_path: Path, always: None, kind: str) -> None:
    lengths = [check_in_strips(tmp_path / str(seed), seed, kind, members=1 + seed % 2) for seed in (0, 1)]
    assert max(lengths) >= 2


@pytest.mark.parametrize("kind", [pytest.param("uint8", marks=pytest.mark.nightly), "bits"])
def test_random_networks_in_strips_under_sanitizers(tmp_path: Path, always: None, kind: str) -> None:
    assert check_in_strips(tmp_path, 10, kind, flags=SANITIZE) >= 2


@pytest.mark.nightly
@pytest.mark.needs("g++")
def test_strips_as_cplusplus(tmp_path: Path, always: None) -> None:
    assert check_in_strips(tmp_path, 3, "uint8", cc="g++", cplusplus=True, flags=("-O2", *STRICT)) >= 2


@pytest.mark.nightly
@pytest.mark.parametrize(
    "emulated",
    ["cortex-m0", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("cortex-m4", "s390x"))],
    indirect=True,
)
def test_strips_on_other_processors(tmp_path: Path, always: None, emulated: Machine) -> None:
    program = random_program(1, "uint8", (12, 9, 3), layers=3)
    raw = random_inputs(program, 5)
    with EmulatedBuild(export(program, tmp_path, raw[:3]), "net", emulated) as c:
        assert c.layout.rows
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])
        assert c.selftest() == 0


@pytest.mark.parametrize("optimize", [pytest.param("size", marks=pytest.mark.nightly), "ram"])
@pytest.mark.parametrize("padding", first(1, [(5, 1, 6, 0), (4, 0, 4, 0), (0, 4, 6, 6)]))
def test_columns_in_strips_of_padding_larger_than_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimize: Optimize, padding: tuple[int, ...]
) -> None:
    """The first strips' padding was -1 where a window lay wholly below the map: 128 bytes were written below an array
    on the stack."""
    builder = Builder(Value("input", "uint8", (9, 24, 1)), np.random.default_rng(0), members=1)
    builder.encode()
    builder.conv("first", Window((3, 3), padding=padding), None, groups=1, per_group=65)  # type: ignore[arg-type]
    builder.conv("second", Window((3, 3), padding=(1, 1, 1, 1)), None, groups=1, per_group=65)
    program = builder.finish(np.int8)
    raw = random_inputs(program, 8)
    with HostBuild(export(program, tmp_path, raw[:1], optimize=optimize), "net", SANITIZE) as c:
        assert c.step("first").kernel == "conv_columns" and c.layout.in_strips(c.step("first"))
        assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])


# Planning.


def layer(name: str, x: Value, channels: int, pool: bool) -> Work:
    height, width = (x.shape[0] // 2, x.shape[1] // 2) if pool else x.shape[:2]
    y = Value(name, "bits", (height, width, channels))
    same = Window((3, 3), padding=(1, 1, 1, 1))
    half = Window((2, 2), (2, 2)) if pool else None
    return Work(x, y, Conv(name, x, y, "w", "t", same, 1, half))


def cifar10() -> list[Work]:
    at = Value("input", "uint8", (32, 32, 3))
    work = []
    for i, channels in enumerate((128, 128, 256, 256, 512, 512)):
        work.append(layer(f"conv{i + 1}", at, channels, i % 2 == 1))
        at = work[-1].y
    return [*work, Work(at, Value("dense", "bits", (1, 1, 1024)))]


def test_the_cifar10_network_takes_less_than_8_kb() -> None:
    work = cifar10()
    whole = placed(work, [(i, i + 1) for i in range(len(work))], 4)
    assert whole.arena.size == 20 * 1024
    found = plan(work, 4)
    # Rings of 4, 3 and 4 rows and the fourth map: 2048 + 768 + 2048 + 2048; then two maps as they are.
    assert found.groups[:2] == ((0, 4), (4, 5))
    assert found.rows == {"conv1": 4, "conv2": 3, "conv3": 4}
    assert found.arena.size == 6912 <= 8 * 1024


@pytest.mark.parametrize("saved", [-4, 0, 4])
def test_strips_have_to_pay(monkeypatch: pytest.MonkeyPatch, saved: int) -> None:
    monkeypatch.setattr(strips, "PAYS", 20 * 1024 - 6912 - saved)
    assert bool(plan(cifar10(), 4).rows) == (saved >= 0)


def test_a_map_that_two_layers_read_is_kept_whole() -> None:
    work = cifar10()
    fork = Work(work[3].y, Value("other", "bits", (1, 1, 32)))
    found = plan([*work, fork], 4)
    assert "conv4" not in found.rows and {"conv1", "conv3"} <= found.rows.keys()


@settings(max_examples=25)
@given(st.integers(0, 300), st.sampled_from(["uint8", "int8", "bits"]))
def test_planned_strips_are_no_larger_than_any_single_choice(seed: int, kind: str) -> None:
    program = random_program(seed, kind, (13, 12, 33), layers=4)
    layout = lay_out(program)
    assert [i for first, end in layout.groups for i in range(first, end)] == list(range(len(layout.steps)))
    for value, rows in layout.rows.items():
        reader = next(step.op for step in layout.steps if step.x.name == value)
        assert isinstance(reader, Conv) and rows == rows_needed(reader)
    stated = footprint.measure(layout)
    assert {part.layer: part.nbytes for part in stated.slots} == {
        step.op.name: layout.slot_bytes(step.y) for step in layout.steps
    }

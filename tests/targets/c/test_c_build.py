"""Compilers and the host's driver: what they report when something is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_exports import export, one_conv
from random_programs import random_inputs

from blrc.errors import BlrcError
from blrc.program.program import Program, Window
from blrc.targets.c.build import compiler, driver
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.text.runtime import PART
from blrc.targets.c.text.symbols import name_all


@pytest.fixture(scope="module")
def program() -> Program:
    return one_conv((3, 3, 4), 5, Window((2, 2)))


@pytest.fixture
def folder(tmp_path: Path, program: Program) -> Path:
    return export(program, tmp_path / "net", random_inputs(program, 2))


def compiler_in(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def test_the_compiler_is_cc_then_gcc_then_clang(tmp_path: Path) -> None:
    path = {"PATH": str(tmp_path)}
    with pytest.raises(BlrcError, match=r"no C compiler found .* set CC"):
        compiler.find_compiler(environment=path)
    for name in ("clang", "gcc", "cc"):
        compiler_in(tmp_path, name)
        assert compiler.find_compiler(environment=path) == (name,)


def test_the_user_s_compiler_comes_first(tmp_path: Path) -> None:
    compiler_in(tmp_path, "cc")
    compiler_in(tmp_path, "mycc")
    environment = {"PATH": str(tmp_path), "CC": "mycc -m32 '-DX=a b'"}
    assert compiler.find_compiler(environment=environment) == ("mycc", "-m32", "-DX=a b")
    assert compiler.find_compiler("cc -O", environment) == ("cc", "-O")
    with pytest.raises(BlrcError, match="'nocc' not found"):
        compiler.find_compiler("nocc", environment)


def test_a_compiler_s_complaint_is_in_the_message(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int f(void) { return undeclared; }\n")
    with pytest.raises(BlrcError, match=r"compiling bad\.c failed[^$]*undeclared"):
        compiler.compile_object(compiler.find_compiler(), (), tmp_path / "bad.c", tmp_path / "bad.o", tmp_path)


def test_a_tool_that_is_missing_or_hangs_is_named() -> None:
    with pytest.raises(BlrcError, match="measuring: no-such-tool not found"):
        compiler.run_tool(["no-such-tool"], "measuring")
    with pytest.raises(BlrcError, match="waiting: sleep did not finish"):
        compiler.run_tool(["sleep", "60"], "waiting", timeout=0.1)


def test_a_tool_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    """Only a missing one was; a file that may not be run, or is no program, ended in a traceback."""
    (tmp_path / "plain").write_text("")
    (tmp_path / "empty").write_text("\0\0")
    (tmp_path / "empty").chmod(0o755)
    for tool, reason in (("plain", "Permission denied"), ("empty", "Exec format error")):
        with pytest.raises(BlrcError, match=f"measuring: cannot start .*{tool}: {reason}"):
            compiler.run_tool([str(tmp_path / tool)], "measuring")


def test_a_folder_without_the_model_s_c_is_named(folder: Path) -> None:
    with pytest.raises(BlrcError, match=r"has no other\.c; export"):
        compiler.sources(folder, "other")


def test_sources_leave_out_the_selftest(folder: Path) -> None:
    names = [path.name for path in compiler.sources(folder, "net")]
    assert names == ["net.c", "net_blrc.c", "net_weights.c"]


def test_sizes_are_those_of_the_object(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("const char table[1000] = {1}; int data[30] = {1}; int zero[50];\n")
    object_file = compiler.compile_object(compiler.find_compiler(), (), tmp_path / "a.c", tmp_path / "a.o", tmp_path)
    sizes = compiler.measure([object_file])["a.o"]
    assert 1000 <= sizes.text < 1100
    assert (sizes.data, sizes.bss) == (120, 200)


def test_an_unbounded_stack_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.c").write_text("int g(int *); int f(int n) { int a[n]; return g(a); }\n")
    flags = ("-fstack-usage",)
    compiler.compile_object(compiler.find_compiler("gcc"), flags, tmp_path / "v.c", tmp_path / "v.o", tmp_path)
    with pytest.raises(BlrcError, match="stack is not bounded"):
        compiler.stack_usage(tmp_path)


def test_the_stack_bound_adds_what_can_stand_on_each_other() -> None:
    usage = {
        "net": {"net_classify": 1, "net_run": 10, "net_op_a": 100, "net_op_b": 200}
        | {"net_predict": 50, "net_add": 30, "net_result": 20},
        "net_blrc": {
            "net_blrc_dense": 1000,
            "net_blrc_conv_taps": 2000,
            "net_blrc_pixel.part.0": 3000,
            "net_blrc_inside": 4000,
            "net_blrc_run": 10000,
        },
        "net_selftest": {"net_selftest": 100000},
    }
    texts = {
        "blrc_window.h": "static inline net_blrc_span net_blrc_inside(int32_t step,\n    int32_t size)\n{\n}\n",
        "blrc_dense.c": "void net_blrc_dense(int32_t words)\n{\n    net_blrc_run(1);\n}\n",
        "blrc_conv_taps.c": "static int net_blrc_pixel(void)\n{\n}\n\nvoid net_blrc_conv_taps(void)\n{\n}\n",
        "blrc_run.c": "void net_blrc_run(int32_t words)\n{\n}\n",
    }
    runtime = "".join(PART.format(file=file) + content for file, content in texts.items())
    assert compiler.stack_bound(usage, "net", runtime) == 1 + 10 + (50 + 30) + 200 + (2000 + 3000 + 4000) + 10000


def test_a_sanitizer_s_report_becomes_the_message(folder: Path, program: Program) -> None:
    source = folder / "net_blrc.c"
    # Reads one score too many.
    source.write_text(source.read_text().replace("i < count", "i <= count", 1))
    with HostBuild(folder, "net", SANITIZE) as c, pytest.raises(BlrcError, match="AddressSanitizer"):
        c.run(random_inputs(program, 2))


def test_a_program_that_hangs_is_stopped(folder: Path, program: Program) -> None:
    source = folder / "net_blrc.c"
    source.write_text(source.read_text().replace("++i", "i += 0", 1))
    with HostBuild(folder, "net", timeout=0.5) as c, pytest.raises(BlrcError, match="did not finish"):
        c.run(random_inputs(program, 2))


def test_a_set_tail_bit_is_an_error(folder: Path, program: Program) -> None:
    rows = folder / "net_blrc.c"
    rows.write_text(rows.read_text().replace("*to |= ", "*to |= 0x80000000u | "))
    with HostBuild(folder, "net") as c, pytest.raises(BlrcError, match="unused bit of 'out'"):
        c.run(random_inputs(program, 2))


def test_wrong_input_and_wrong_op_are_named(folder: Path, program: Program) -> None:
    with HostBuild(folder, "net") as c:
        with pytest.raises(BlrcError, match="'input' has shape"):
            c.run(np.zeros((2, 3, 3, 5), np.bool_))
        with pytest.raises(BlrcError, match="no step 'pool'"):
            c.run_op("pool", np.zeros((1, 1, 1, 1), np.bool_))
        with pytest.raises(BlrcError, match=r"'out' has shape \(9, 9, 9\), expected \(2, 2, 5\)"):
            c.run_op("scores", np.zeros((1, 9, 9, 9), np.bool_))


def test_the_folder_is_removed_when_done(folder: Path) -> None:
    with HostBuild(folder, "net") as c:
        kept = c.build_folder
        assert (kept / "driver").is_file()
    assert not kept.exists()
    (folder / "net.c").write_text("this is not C")
    with pytest.raises(BlrcError, match=r"compiling driver\.c failed"):
        HostBuild(folder, "net")


def test_flash_and_ram_are_measured(folder: Path) -> None:
    with HostBuild(folder, "net", ("-Os",)) as c:
        tables = sum(step.flash for step in c.layout.steps)
        assert tables < c.flash < tables + 20_000
        assert c.ram == 16 + 8  # 2 x 2 pixels of one word, and the scores of an ensemble's member


def test_time_is_measured_for_every_step(folder: Path, program: Program) -> None:
    with HostBuild(folder, "net") as c:
        by_op, whole = c.time(random_inputs(program, 1), 100)
        assert list(by_op) == ["conv", "scores"]
        assert whole > 0 and all(ns > 0 for ns in by_op.values())


def test_no_compiler_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BlrcError, match="no C compiler found"):
        HostBuild(folder, "net")


def test_the_driver_s_core_knows_no_files(program: Program) -> None:
    core = driver.core(name_all(lay_out(program), "net", "0" * 64))
    assert "include" in core and "stdio" not in core and "FILE" not in core

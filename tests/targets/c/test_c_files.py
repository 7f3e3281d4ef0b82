"""The exported files themselves: what is in them, what they refuse, what they need, that they are the same again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from by_night import first
from c_exports import export, one_conv
from c_golden import FOLDER, golden_files
from random_programs import random_inputs, random_program

from blrc.errors import BlrcError
from blrc.program.program import Program, Window
from blrc.program.vectors import Vectors, record
from blrc.targets.c.build import compiler as build
from blrc.targets.c.emit import emit
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.text import tables
from blrc.targets.c.text.runtime import parts, prefixed, runtime_sources
from blrc.targets.c.text.symbols import name_all
from blrc.targets.options import EmitOptions

ALLOWED = {"memcpy", "memset"}  # and libgcc's, which start with two underscores


def options(program: Program, name: str = "net", count: int = 3) -> EmitOptions:
    return EmitOptions(name, record(program, random_inputs(program, count)), "0.0")


@pytest.fixture(scope="module")
def program() -> Program:
    return random_program(3, "uint8", shape=(9, 8, 3))


@pytest.fixture
def folder(tmp_path: Path, program: Program) -> Path:
    return export(program, tmp_path / "net", random_inputs(program, 3))


def compile_all(folder: Path, out: Path, flags: tuple[str, ...] = ("-O2",), name: str = "net") -> list[Path]:
    out.mkdir(exist_ok=True)
    sources = [*build.sources(folder, name), folder / f"{name}_selftest.c"]
    return [build.compile_object(build.find_compiler(), flags, s, out / f"{s.stem}.o", folder) for s in sources]


def test_golden_files() -> None:
    files = golden_files()
    assert sorted(files) == sorted(path.name for path in FOLDER.iterdir())
    for name, content in files.items():
        assert content == (FOLDER / name).read_bytes(), f"{name} changed; see c_golden.py"


@pytest.mark.nightly
def test_the_same_bytes_in_another_process(program: Program) -> None:
    # Another hash seed would show the order of a set.
    code = (
        "import hashlib; from random_programs import *; from blrc.targets.c.emit import emit\n"
        "from test_c_files import options\n"
        "p = random_program(3, 'uint8', shape=(9, 8, 3))\n"
        "e = emit(p, options(p)); print(hashlib.sha256(repr((e.files, e.about)).encode()).hexdigest())"
    )
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (here, here.parent, here.parents[1])))
    shas = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shas) == 1


@pytest.mark.nightly
def test_objects_need_only_what_a_compiler_itself_calls(folder: Path, tmp_path: Path) -> None:
    objects = compile_all(folder, tmp_path / "o")
    listing = subprocess.run(["nm", "-P", *objects], capture_output=True, text=True, check=True).stdout
    defined, undefined = set(), set()
    for line in listing.splitlines():
        if line.endswith(":") or line.startswith("."):  # a file's name; a label of the compiler's own
            continue
        symbol, kind = line.split()[:2]
        (undefined if kind in "Uw" else defined).add(symbol)
        assert kind not in "BbDdC", f"{symbol} is a mutable global"
    assert {"net_classify", "net_observe", "net_selftest"} <= defined
    assert all(symbol.startswith("net_") for symbol in defined)
    foreign = {s for s in undefined - defined if s not in ALLOWED and not s.startswith("__")}
    assert not foreign


def test_every_macro_starts_with_the_name(folder: Path) -> None:
    def macros(text: str) -> set[str]:
        command = ["cc", "-std=c99", "-dM", "-E", f"-I{folder}", "-x", "c", "-"]
        out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
        return {line.split()[1].split("(")[0] for line in out.splitlines()}

    headers = sorted(path.name for path in folder.glob("*.h"))
    ours = macros("".join(f'#include "{h}"\n' for h in headers)) - macros("#include <stdint.h>\n")
    assert {"NET_INPUT_SIZE", "NET_DIGEST", "NET_ARENA_SIZE", "NET_CLASSES", "NET_BLRC_ABI"} <= ours
    assert all(macro.startswith("NET_") for macro in ours)
    in_sources = {m for f in folder.glob("*.c") for m in re.findall(r"^#define (\w+)", f.read_text(), re.MULTILINE)}
    assert all(macro.startswith("NET_") for macro in in_sources)


@pytest.mark.parametrize("cplusplus", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_two_models_link_into_one_program(tmp_path: Path, cplusplus: bool) -> None:
    main, objects = [], []
    compiler = ("g++",) if cplusplus else build.find_compiler()
    for i, name in enumerate(("one", "other")):
        program = random_program(70 + i, ("uint8", "bits")[i])
        folder = export(program, tmp_path / name, random_inputs(program, 3), name)
        sources = [*build.sources(folder, name), folder / f"{name}_selftest.c"]
        objects += [
            build.compile_object(compiler, ("-O0",), s, tmp_path / f"{s.stem}.o", folder, cplusplus) for s in sources
        ]
        main.append(f'#include "{name}/{name}.h"\n')
    main.append(
        "static uint32_t arena[(ONE_ARENA_SIZE + OTHER_ARENA_SIZE + 3) / 4];\n"
        "int main(void) { return one_selftest(arena) != 0 || other_selftest(arena) != 0; }\n"
    )
    (tmp_path / "main.c").write_text("".join(main))
    source = tmp_path / "main.c"
    objects.append(build.compile_object(compiler, (), source, tmp_path / "main.o", tmp_path, cplusplus))
    binary = build.link(compiler, (), objects, tmp_path / "both")
    assert subprocess.run([binary], timeout=60, check=False).returncode == 0


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "-C", folder, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.needs("make")
def test_the_makefile_builds_the_library_and_runs_the_selftest(folder: Path, program: Program) -> None:
    done = make(folder, "all", "selftest", "CFLAGS=-O1 -Werror")
    assert (done.returncode, done.stderr) == (0, "")
    steps = len(lay_out(program).steps)
    assert done.stdout == f"selftest: inputs 3, members 1, steps {steps}, and what they say together: equal\n"
    assert (folder / "build" / "libnet.a").is_file()


@pytest.mark.needs("make")
@pytest.mark.parametrize("step", first(1, [-1, 0]))
def test_the_selftest_names_the_first_step_that_differs(folder: Path, program: Program, step: int) -> None:
    layout = lay_out(program)
    chosen = layout.steps[step]
    symbols = name_all(layout, "net", "0" * 64)
    path = folder / "net_weights.c"
    table = next(t for t in chosen.tables if t.role in ("thresholds", "bias"))
    text = path.read_text()
    start = text.index(f"{symbols.table(chosen, table)}[", text.index("NET_BLRC_STORED"))
    head, body = text[:start], text[start:]
    # All thresholds to "never" (or biases to 0): the step's output cannot stay as recorded.
    value = "0" if table.role == "bias" else "2147483647"
    body = re.sub(r"\{.*?\};", "{" + ", ".join([value] * len(table.arrays[0])) + "};", body, count=1, flags=re.DOTALL)
    path.write_text(head + body)
    done = make(folder, "selftest")
    assert done.returncode != 0
    index = layout.steps.index(chosen)
    assert f"selftest: member 0, step {index} differs" in done.stdout


def test_files_of_two_exports_do_not_compile_together(folder: Path, tmp_path: Path, program: Program) -> None:
    text = (folder / "net.h").read_text()
    (folder / "net.h").write_text(re.sub(r"(DIGEST_HEAD 0x).", r"\g<1>X", text).replace("0xX", "0x0"))
    if (folder / "net.h").read_text() == text:
        pytest.fail("the digest was not changed")
    for source in ("net.c", "net_weights.c", "net_selftest.c"):
        with pytest.raises(BlrcError, match="run blrc export again"):
            build.compile_object(build.find_compiler(), (), folder / source, tmp_path / "x.o", folder)


def test_another_runtime_does_not_compile(folder: Path, tmp_path: Path) -> None:
    other_program = one_conv((1, 1, 40), 5, Window((1, 1)))
    other = emit(other_program, options(other_program)).files["net_blrc.h"]
    assert other != (folder / "net_blrc.h").read_bytes()
    (folder / "net_blrc.h").write_bytes(other)
    for source in ("net.c", "net_blrc.c"):
        with pytest.raises(BlrcError, match="files of two exports: run blrc export again"):
            build.compile_object(build.find_compiler(), (), folder / source, tmp_path / "x.o", folder)


MISUSE_MAIN = """
#include "net.h"
int main(void)
{
    static uint32_t arena[(NET_ARENA_SIZE + 7) / 4];
    static uint8_t input[NET_INPUT_SIZE];
    static int32_t scores[NET_CLASSES];
    if (net_classify(0, arena, scores) != NET_ERROR_NULL) return 1;
    if (net_classify(input, 0, scores) != NET_ERROR_NULL) return 2;
    if (net_classify(input, arena, 0) != NET_ERROR_NULL) return 3;
    if (net_classify(input, (char *)arena + 1, scores) != NET_ERROR_ALIGN) return 4;
    if (net_classify(input, arena, scores) < 0) return 5;
    return 0;
}
"""


def test_misuse_is_an_error_code(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MISUSE_MAIN)
    compiler = build.find_compiler()
    main = build.compile_object(compiler, (), tmp_path / "main.c", tmp_path / "main.o", folder)
    binary = build.link(compiler, (), [*compile_all(folder, tmp_path / "o"), main], tmp_path / "main")
    assert subprocess.run([binary], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("level", first(1, ["-Os", "-O2"]))
def test_the_stack_is_bounded(folder: Path, tmp_path: Path, level: str) -> None:
    compile_all(folder, tmp_path / "o", (level, "-fstack-usage"))
    usage = build.stack_usage(tmp_path / "o")
    assert "net_classify" in usage["net"]
    runtime = (folder / "net_blrc.c").read_text()
    whole = build.stack_bound(usage, "net", runtime)
    for call in build.CERTAINTY:
        usage["net"].pop(f"net_{call}", None)
    assert whole <= 1152
    # A 64-bit host saves more and wider registers than the small CPUs that have 512 bytes in all.
    assert 0 < build.stack_bound(usage, "net", runtime) <= 1024


def test_large_tables_are_split_and_announced(program: Program) -> None:
    symbols = name_all(lay_out(program), "net", "0" * 64)
    whole = tables.table_files(symbols, "0.0")
    assert list(whole) == ["net_weights.c"]
    assert "Large" not in whole["net_weights.c"]
    parts = tables.table_files(symbols, "0.0", limit=2000)
    assert list(parts)[:3] == ["net_weights.c", "net_weights_2.c", "net_weights_3.c"]
    definition = re.compile(r"^NET_BLRC_STORED const \w+ (\w+)\[", re.MULTILINE)
    assert len(definition.findall(whole["net_weights.c"])) >= 3
    assert definition.findall("".join(parts.values())) == definition.findall(whole["net_weights.c"])


def test_a_large_table_warns_of_its_size(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WARN_FROM", 1000)
    symbols = name_all(lay_out(program), "net", "0" * 64)
    assert re.search(r"Large: \d+\.\d MiB of text", tables.table_files(symbols, "0.0")["net_weights.c"])


def test_names_of_ops_cannot_break_the_source(tmp_path: Path) -> None:
    program = one_conv((4, 4, 2), 3, Window((3, 3)))
    conv, scores = program.ops
    evil = 'a */ int x; /* ??/ \\\n"1ü'
    y = replace(conv.y, name=evil)  # type: ignore[type-var]
    broken = replace(program, ops=(replace(conv, name=evil, y=y), replace(scores, name="int", x=y)))
    folder = export(broken, tmp_path, random_inputs(broken, 2))
    objects = compile_all(folder, tmp_path / "o")
    assert len(objects) == 4


def test_runtime_files_are_renamed_whole() -> None:
    text = '#include "blrc.h"\n#include "blrc_dot.h"\n#define BLRC_X blrc_x /* blrc runtime, myblrc_y */\n'
    assert prefixed(text, "Net1", ["blrc.h"]) == (
        '#include "Net1_blrc.h"\n#include "blrc_dot.h"\n#define NET1_BLRC_X Net1_blrc_x /* blrc runtime, myblrc_y */\n'
    )


def test_only_the_kernels_that_are_used_are_shipped() -> None:
    program = one_conv((1, 1, 40), 5, Window((1, 1)))
    files = emit(program, options(program)).files
    shipped = [file for file in parts(files["net_blrc.c"].decode()) if file.endswith(".c")]
    assert shipped == [f"blrc_{file}.c" for file in ("argmax", "dense", "digest", "head", "run", "scores_int8")]


def test_the_manifest_s_part_adds_up(program: Program) -> None:
    emitted = emit(program, options(program))
    about = json.loads(json.dumps(emitted.about))
    layers = about["layers"]
    assert [layer["op"] for layer in layers] == [op.name for op in program.ops if op.name != "encode"]
    assert layers[0]["fused"] == ["encode"]
    assert about["table_bytes"] == sum(layer["flash_bytes"] for layer in layers)
    assert all(sum(layer["tables"].values()) == layer["flash_bytes"] for layer in layers)
    assert f"#define NET_ARENA_SIZE {about['arena']['bytes']} " in emitted.files["net.h"].decode()


def test_table_bytes_are_what_the_compiler_makes_of_them(folder: Path, tmp_path: Path, program: Program) -> None:
    compile_all(folder, tmp_path / "o", ("-O2",))
    section = subprocess.run(
        ["size", "-A", tmp_path / "o" / "net_weights.o"], capture_output=True, text=True, check=True
    ).stdout
    rodata = sum(int(line.split()[1]) for line in section.splitlines() if line.startswith(".rodata"))
    about = emit(program, options(program)).about
    assert 0 <= rodata - int(str(about["table_bytes"])) < 32 * 12  # alignment between tables


def test_what_cannot_be_emitted_is_refused(program: Program) -> None:
    with pytest.raises(BlrcError, match="no recorded vectors"):
        emit(program, EmitOptions("net", Vectors(random_inputs(program, 2)[:0], ({},)), "0.0"))
    with pytest.raises(BlrcError, match="--name"):
        emit(program, options(program, name="while"))


def test_the_same_bytes_again(program: Program) -> None:
    first, second = emit(program, options(program)), emit(program, options(program))
    assert (first.files, first.about) == (second.files, second.about)


def test_the_runtime_s_files_for_hosts_have_one_order() -> None:
    """They stand in the Makefile, which differed from run to run."""
    files = list(runtime_sources(lay_out(random_program(0, "uint8"), cpu="x86-64"), "net"))
    assert len(files) > 10
    assert files[2:] == sorted(files[2:])

"""Hooks around every step, and the names of steps: what a firmware needs to say how long each layer takes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from by_night import first
from c_exports import export, one_conv
from every_kernel import PROGRAMS
from random_programs import random_inputs

from blrc.program.program import Program, Window
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.text import text

CLOCK = """
#include <stdint.h>
#ifdef __cplusplus
extern "C"
#endif
void note(int kind, uint32_t member, int32_t op);
#define NET_BEFORE_OP(member, op) note('<', member, op)
#define NET_AFTER_OP(member, op) note('>', member, op)
"""

# Prints every event in the order in which it happens, with its time; then the order of the clock is checked outside.
MAIN = """
#include <stdio.h>
#include <time.h>
#include "net.h"
#include "clock.h"

static uint32_t arena[(NET_ARENA_SIZE + 3) / 4];
static const char *const names[NET_OPS] = NET_STEP_NAMES;

void note(int kind, uint32_t member, int32_t op)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%c %u %s %.0f\\n", kind, (unsigned)member, names[op], 1e9 * (double)now.tv_sec + (double)now.tv_nsec);
}

static void observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context, (void)output, (void)bytes;
    note('o', member, op);
}

int main(void)
{
    static INPUT input[NET_INPUT_SIZE];
    static int32_t scores[NET_CLASSES];
    uint32_t k;

    for (k = 0; k < NET_MEMBERS; ++k) {
        if (net_observe(k, input, arena, scores, observe, 0) < 0) {
            return 1;
        }
    }
    return 0;
}
"""


def run_with_hooks(program: Program, folder: Path, flags: tuple[str, ...], cplusplus: bool = False) -> list[list[str]]:
    export(program, folder, random_inputs(program, 1))
    (folder / "clock.h").write_text(CLOCK)
    kind = {"bits": "uint32_t", "int8": "int8_t", "uint8": "uint8_t"}[program.input.dtype]
    (folder / "main.c").write_text(MAIN.replace("INPUT", kind, 1))
    compiler = build.find_compiler("g++" if cplusplus else None)
    flags = (*STRICT, "-D_POSIX_C_SOURCE=200809L", *flags)
    objects = [
        build.compile_object(compiler, flags, source, folder / f"{source.stem}.o", folder, cplusplus)
        for source in (*build.sources(folder, "net"), folder / "main.c")
    ]
    binary = build.link(compiler, (), objects, folder / "main")
    done = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("name", "cplusplus"),
    [("gated", False), pytest.param("binary", True, marks=[pytest.mark.needs("g++"), pytest.mark.nightly])],
)
def test_every_step_stands_between_its_hooks(tmp_path: Path, name: str, cplusplus: bool) -> None:
    """In order, for every member; what an observer does is not in between."""
    program = PROGRAMS[name]()
    events = run_with_hooks(program, tmp_path, ('-DNET_HOOKS="clock.h"',), cplusplus)
    steps = [step.op.name for step in lay_out(program).steps]
    members = range(len(program.members))
    assert [event[:3] for event in events] == [[e, str(m), op] for m in members for op in steps for e in "<>o"]
    times = [int(event[3]) for event in events]
    assert times == sorted(times) and times[0] < times[-1]


def test_one_hook_by_itself(tmp_path: Path) -> None:
    """Given on the command line; the other stays empty."""
    program = one_conv((3, 3, 4), 5, Window((2, 2)))
    flags = ("-DNET_AFTER_OP(member,op)=note('>',member,op)", "-include", str(tmp_path / "declared.h"))
    tmp_path.joinpath("declared.h").write_text(
        "#include <stdint.h>\nvoid note(int kind, uint32_t member, int32_t op);\n"
    )
    (tmp_path / "net").mkdir()
    main = MAIN.replace('#include "clock.h"\n', "").replace("INPUT", "uint32_t", 1)
    folder = export(program, tmp_path / "net", random_inputs(program, 1))
    (folder / "main.c").write_text(main)
    objects = [
        build.compile_object(
            build.find_compiler(), (*flags, "-D_POSIX_C_SOURCE=200809L"), s, s.with_suffix(".o"), folder
        )
        for s in (*build.sources(folder, "net"), folder / "main.c")
    ]
    binary = build.link(build.find_compiler(), (), objects, folder / "main")
    lines = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [[kind, "0", op] for op in ("conv", "scores") for kind in (">", "o")]


@pytest.mark.parametrize("compiler", [pytest.param(c, marks=pytest.mark.needs(c)) for c in ("gcc", "clang")])
@pytest.mark.parametrize("level", first(1, ["-O2", "-O0", "-Os"]))
def test_hooks_that_are_not_defined_leave_no_trace(tmp_path: Path, compiler: str, level: str) -> None:
    program = PROGRAMS["gated"]()
    folder = export(program, tmp_path / "net", random_inputs(program, 1))
    source = folder / "net.c"
    objects = [tmp_path / "with.o", tmp_path / "without.o"]
    build.compile_object((compiler,), (level,), source, objects[0], folder)
    plain = re.sub(r"^ *NET_(BEFORE|AFTER)_OP\(.*\);\n", "", source.read_text(), flags=re.MULTILINE)
    assert source.read_text().count("_OP(member, NET_OP_") - 2 * len(lay_out(program).steps) == 0
    assert "_OP(member, NET_OP_" not in plain
    source.write_text(plain)  # the same path: it stands in the object
    build.compile_object((compiler,), (level,), source, objects[1], folder)
    assert objects[0].read_bytes() == objects[1].read_bytes()


NAMES = """
#include <stdio.h>
#include "net.h"
int main(void)
{
    static const char *const names[] = NET_STEP_NAMES;
    unsigned i;

    for (i = 0; i < sizeof names / sizeof names[0]; ++i) {
        printf("%s%c", names[i], 0);
    }
    return 0;
}
"""


def test_step_names_survive_any_character(tmp_path: Path) -> None:
    """Quotes, line ends, comments, trigraphs (which gcc reads where it is told a standard)."""
    program = one_conv((4, 4, 2), 3, Window((3, 3)))
    conv, scores = program.ops
    evil = 'a */ "b" /* ??/ \\ %s\n\t??)ü'
    folder = export(
        replace(program, ops=(replace(conv, name=evil), replace(scores, name="names"))),
        tmp_path / "net",
        random_inputs(program, 1),
    )
    (folder / "main.c").write_text(NAMES)
    binary = folder / "main"
    build.run_tool(
        [*build.find_compiler(), "-std=c99", *STRICT, f"-I{folder}", str(folder / "main.c"), "-o", str(binary)], "main"
    )
    printed = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed.split("\0") == ['a */ "b" /* ??/ \\ %s????)?', "names", ""]


def test_a_string_literal_is_one_line_of_ascii() -> None:
    literal = text.string("".join(map(chr, range(256))))
    assert literal.isascii() and literal.isprintable()
    assert text.string('"\\') == '"\\"\\\\"'

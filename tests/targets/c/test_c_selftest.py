"""The self-test on the device: whatever byte of whatever table is wrong, it names the step whose table it is."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_night import where
from c_exports import export, one_conv
from every_kernel import PROGRAMS
from random_programs import random_inputs

from blrc.errors import BlrcError
from blrc.program.program import Constant, Program, Window
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.host import HostBuild
from blrc.targets.c.layout.layout import Layout, lay_out
from blrc.targets.c.text.symbols import name_all

# Tables are compiled as variables here. For every byte of every table: change it; note the first vector, member and
# step whose output (kept whole, not as a digest) is another than before; ask the self-test; change it back.
MAIN = """
#include <stdio.h>
#include <string.h>
#include "net_selftest.c"

static unsigned char right[NET_VECTORS][NET_MEMBERS][KEPT];
static uint32_t arena[(NET_ARENA_SIZE + 3) / 4];
static unsigned char *at;
static int filling, first;

static void look(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context;
    (void)member;
    if (filling) {
        memcpy(at, output, bytes);
    } else if (first < 0 && memcmp(at, output, bytes) != 0) {
        first = (int)op;
    }
    at += bytes;
}

/* 0, or 1 + member * steps + step of the first difference. */
static int expected(void)
{
    int32_t scores[NET_CLASSES];
    int v, m;

    for (v = 0; v < NET_VECTORS; ++v) {
        for (m = 0; m < NET_MEMBERS; ++m) {
            at = right[v][m];
            first = -1;
            net_observe((uint32_t)m, net_vector_inputs + v * NET_INPUT_SIZE, arena, scores, look, 0);
            if (first >= 0) {
                return 1 + m * NET_OPS + first;
            }
        }
    }
    return 0;
}

static void corrupt(int table, void *start, size_t bytes)
{
    unsigned char *const table_bytes = (unsigned char *)start;
    size_t i;

    for (i = 0; i < bytes; i += bytes / 60 + 1) {
        table_bytes[i] ^= (unsigned char)(1u << (i * 5 % 8));
        printf("%d %d %d\\n", table, expected(), net_selftest(arena));
        table_bytes[i] ^= (unsigned char)(1u << (i * 5 % 8));
    }
}

int main(void)
{
    filling = 1;
    expected();
    filling = 0;
    printf("-1 %d %d\\n", expected(), net_selftest(arena));
CALLS    return 0;
}
"""


def arrays(layout: Layout) -> list[tuple[int, str, frozenset[int]]]:
    """Every array of every table: its step, its name in C, and the members that read it."""
    symbols, found = name_all(layout, "net", "0" * 64), []
    for index, step in enumerate(layout.steps):
        for table in step.tables:
            name = symbols.table(step, table)
            for i in range(len(table.arrays)):
                members = frozenset(m for m, which in enumerate(table.of_member) if which == i)
                found.append((index, name if len(table.arrays) == 1 else f"{name}_{i}", members))
    return found


@pytest.mark.parametrize("name", where(lambda name: name == "ternary", PROGRAMS))
def test_a_wrong_byte_of_a_table_is_found_in_its_step(tmp_path: Path, name: str) -> None:
    """Equal to what whole maps say; and only the step, and a member, that the table belongs to."""
    program = PROGRAMS[name]()
    folder = export(program, tmp_path, random_inputs(program, 12))
    layout = lay_out(program)
    tables = arrays(layout)
    for file in (folder / "net_weights.c", folder / "net.c"):
        # The arrays lose their const, the arrays of pointers to them keep it.
        file.write_text(
            re.sub(
                r"^((?:extern |NET_BLRC_STORED )?)const (\w+ net_\w+\[)", r"\1\2", file.read_text(), flags=re.MULTILINE
            )
        )
    calls = "".join(f"    corrupt({i}, {c}, sizeof {c});\n" for i, (_, c, _) in enumerate(tables))
    kept = str(sum(step.y.nbytes for step in layout.steps))
    main = MAIN.replace("CALLS", calls).replace("KEPT", kept)
    declared = re.findall(r"^extern .*?;$", (folder / "net.c").read_text(), re.MULTILINE)
    (folder / "main.c").write_text(main.replace('selftest.c"', "\n".join(['selftest.c"', *declared])))
    compiler = build.find_compiler()
    objects = [
        build.compile_object(compiler, ("-O2",), source, folder / f"{source.stem}.o", folder)
        for source in (*build.sources(folder, "net"), folder / "main.c")
    ]
    binary = build.link(compiler, (), objects, folder / "main")
    lines = subprocess.run([binary], capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert lines.pop(0) == "-1 0 0"
    seen = Counter[int]()
    for table, expected, found in (map(int, line.split()) for line in lines):
        step, array, members = tables[table]
        assert found == expected, array
        if found > 0:
            assert divmod(found - 1, len(layout.steps)) in {(member, step) for member in members}, array
            seen[step] += 1
    # A byte that no recorded input depends on cannot be seen; but no step goes unseen.
    assert set(seen) == {step for step, _, _ in tables}
    assert sum(seen.values()) > len(lines) / 4


def test_a_label_that_is_not_the_first_maximum_is_found(tmp_path: Path) -> None:
    """It once took any of several largest scores for right."""
    program = ties()
    folder = export(program, tmp_path, random_inputs(program, 3))
    with HostBuild(folder, "net") as c:
        assert "equal" in c.selftest()
    argmax = folder / "net_blrc.c"
    text = argmax.read_text()
    last = text.replace("scores[i] > scores[best]", "scores[i] >= scores[best]")
    assert last != text
    argmax.write_text(last)
    with HostBuild(folder, "net") as c, pytest.raises(BlrcError, match=r"member 0, step 1 differs .*: scores"):
        c.selftest()


def ties() -> Program:
    """Two classes whose scores are always equal."""
    program = one_conv((2, 2, 3), 5, Window((2, 2)))
    weights = np.zeros_like(program.constants["score_weights"].tables[0])
    return replace(program, constants={**program.constants, "score_weights": Constant((weights,), (0,))})

"""Declarations that nothing uses: without them texts of different exports are one text, and so are their objects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from c_exports import one_conv

from blrc.net.window import Window
from blrc.program.program import Program
from blrc.targets.c.build.compiler import find_compiler, run_tool
from blrc.targets.c.build.unused import without_unused
from blrc.targets.c.kernels.cpus import X86_64
from blrc.targets.c.native.library import library_files

KEPT = "int a(void) { return 0; }\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("void net_blrc_f(int x);\n", ""),
        ("uint32_t *net_blrc_f(int x,\n    const int *y);\n", ""),
        ("typedef int16_t net_blrc_t;\nvoid net_blrc_f(net_blrc_t x);\n", ""),
        ("typedef struct net_blrc_s {\n    int x;\n} net_blrc_s;\n", ""),
        ("typedef int16_t net_blrc_t;\nstatic net_blrc_t x;\n",) * 2,
        ("typedef struct net_blrc_s {\n    int x;\n} net_blrc_s;\nstatic net_blrc_s x;\n",) * 2,
        ("void net_blrc_f(int x);\nvoid net_blrc_f(int x)\n{\n}\n",) * 2,
        ("void net_blrc_f(int x);\nvoid net_blrc_f_more(int x)\n{\n}\n",) * 2,  # only to be sure
        ("void net_other(int x);\n",) * 2,
        ("int32_t net_blrc_x = 1;\n",) * 2,
        ("    return net_blrc_f(x);\n",) * 2,
        ("return net_blrc_f(x);\n",) * 2,
        ("void net_blrc_f(int x) __attribute__((constructor));\n",) * 2,
        ("typedef int16_t net_blrc_t __attribute__((aligned(2)));\n",) * 2,
    ],
)
def test_only_what_nothing_uses_goes(text: str, left: str) -> None:
    assert without_unused(KEPT + text + KEPT) == KEPT + left + KEPT


SHARED = [f"net_blrc_{file}.c" for file in ("dots_portable", "dots_popcnt", "dots_x86", "tier_x86", "scores_dots")]


def texts_and_objects(program: Program, folder: Path) -> list[tuple[str, bytes]]:
    """The preprocessed C and the objects of files that are in every x86-64 export."""
    folder.mkdir()
    for file, content in library_files(program, "net", X86_64).items():
        (folder / file).write_bytes(content)
    cc, found = find_compiler(), []
    for file in SHARED:
        subprocess.run([*cc, "-c", str(folder / file), "-o", str(folder / "x.o")], check=True)
        found.append((run_tool([*cc, "-E", "-P", str(folder / file)], file), (folder / "x.o").read_bytes()))
    return found


def test_files_that_two_exports_share_have_one_text_and_one_object(tmp_path: Path) -> None:
    """Every x86-64 export compiled all levels of the instruction set anew, because its header had other prototypes."""
    maps = one_conv((16, 16, 8), 33, Window((3, 3), padding=(1, 1, 1, 1)))
    codes = one_conv((5, 5, 3), 9, Window((3, 3)), kind="uint8")
    found = zip(texts_and_objects(maps, tmp_path / "maps"), texts_and_objects(codes, tmp_path / "codes"), strict=True)
    for (text, compiled), (other, other_compiled) in found:
        assert text != other and without_unused(text) == without_unused(other)
        assert compiled == other_compiled

"""The runtime by itself: its inline parts against plain loops in C; its files under all compilers and house rules."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from by_night import night

from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.build.host import SANITIZE
from blrc.targets.c.runtime_files import include_flags, is_for_hosts, runtime_dir, runtime_files, runtime_sources

RUNTIME = runtime_dir()
FILES = list(runtime_files().values())
SOURCES = runtime_sources()


@pytest.mark.parametrize(
    "flags",
    [
        ("-O2", "-DBLRC_UNIT_BITS=32", "-DBLRC_HAS_POPCOUNT=1"),
        ("-O2", "-DBLRC_UNIT_BITS=64", "-DBLRC_HAS_POPCOUNT=1"),
        SANITIZE,
        (*SANITIZE, "-DBLRC_UNIT_BITS=32"),
        *night(("-O2",), ("-O3", "-DBLRC_UNIT_BITS=32")),
    ],
    ids=" ".join,
)
def test_inline_parts(tmp_path: Path, flags: tuple[str, ...]) -> None:
    compiler = build.find_compiler()
    source = Path(__file__).parents[3] / "runtime" / "tests" / "check_parts.c"
    flags = (*flags, *STRICT, "-Wno-unused-function", *include_flags())
    main = build.compile_object(compiler, flags, source, tmp_path / "main.o", RUNTIME / "include")
    binary = build.link(compiler, flags, [main], tmp_path / "main")
    done = subprocess.run([binary], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"check_parts.c, line {done.returncode}"


@pytest.mark.parametrize(
    "flags",
    [
        SANITIZE,
        (*SANITIZE, "-DBLRC_UNIT_BITS=32"),
        *night(("-O2",), ("-O2", "-DBLRC_UNIT_BITS=32"), ("-O2", "-DBLRC_UNIT_BITS=32", "-DBLRC_HAS_POPCOUNT=1")),
    ],
    ids=" ".join,
)
def test_runs_of_every_number_of_words(tmp_path: Path, flags: tuple[str, ...]) -> None:
    compiler = build.find_compiler()
    check = Path(__file__).parents[3] / "runtime" / "tests" / "check_runs.c"
    sources = [check, *(runtime_files()[file] for file in ("blrc_run.c", "blrc_run_real.c"))]
    flags = (*flags, *STRICT, *include_flags())
    objects = [
        build.compile_object(compiler, flags, path, tmp_path / f"{path.stem}.o", RUNTIME / "include")
        for path in sources
    ]
    binary = build.link(compiler, flags, objects, tmp_path / "main")
    done = subprocess.run([binary], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"check_runs.c, line {done.returncode}"


def test_rows_of_a_window_in_the_padding_have_no_address(tmp_path: Path) -> None:
    """Where no column of a window was inside, the address of a run was computed outside the map."""
    compiler = build.find_compiler()
    source = Path(__file__).parents[3] / "runtime" / "tests" / "check_rows.c"
    flags = (*SANITIZE, *STRICT, "-Wno-unused-function", *include_flags())
    main = build.compile_object(compiler, flags, source, tmp_path / "main.o", RUNTIME / "include")
    done = subprocess.run([build.link(compiler, flags, [main], tmp_path / "main")], timeout=60, check=False)
    assert done.returncode == 0, f"check_rows.c, line {done.returncode}"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(name, marks=pytest.mark.needs(name))
        for name in ("gcc", "g++", "clang", "clang++", "s390x-linux-gnu-gcc")
    ],
)
def test_no_warnings(tmp_path: Path, compiler: str) -> None:
    """By day the compilers see the files of exports (test_c_analysis.py)."""
    for source in SOURCES:
        flags = ("-O2", "-ffreestanding", *STRICT, *include_flags())
        build.compile_object(
            (compiler,), flags, source, tmp_path / "x.o", RUNTIME / "include", cplusplus=compiler.endswith("++")
        )


IN_VECTORS = ("blrc_run", "blrc_conv_quads", "blrc_conv_eights", "blrc_dense_quads")


@pytest.mark.needs("arm-none-eabi-gcc")
def test_regression_helium_is_left_alone_in_big_endian_mode(tmp_path: Path) -> None:
    """Where gcc defines its macro, but refuses its header: exports did not compile."""
    flags = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-mbig-endian", "-O2", "-ffreestanding")
    flags = (*flags, *STRICT, *include_flags())
    for source in SOURCES:
        if source.stem in IN_VECTORS:
            build.compile_object(("arm-none-eabi-gcc",), flags, source, tmp_path / "x.o", RUNTIME / "include")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_house_rules(path: Path) -> None:
    text = path.read_text(encoding="ascii")
    assert max(map(len, text.splitlines())) <= 120
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    # The prefix is what the exporter renames; what has none would clash in a firmware of two models.
    assert re.match(r"blrc(_\w+)?\.[ch]$", path.name)
    assert all(m.startswith("BLRC_") for m in re.findall(r"^#define (\w+)", code, re.MULTILINE))
    functions = re.findall(
        r"^(?:static (?:inline |BLRC_INLINE |BLRC_APART )?)?(?:void|u?int\d+_t|blrc_\w+) \*?(\w+)\(", code, re.MULTILINE
    )
    assert all(function.startswith("blrc_") for function in functions)
    of_hosts = {"string.h", "immintrin.h", "smmintrin.h", "tmmintrin.h", "arm_neon.h", "sys/auxv.h"}
    of_hosts = of_hosts if is_for_hosts(path) else set()
    of_hosts |= (
        {"arm_mve.h", "arm_neon.h", "wasm_simd128.h"} if path.name in ("blrc_quad.h", "blrc_vector.h") else set()
    )
    of_hosts |= {"arm_acle.h"} if path.name == "blrc_conv_whole.c" else set()
    assert set(re.findall(r"#include <(.+)>", code)) <= {"stdint.h"} | of_hosts
    for word in ("malloc", "float", "double", "printf", "//", "goto", " int ", "long", "restrict", "alloca"):
        assert word not in code.replace("__builtin_popcountl((unsigned long)v)", ""), word


@pytest.mark.nightly
def test_no_mutable_globals(tmp_path: Path) -> None:
    """By day the objects of an export are looked at (test_c_files.py)."""
    for source in SOURCES:
        out = build.compile_object(
            build.find_compiler(), ("-O0", *include_flags()), source, tmp_path / "x.o", RUNTIME / "include"
        )
        kinds = subprocess.run(["nm", "-P", out], capture_output=True, text=True, check=True).stdout
        assert not [line for line in kinds.splitlines() if line.split()[1] in "BbDdCw"], source.name


def test_no_recursion() -> None:
    for source in SOURCES:
        body = source.read_text(encoding="ascii")
        for function in re.findall(
            r"^(?:static )?\w+ (blrc_\w+)\([^;]*?\)\n\{(.*?)^\}", body, re.MULTILINE | re.DOTALL
        ):
            assert f"{function[0]}(" not in function[1], f"{function[0]} calls itself"

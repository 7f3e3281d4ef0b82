"""What compilers, analyzers and linkers say of exports that use every kernel: nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from c_exports import export, one_conv
from every_kernel import HALF, PROGRAMS, SAME
from random_programs import Builder, random_inputs

from blrc.program.program import Value, Window
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.layout.layout import CORTEX_M55, PORTABLE, X86_64
from blrc.targets.c.text.runtime import parts

TIDY = Path(__file__).parents[3] / "runtime" / ".clang-tidy"
RUNTIME_CALLS = {"memcpy", "memset"}
SLICED = {
    "portable": ("conv_slices", "dense_columns"),
    "cortex-m55": ("conv_quads", "dense_quads"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """An export of every program: all their files, with every kernel among them."""
    folder = tmp_path_factory.mktemp("exports")
    return [export(make(), folder / name, random_inputs(make(), 3)) for name, make in PROGRAMS.items()]


def different(folders: Sequence[Path]) -> list[Path]:
    """The C files of all folders, those of the runtime that are the same in several once."""
    seen, found = set(), []
    for folder in folders:
        for path in sorted(folder.glob("*.c")):
            key = path.name, path.read_bytes() if "_blrc" in path.name else folder
            if key not in seen:
                seen.add(key)
                found.append(path)
    return found


def complaints(command: Sequence[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:] or f"status {done.returncode}"


NIGHTLY = pytest.mark.nightly
HOW_MANY = [pytest.param(2, id="few"), pytest.param(None, id="all", marks=NIGHTLY)]
"""Files of one export that the analyzers, which are slow, read by day; and of each by night."""


BUILDS = {
    "gcc": ("-std=c99", "-O2", "-fanalyzer"),
    "g++": ("-xc++", "-std=c++11", "-O2"),
    "clang": ("-xc", "-std=c99", "-fsyntax-only"),  # all that clang warns of it sees while it reads
    "clang++": ("-xc++", "-std=c++11", "-fsyntax-only"),
}


@pytest.mark.parametrize(
    ("compiler", "most"),
    [
        pytest.param("gcc", 4, marks=pytest.mark.needs("gcc")),
        pytest.param("clang++", None, marks=pytest.mark.needs("clang++")),
        *(pytest.param(name, None, marks=[pytest.mark.needs(name), NIGHTLY]) for name in ("gcc", "g++", "clang")),
    ],
)
@pytest.mark.slow("a compiler analyzes every file")
def test_no_warning_in_any_file(folders: list[Path], compiler: str, most: int | None, tmp_path: Path) -> None:
    """The self-test and its main function too; gcc's analyzer as well, by day of a few."""
    for source in different(folders)[:most]:
        command = [compiler, *BUILDS[compiler], *STRICT, "-DNET_SELFTEST_MAIN", f"-I{source.parent}", "-c", source]
        assert not complaints([*command, "-o", tmp_path / "x.o"])


@pytest.fixture(scope="module")
def every_file(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Exports with the kernels of every CPU and every --optimize besides."""
    folder = tmp_path_factory.mktemp("more")
    builder = Builder(Value("input", "uint8", (16, 16, 3)), np.random.default_rng(0), members=2)
    builder.encode()
    builder.conv("first", SAME, HALF, groups=1, per_group=32)
    builder.conv("sliced", SAME, HALF, groups=1, per_group=64)
    builder.conv("dense", Window(builder.x.shape[:2]), None, groups=1, per_group=256)
    program = builder.finish(np.int8)
    eights = one_conv((16, 16, 3), 32, SAME, kind="uint8")
    lanes = one_conv((32, 32, 64), 64, SAME)
    forms = (
        ("speed", program, PORTABLE, "speed"),
        ("ram", program, PORTABLE, "ram"),
        ("m55", program, CORTEX_M55, "speed"),
        ("eights", eights, CORTEX_M55, "speed"),
        ("x86", program, X86_64, "size"),
        ("lanes", lanes, X86_64, "size"),
    )
    return [
        *folders,
        *(
            export(which, folder / name, random_inputs(which, 2), cpu=cpu, optimize=optimize)
            for name, which, cpu, optimize in forms
        ),
    ]


PICKY = (
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wcast-qual", "-Wcast-align"),
    *("-Wundef", "-Wdouble-promotion", "-Wunused", "-Wunused-macros", "-Wwrite-strings", "-Wredundant-decls", "-Wvla"),
    *("-Wswitch-default", "-Wswitch-enum", "-Wpointer-arith", "-Wimplicit-fallthrough", "-Wformat=2", "-Werror"),
)
PICKY_C = ("-std=c99", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wold-style-definition", "-Wc++-compat")
ARM = ("-mcpu=cortex-m4", "-mthumb", "-ffreestanding")
FRONT_ENDS = {
    "gcc": ("-xc", *PICKY_C, "-Wlogical-op", "-Wduplicated-cond"),
    "g++": ("-xc++", "-std=c++11"),
    "clang": ("-xc", *PICKY_C),
    "clang-19": ("-xc", *PICKY_C, "-Wunused-but-set-parameter"),
    "clang++-19": ("-xc++", "-std=c++11"),
    "arm-none-eabi-gcc": ("-xc", *PICKY_C, *ARM),
}
CHANGED = {
    "plain": (),
    "changed": ("-funsigned-char", "-fpack-struct", "-fshort-enums"),
}


BY_DAY = {("plain", "gcc")}


@pytest.mark.parametrize(
    ("changed", "compiler"),
    [
        pytest.param(how, name, marks=[pytest.mark.needs(name), *([] if (how, name) in BY_DAY else [NIGHTLY])])
        for how in CHANGED
        for name in FRONT_ENDS
    ],
)
@pytest.mark.slow("a compiler reads every file")
def test_no_warning_however_characters_and_structs_are(every_file: list[Path], compiler: str, changed: str) -> None:
    """-funsigned-char, and -fpack-struct, which makes the address of a struct's member one that is not aligned; and
    the unused parameter of blrc_planes.h, which clang 19 saw."""
    chosen = different(every_file)
    for folder in every_file:
        sources = [path for path in chosen if path.parent == folder]
        if compiler == "arm-none-eabi-gcc" and folder.name in ("x86", "lanes"):
            continue
        if sources:
            flags = (*FRONT_ENDS[compiler], *PICKY, *CHANGED[changed])
            assert not complaints([compiler, *flags, "-fsyntax-only", f"-I{folder}", *sources])


OLD = {
    "c89": ("gcc", "-xc", "-std=c89"),
    "ansi": ("gcc", "-xc", "-ansi", "-Wall", "-Wextra", "-Wpedantic"),
    "gnu89": ("gcc", "-xc", "-std=gnu89", "-pedantic-errors"),
    "clang": ("clang", "-xc", "-std=c89", "-Wpedantic"),
    "c++98": ("g++", "-xc++", "-std=c++98", "-Wpedantic"),
}
CALLER = """
#include "net.h"

static net_ensemble members;
static net_answer answer;
static uint32_t arena[NET_ARENA_SIZE / 4 + 1];
static uint8_t input[NET_INPUT_SIZE];

int main(void)
{
    return net_predict(input, arena, &members, 0, &answer);
}
"""


@pytest.mark.needs("gcc", "g++", "clang")
@pytest.mark.parametrize("language", [pytest.param(name, marks=[] if name == "c89" else [NIGHTLY]) for name in OLD])
@pytest.mark.slow("compiles C")
def test_an_old_language_gets_one_error_from_every_file(every_file: list[Path], language: str, tmp_path: Path) -> None:
    """A sentence, and nothing behind it: from the library's files, and from a program that calls it."""
    caller = tmp_path / "main.c"
    caller.write_text(CALLER, encoding="ascii")
    newer = "c\\+\\+11" if language == "c++98" else "c99"
    callers = [(caller, folder) for folder in every_file if folder.name == "gated"]
    for source, folder in [*((path, path.parent) for path in different(every_file)), *callers]:
        done = subprocess.run(
            [*OLD[language], "-fsyntax-only", f"-I{folder}", source], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0, source
        said = re.findall(r"^.*?(?:error|warning): (.*)$", done.stderr, re.MULTILINE)
        assert len(said) == 1, (source, done.stderr)
        assert re.search(rf"(compile it with|use) -std={newer} or newer", said[0])


@pytest.mark.needs("clang-tidy-19")
@pytest.mark.parametrize("most", HOW_MANY)
@pytest.mark.slow("clang-tidy takes seconds for a file")
def test_clang_tidy_finds_nothing(folders: list[Path], most: int | None) -> None:
    """Clang's static analyzer, which takes most of the time, runs by night; by day gcc's reads the same files."""
    by_day = ["--checks=-clang-analyzer-*"] if most else []
    for folder in folders[: most and 1]:
        sources = [path for path in different(folders) if path.parent == folder][:most]
        assert not complaints(
            ["clang-tidy-19", "--quiet", f"--config-file={TIDY}", *by_day, *sources, "--", "-std=c99", f"-I{folder}"]
        )


@pytest.mark.needs("cppcheck")
@pytest.mark.parametrize("platform", [pytest.param("unix64", marks=NIGHTLY), "avr8"])
@pytest.mark.parametrize("most", HOW_MANY)
@pytest.mark.slow("cppcheck takes a second for a file")
def test_cppcheck_finds_nothing(folders: list[Path], platform: str, most: int | None) -> None:
    """Also where an int has 16 bits."""
    for folder in folders[: most and 1]:
        command = ["cppcheck", "--quiet", "--error-exitcode=1", "--std=c99", f"--platform={platform}", f"-I{folder}"]
        command += ["--enable=warning,style,performance,portability", "--inconclusive"]
        command += ["-UNET_HOOKS", "--max-configs=40"]
        # Kernels share a struct in the runtime's one file, and a network may have none that reads some member.
        command += ["--suppress=unusedStructMember:*/net_blrc.c"]
        sources = [path for path in different(folders) if path.parent == folder][:most]
        assert not complaints([*command, *sources])


@NIGHTLY
@pytest.mark.needs("clang-tidy-19", "cppcheck", "gcc", "g++", "clang")
@pytest.mark.parametrize("cpu", SLICED)
def test_nothing_is_found_in_kernels_with_memory_of_their_own(cpu: str, tmp_path: Path) -> None:
    """Which the other exports do not have."""
    builder = Builder(Value("input", "uint8", (16, 16, 3)), np.random.default_rng(0), members=2)
    builder.encode()
    builder.conv("first", SAME, HALF, groups=1, per_group=32)
    builder.conv("sliced", SAME, HALF, groups=1, per_group=64)
    builder.conv("dense", Window(builder.x.shape[:2]), None, groups=1, per_group=256)
    program = builder.finish(np.int8)
    export(program, tmp_path, random_inputs(program, 3), cpu=cpu, optimize="speed")
    sources = [tmp_path / "net_blrc.c"]
    assert {f"blrc_{kernel}.c" for kernel in SLICED[cpu]} <= parts(sources[0].read_text()).keys()
    for compiler, flags in BUILDS.items():
        for source in sources:
            command = [compiler, *flags, *STRICT, f"-I{tmp_path}", "-c", source, "-o", tmp_path / "x.o"]
            assert not complaints(command)
    assert not complaints(
        ["clang-tidy-19", "--quiet", f"--config-file={TIDY}", *sources, "--", "-std=c99", f"-I{tmp_path}"]
    )
    for platform in ("unix64", "avr8"):
        command = ["cppcheck", "--quiet", "--error-exitcode=1", "--std=c99", f"--platform={platform}", f"-I{tmp_path}"]
        command += ["--enable=warning,style,performance,portability", "--inconclusive", "--max-configs=40"]
        assert not complaints([*command, *sources])


OBJECTS = {
    "gcc": ("-O2",),
    "clang": ("-Os",),
    "arm-none-eabi-gcc": ("-Os", "-mcpu=cortex-m0", "-mthumb", "-ffreestanding"),
    "riscv64-unknown-elf-gcc": ("-O2", "-march=rv32imc", "-mabi=ilp32", "-ffreestanding"),
}


@NIGHTLY
@pytest.mark.parametrize("compiler", [pytest.param(name, marks=pytest.mark.needs(name)) for name in OBJECTS])
def test_objects_need_memcpy_memset_and_libgcc_alone(folders: list[Path], compiler: str, tmp_path: Path) -> None:
    """Of libgcc only what is in it: a name with underscores may be anything. And nothing in them can be written.

    By day test_c_files.py asks this of one export."""
    flags = (*OBJECTS[compiler], "-fno-pic", "-fno-stack-protector")
    gcc = "gcc" if compiler == "clang" else compiler
    library = build.run_tool([gcc, *OBJECTS[gcc], "-print-libgcc-file-name"], "libgcc").strip()
    in_libgcc = {name for name, kind in symbols([Path(library)]) if kind not in "Uw"}
    assert in_libgcc & {"__divti3", "__aeabi_uidiv", "__udivdi3"}
    objects = [
        build.compile_object((compiler,), flags, source, tmp_path / f"{i}.o", source.parent)
        for i, source in enumerate(different(folders))
    ]
    listed = symbols(objects)
    assert not {(name, kind) for name, kind in listed if kind in "BbDdCGgSs"}
    defined = {name for name, kind in listed if kind not in "Uw"}
    assert {"net_observe", "net_predict", "net_selftest"} <= defined
    assert {name for name, _ in listed} - defined - in_libgcc <= RUNTIME_CALLS


def symbols(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Name and kind of all symbols, those that the assembler makes for itself left out."""
    listing = subprocess.run(["nm", "-P", *files], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^([^\s:]+) (\w)\b", listing, re.MULTILINE)
    return [(name, kind) for name, kind in found if not re.match(r"\$|\.", name)]

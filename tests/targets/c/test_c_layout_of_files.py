"""How an export's C is divided and set: ten files, a header of what is there, and lines that fit a screen."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from by_night import first
from c_exports import one_conv
from random_programs import random_inputs, random_program

import blrc
from blrc.program.program import Program, Window
from blrc.program.vectors import record
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.emit import emit
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.layout.layout import CORTEX_M55, HOSTS, PORTABLE, X86_64
from blrc.targets.c.runtime_files import is_for_hosts, runtime_files
from blrc.targets.c.text.runtime import parts
from blrc.targets.options import EmitOptions
from blrc.targets.requests import Optimize

ROOT = Path(__file__).parents[3]
MOST_FILES = 10
BESIDES = 3  # manifest, program, vectors
LONG = "a_name_of_24_characters_"
SAME = Window((3, 3), padding=(1, 1, 1, 1))
SHIPPED = first(1, ("examples/mnist/mnist.pt", "examples/cifar10/cifar10-quarter.pt"))


def programs() -> list[Program]:
    """Random programs, and those whose kernels only --optimize speed chooses."""
    kinds = ("uint8", "bits", "int8")
    return [
        *(random_program(seed, kinds[seed % 3], layers=1 + seed, members=1 + seed % 2) for seed in (0, 4, 7)),
        random_program(1, "uint8", (40, 30, 3), layers=9),  # in strips
        one_conv((16, 16, 32), 32, SAME),
        one_conv((7, 7, 64), 256, Window((7, 7))),
        one_conv((16, 16, 3), 32, SAME, kind="uint8"),
    ]


def files_of(program: Program, name: str, cpu: str = PORTABLE, optimize: Optimize = "size") -> dict[str, str]:
    vectors = record(program, random_inputs(program, 1))
    files = emit(program, EmitOptions(name, vectors, "0.0", cpu=cpu, optimize=optimize)).files
    return {file: content.decode("ascii") for file, content in files.items()}


FORMS: list[tuple[str, Optimize]] = [(PORTABLE, "size"), (PORTABLE, "speed"), (CORTEX_M55, "speed"), (X86_64, "size")]


def exports(name: str) -> list[tuple[str, dict[str, str]]]:
    """The files of every program, for CPUs of all kinds and every --optimize, and the CPU."""
    return [(cpu, files_of(program, name, cpu, optimize)) for program in programs() for cpu, optimize in FORMS]


@pytest.fixture(scope="module")
def named_net() -> list[tuple[str, dict[str, str]]]:
    return exports("net")


@pytest.fixture(scope="module", params=first(1, ["one form of each", "all"]))
def named_long(request: pytest.FixtureRequest) -> list[tuple[str, dict[str, str]]]:
    """Give the names of `named_net`; by day each program has one of the forms in turn."""
    if request.param == "all":
        return exports(LONG)
    return [(FORMS[i % 4][0], files_of(program, LONG, *FORMS[i % 4])) for i, program in enumerate(programs())]


def test_an_export_has_ten_files(named_net: list[tuple[str, dict[str, str]]]) -> None:
    for cpu, files in named_net:
        if cpu not in HOSTS:
            assert len(files) + BESIDES <= MOST_FILES, list(files)
        else:
            assert all(
                is_for_hosts(runtime_files()[file.removeprefix("net_")])
                for file in files
                if "blrc_" in file and file != "net_blrc_window.h"
            )


@pytest.mark.parametrize("network", SHIPPED)
def test_exports_of_the_shipped_networks_have_ten_files(tmp_path: Path, network: str) -> None:
    blrc.export(ROOT / network, folder=tmp_path / "out", targets=["c"], name="net")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("Makefile", "net.c", "net.h", "net.manifest.json", "net.program.npz", "net.vectors.npz"),
        *("net_blrc.c", "net_blrc.h", "net_selftest.c", "net_weights.c"),
    ]


FUNCTION = r"^(?!static\b)(?:\w+ )+\*?(net_blrc_\w+)\([^;{]*\)"


def test_the_header_declares_what_is_there_and_nothing_else(named_net: list[tuple[str, dict[str, str]]]) -> None:
    shipped = set()
    for cpu, files in named_net:
        sources = "".join(content for file, content in files.items() if re.fullmatch(r"net_blrc\w*\.c", file))
        declared = re.findall(f"{FUNCTION};", files["net_blrc.h"], re.MULTILINE)
        inside = re.findall(f"{FUNCTION};", files["net_blrc.c"], re.MULTILINE)
        defined = re.findall(f"{FUNCTION}\n\\{{", sources, re.MULTILINE)
        if cpu in HOSTS:  # whose inner loops have headers of their own
            assert set(declared) <= set(defined)
        else:
            assert sorted(declared + inside) == sorted(defined)
            assert set(inside) <= {"net_blrc_run", "net_blrc_run_real"}
        kernels = {f"net_blrc_{kernel}" for kernel in KERNELS} & set(defined)
        called = set(re.findall(r"^    (net_blrc_\w+)\(", files["net.c"], re.MULTILINE))
        # On hosts conv_lanes calls conv_tiles.
        assert kernels - called == ({"net_blrc_conv_tiles"} if "net_blrc_conv_lanes" in called else set())
        shipped |= kernels
    assert len(shipped) > 15  # of about twenty


def test_symbols_are_those_of_the_header(tmp_path: Path) -> None:
    files = files_of(random_program(5, "int8", layers=6), "net")
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    out = build.compile_object(build.find_compiler(), STRICT, tmp_path / "net_blrc.c", tmp_path / "x.o", tmp_path)
    listed = subprocess.run(["nm", "-P", "-g", out], capture_output=True, text=True, check=True).stdout
    declared = re.findall(f"{FUNCTION};", files["net_blrc.h"] + files["net_blrc.c"], re.MULTILINE)
    assert sorted(declared) == sorted(line.split()[0] for line in listed.splitlines() if line.split()[1] == "T")


def test_lines_fit_under_a_long_name(named_long: list[tuple[str, dict[str, str]]]) -> None:
    """Tables apart."""
    for _, files in named_long:
        for file, content in files.items():
            if not re.search(r"_weights(_\d+)?\.c$", file):
                assert not [line for line in content.splitlines() if len(line) > 120], file


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def tokens(content: str) -> list[str]:
    """What a compiler reads."""
    return re.findall(r'"(?:\\.|[^"\\])*"|\w+|[^\s\w]', COMMENT.sub(" ", content).replace("\\\n", " "))


def words(content: str) -> list[str]:
    """The words of comments; one behind a line may have come to stand above it."""
    return sorted(re.findall(r"[^\s*/]+", " ".join(COMMENT.findall(content))))


def test_breaking_lines_changes_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(5, "int8", layers=6)
    broken = files_of(program, LONG)
    for module in ("blrc.targets.c.emit", "blrc.targets.c.text.selftest"):
        monkeypatch.setattr(f"{module}.reflow", lambda content: content)
    plain = files_of(program, LONG)
    changed = [file for file in plain if plain[file] != broken[file]]
    assert {f"{LONG}.c", f"{LONG}.h", f"{LONG}_blrc.c", f"{LONG}_blrc.h"} <= set(changed)
    for file in changed:
        assert tokens(plain[file]) == tokens(broken[file])
        assert words(plain[file]) == words(broken[file])


def test_code_under_a_long_name_compiles(tmp_path: Path) -> None:
    for file, content in files_of(random_program(3, "uint8"), LONG).items():
        (tmp_path / file).write_text(content)
    for source in tmp_path.glob("*.c"):
        build.compile_object(build.find_compiler(), STRICT, source, tmp_path / "x.o", tmp_path)


def test_no_two_files_of_the_runtime_define_the_same_name() -> None:
    """They stand in one file in an export. Steps of one word and of four are never in one."""
    found = defaultdict(set)
    for file, path in runtime_files().items():
        if not is_for_hosts(path) and file != "blrc_flash_avr.h" and file != "blrc_step_quad.h":
            text = COMMENT.sub("", path.read_text(encoding="ascii"))
            names = re.findall(r"^(?:static [^;{(=]*?|typedef [^;{(]*?|\} )\b(blrc_\w+)\s*[(;]", text, re.MULTILINE)
            for name in {*names, *re.findall(r"^#define (BLRC_\w+)", text, re.MULTILINE)} - {"BLRC_ALL_QUADS"}:
                found[name].add(file)
    assert len(found) > 100
    assert not {name: files for name, files in found.items() if len(files) > 1}


def test_each_file_stands_once_and_behind_what_it_includes(named_net: list[tuple[str, dict[str, str]]]) -> None:
    files = runtime_files()
    for _, exported in named_net:
        order = list(parts(exported["net_blrc.c"]))
        assert len(order) == len(set(order)) == exported["net_blrc.c"].count("/* -------- blrc")
        for at, part in enumerate(order):
            for header in re.findall(r'^#include "(.+)"', files[part].read_text(encoding="ascii"), re.MULTILINE):
                assert header == "blrc.h" or header in order[:at] or f"net_{header}" in exported

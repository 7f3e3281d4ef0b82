"""clang's sanitizers on every kernel, on memory that nobody has written, and a fuzzer that calls the API in any order.

gcc's address and undefined behaviour sanitizers, and all programs against the reference: test_c_agreement.py.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from by_night import where
from c_exports import export
from every_kernel import PLAIN, PROGRAMS
from random_programs import random_inputs

from blrc.targets.c.build import compiler
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.layout.layout import lay_out

HERE = Path(__file__).parent
RUNS = int(os.environ.get("BLRC_FUZZ_RUNS") or 500)
FLAGS = (
    "-O1",
    "-gline-tables-only",
    "-fno-omit-frame-pointer",
    "-fno-sanitize-recover=all",
    "-fsanitize=fuzzer-no-link",
)
SANITIZERS = {
    "address": ("-fsanitize=address,undefined",),
    # It loses sight of what is not initialized in the checks of the undefined behaviour sanitizer, and in the products
    # of the portable popcount.
    "memory": ("-fsanitize=memory", "-DNET_BLRC_HAS_POPCOUNT=1"),
}


@pytest.fixture(scope="module", params=where(lambda name: name == "memory", SANITIZERS))
def sanitizer(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return SANITIZERS[request.param]


@pytest.fixture(
    scope="module",
    params=where(lambda name: name == "binary", PROGRAMS),
)
def built(
    request: pytest.FixtureRequest, sanitizer: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[str, ...]]:
    """A folder with an export's objects, and the flags that they were compiled with."""
    program = PROGRAMS[request.param]()
    folder = export(program, tmp_path_factory.mktemp("net"), random_inputs(program, 4))
    kind = {"bits": "uint32_t", "int8": "int8_t", "uint8": "uint8_t"}[program.input.dtype]
    flags = (*FLAGS, *sanitizer, *STRICT, f"-DINPUT={kind}")
    for source in compiler.sources(folder, "net"):
        compiler.compile_object(("clang",), flags, source, folder / f"{source.stem}.o", folder)
    return folder, flags


def linked(folder: Path, flags: tuple[str, ...], main: str, *more: str) -> Path:
    own = compiler.compile_object(("clang",), flags, HERE / main, folder / "main" / "main.o", folder)
    return compiler.link(("clang",), (*flags, *more), [*folder.glob("*.o"), own], folder / "main" / main.split(".")[0])


def main_of(folder: Path, kind: str) -> str:
    """The program of a kind, ``heap`` or ``fuzz``, for an export that gives labels or values."""
    of_values = "#define NET_VALUES " in (folder / "net.h").read_text(encoding="ascii")
    return f"{kind}_values.c" if of_values else {"heap": "heap_main.c", "fuzz": "fuzz_api.c"}[kind]


def run(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=550, check=False)


@pytest.mark.needs("clang")
def test_the_whole_api_on_memory_that_nobody_has_written(built: tuple[Path, tuple[str, ...]]) -> None:
    folder, flags = built
    (folder / "main").mkdir(exist_ok=True)
    main = main_of(folder, "heap")
    done = run([linked(folder, flags, main)])
    assert (done.returncode, done.stderr) == (0, ""), f"{main}, line {done.returncode}"
    if "-fsanitize=memory" in flags and main == "heap_main.c":
        # It does see what is not written: where a kernel first decides or looks something up by what it read, which is
        # in the label at last.
        done = run([linked(folder, (*flags, "-DUNWRITTEN"), main)])
        assert re.search(r"use-of-uninitialized-value\n.* in net_blrc_\w+", done.stderr), done.stderr


@pytest.mark.needs("clang")
def test_any_calls_in_any_order(built: tuple[Path, tuple[str, ...]]) -> None:
    """From no corpus, the same calls in every run; BLRC_FUZZ_RUNS asks for more than 500."""
    folder, flags = built
    (folder / "main").mkdir(exist_ok=True)
    binary = linked(folder, flags, main_of(folder, "fuzz"), "-fsanitize=fuzzer")
    # Without libFuzzer's limit of memory: it counts from the peak of the process that has started it.
    once = ["-seed=1", "-max_len=96", "-len_control=0", "-rss_limit_mb=0", f"-artifact_prefix={folder}/"]
    done = run([binary, f"-runs={RUNS}", *once])
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(rf"^Done {RUNS} runs", done.stderr, re.MULTILINE)


def test_the_programs_have_every_kernel() -> None:
    found = {step.kernel for make in PROGRAMS.values() for step in lay_out(make()).steps}
    assert found == PLAIN

"""The file that makes a shared library of an export: strict C without mutable globals, and any model's name will do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_night import first
from every_kernel import binary_scores, gated_members, words_of_groups
from random_programs import random_inputs, random_program

from blrc.program import program_file, reference
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiler import STRICT
from blrc.targets.c.kernels.cpus import PORTABLE
from blrc.targets.c.kernels.tiers import host_cpu
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native
from blrc.targets.c.native.wrapper import FILE, host_wrapper
from blrc.targets.c.text.symbols import name_all


@pytest.mark.parametrize("compiler", [pytest.param(c, marks=pytest.mark.needs(c)) for c in ("gcc", "clang")])
@pytest.mark.parametrize("program", first(1, [gated_members, words_of_groups, binary_scores]))
def test_strict_c_without_mutable_globals(tmp_path: Path, program: Any, compiler: str) -> None:
    made = program()
    files = library_files(made, "net")
    files[FILE] = host_wrapper(name_all(lay_out(made, cpu=host_cpu()), "net", program_file.digest(made))).encode(
        "ascii"
    )
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    out = build.compile_object((compiler,), ("-O2", *STRICT), tmp_path / FILE, tmp_path / "wrapper.o", tmp_path)
    listed = subprocess.run(["nm", str(out)], capture_output=True, text=True, check=True).stdout.splitlines()
    kinds = {line.split()[-2] for line in listed}
    assert "T" in kinds
    assert not kinds & set("DdBbCGgSs"), listed


@pytest.mark.nightly
@pytest.mark.parametrize("name", first(1, ["net_host_map", "name", "host", "steps", "my_name_", "gated", "refuse"]))
def test_any_name(name: str) -> None:
    program = random_program(0, "bits", (3, 3, 5), layers=2, members=2)
    raw = random_inputs(program, 9)
    with Native(library_files(program, name, PORTABLE), name, program, 1, ("-O0",)) as net:
        np.testing.assert_array_equal(net(raw), reference.answer(program, raw).label)
        np.testing.assert_array_equal(net.scores(raw, 1), reference.scores(program, raw, 1))


SANITIZED = """
import sys
import numpy as np
from blrc.targets.c.native import library, slots
from random_programs import random_inputs, random_program
from blrc.program import reference
from blrc.targets.c.native.network import Native
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.slots import Slots
flags = ("-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
cpu, *kinds = sys.argv[1:]
library.host_cpu = slots.host_cpu = lambda: cpu
for seed, kind in enumerate(kinds):
    program = random_program(seed + 3, kind, members=2)
    raw = random_inputs(program, 9)
    net = Native(library_files(program, "net"), "net", program, 2, flags)
    found = net.run(raw, 1)
    for step in net.layout.steps:
        assert np.array_equal(net.run_op(step.op.name, found[step.x.name], 1), found[step.y.name])
    assert np.array_equal(net(raw), net.answers(raw, stop=True).label)
    assert np.array_equal(net.scores(raw, 1), reference.scores(program, raw, 1))
    assert np.array_equal(Slots(program, flags).scores(program, raw), reference.scores(program, raw))
print("clean")
"""


@pytest.mark.slow("compiles with sanitizers")
@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "options",
    [("portable", "bits"), pytest.param((host_cpu(), "uint8", "bits"), marks=pytest.mark.nightly)],
    ids=" ".join,
)
def test_sanitizers_find_nothing_in_it(options: tuple[str, ...]) -> None:
    """Python itself has to run with the sanitizer's library, which sees the arrays that the C writes to."""
    where = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = where.stdout.strip()
    assert Path(library).is_absolute(), "gcc has no address sanitizer here; install libasan"
    environment = {
        **os.environ,
        "CC": "gcc",
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run([sys.executable, "-c", SANITIZED, *options], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "clean\n"), done.stderr


def test_a_wrapper_of_another_program_is_refused(tmp_path: Path) -> None:
    one, other = random_program(1, "uint8"), random_program(2, "uint8")
    with pytest.raises(build.BlrcError, match="files of two exports"):
        Native(library_files(one, "net"), "net", other)

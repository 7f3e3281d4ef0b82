"""The file that makes a shared library of an export: strict C without mutable globals, and any model's name will do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_kernel import binary_scores, gated_members, words_of_groups
from random_programs import random_inputs, random_program

from blrc import program_file, reference
from blrc.targets.c import build
from blrc.targets.c.build import STRICT
from blrc.targets.c.host_wrapper import FILE, host_wrapper
from blrc.targets.c.layout import lay_out
from blrc.targets.c.native import Native
from blrc.targets.c.shared import library_files
from blrc.targets.c.symbols import name_all


@pytest.mark.parametrize("compiler", [pytest.param(c, marks=pytest.mark.needs(c)) for c in ("gcc", "clang")])
@pytest.mark.parametrize("program", [gated_members, words_of_groups, binary_scores])
def test_strict_c_without_mutable_globals(tmp_path: Path, program: Any, compiler: str) -> None:
    made = program()
    files = library_files(made, "net")
    files[FILE] = host_wrapper(name_all(lay_out(made), "net", program_file.digest(made))).encode("ascii")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    out = build.compile_object((compiler,), ("-O2", *STRICT), tmp_path / FILE, tmp_path / "wrapper.o", tmp_path)
    listed = subprocess.run(["nm", str(out)], capture_output=True, text=True, check=True).stdout.splitlines()
    kinds = {line.split()[-2] for line in listed}
    assert "T" in kinds
    assert not kinds & set("DdBbCGgSs"), listed


@pytest.mark.parametrize("name", ["name", "host", "steps", "my_name_", "gated", "net_host_map", "refuse"])
def test_any_name(name: str) -> None:
    program = random_program(0, "bits", (3, 3, 5), layers=2, members=2)
    raw = random_inputs(program, 9)
    with Native(library_files(program, name), name, program, 1, ("-O0",)) as net:
        np.testing.assert_array_equal(net(raw), reference.answer(program, raw).label)
        np.testing.assert_array_equal(net.scores(raw, 1), reference.scores(program, raw, 1))


def test_a_wrapper_of_another_program_is_refused(tmp_path: Path) -> None:
    one, other = random_program(1, "uint8"), random_program(2, "uint8")
    with pytest.raises(build.BlrcError, match="are of two exports"):
        Native(library_files(one, "net"), "net", other)

"""No small program file makes a command take much memory: what compile, export and verify do with it, measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from legal_families import FAMILY, large_encode, many_convs, many_pools, much_padding, wide_pooling

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.legal import MOST_TOGETHER
from blrc.program.program import Program

ROOT = Path(__file__).parents[3]
LIMIT = 1 << 30
FAKES = ROOT / "tests" / "verification"

SCRIPT = """
import re, resource, sys
from pathlib import Path
sys.path.insert(0, {fakes!r})
import numpy as np
from fake_engines import reference_engine
from blrc.program import program_file, vectors
from blrc.app.compile import sources
from blrc.errors import BlrcError
from blrc.verification.folder import default_random
from blrc.verification.run import InputSet, Tally, compare_inputs, compare_ops
from blrc.verification.inputs.stimuli import adversarial_inputs, random_inputs
resource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))
quiet = lambda *_: None
path = Path({path!r})
try:
    if {command!r} == "compile":
        sources(path)
    else:
        program = program_file.load(path)
        given = adversarial_inputs(program.input)
        if {command!r} == "record":
            vectors.record(program, given[:2])
        else:
            tally = Tally()
            engines = [reference_engine(program)]
            compare_ops(program, engines, 0, tally, quiet)
            for raw in (given, random_inputs(program.input, min(20, default_random(program)), 0)):
                compare_inputs(program, engines, InputSet("x", raw), tally, quiet)
            assert tally.difference is None
    print("done")
except BlrcError as error:
    print(error)
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024)
"""


def end_of(command: str, content: bytes, folder: Path) -> tuple[str, int]:
    """How a command ends on a program file, and the bytes that it took at most."""
    path = folder / "p.program.npz"
    path.write_bytes(content)
    script = SCRIPT.format(limit=LIMIT, fakes=str(FAKES), path=str(path), command=command)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=500,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said, peak = done.stdout.splitlines()
    return said, int(peak)


def test_regression_many_pools_in_a_small_file_are_refused(tmp_path: Path) -> None:
    """89 kB took 3.3 GB in `blrc.compile`."""
    content = FAMILY["400 pools on 2048 x 2048"]()
    assert len(content) < 110_000
    said, peak = end_of("compile", content, tmp_path)
    assert "its maps have 1,681,915,907 values together; at most 33,554,432" in said
    assert peak < 1 << 28


@pytest.mark.slow("compiles what is as large as is legal")
@pytest.mark.parametrize(
    "name",
    ["6 pools on 2048 x 2048", pytest.param("1300 members of 50 pools on 100 x 100", marks=pytest.mark.nightly)],
)
def test_what_is_legal_is_compiled_in_little_memory(name: str, tmp_path: Path) -> None:
    said, peak = end_of("compile", FAMILY[name](), tmp_path)
    assert said == "done" and peak < 1 << 28


@pytest.mark.slow("verifies what is as large as is legal")
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(many_pools(1, 2048), id="pools"),
        pytest.param(many_convs(2, 600), id="convolutions", marks=pytest.mark.nightly),
        pytest.param(much_padding(2048), id="padding", marks=pytest.mark.nightly),
        pytest.param(wide_pooling(1500, 2), id="pooled wholly", marks=pytest.mark.nightly),
        pytest.param(large_encode(1500), id="encoded", marks=pytest.mark.nightly),
    ],
)
def test_what_is_legal_is_verified_within_a_gigabyte(content: bytes, tmp_path: Path) -> None:
    said, peak = end_of("verify", content, tmp_path)
    assert said == "done" and peak < LIMIT


@pytest.mark.nightly
def test_recording_takes_no_more_for_more_layers_or_members(tmp_path: Path) -> None:
    few, many = (end_of("record", many_pools(count, 100, members), tmp_path) for count, members in ((2, 1), (50, 9)))
    assert (few[0], many[0]) == ("done", "done")
    assert many[1] - few[1] < 20 << 20  # the maps of all of them have 9 MB, twice


@pytest.mark.parametrize("members", [1, 1300])
def test_honest_networks_are_far_below_the_bounds(members: int) -> None:
    """The maps of the CIFAR-10 network at full width have half a million values, whatever the members."""
    maps = 2 * 128 * 32 * 32 + 2 * 256 * 16 * 16 + 2 * 512 * 8 * 8 + 3 * 32 * 32
    assert 50 * maps < MOST_TOGETHER
    found = load(many_pools(20, 160, members))
    assert len(found.members) == members


def test_ops_are_counted_too() -> None:
    load(many_pools(998, 1))
    with pytest.raises(BlrcError, match="1,001 ops; at most 1,000"):
        load(many_pools(999, 1))


def load(content: bytes) -> Program:
    return program_file.parse(content, Path("p.npz"))

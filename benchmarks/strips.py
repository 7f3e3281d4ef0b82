"""What row strips save and cost, on the paper's CIFAR-10 network at full width (random weights).

    python benchmarks/strips.py [mnist cifar10] [--flags="-O2" --flags="-Os"]

Prints the arena, CPU time of one classification on this machine (smallest of several), and, where valgrind is
installed, instructions. Without strips every map is kept as a whole.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from c_kernels import NETWORKS, network

from blrc.program import program_file, reference
from blrc.program.program import Program
from blrc.program.vectors import record
from blrc.targets.c.build.host import HostBuild
from blrc.targets.c.emit import emit
from blrc.targets.c.layout import strips
from blrc.targets.options import EmitOptions

ROUNDS = 7


def instructions(binary: Path, folder: Path, functions: set[str]) -> int:
    """Of one classification, counted by callgrind: what these functions of the runtime, and all below them, execute."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'counts'}"]
    command += [f"--toggle-collect=bench_blrc_{function}" for function in sorted(functions)]
    command += [str(binary), "run", "0", "0", str(folder / "in"), str(folder / "out")]
    subprocess.run(command, capture_output=True, check=True)
    totals = re.search(r"^(?:totals|summary): (\d+)", (folder / "counts").read_text(), re.MULTILINE)
    assert totals is not None
    return int(totals[1])


def measure(program: Program, flags: Sequence[str]) -> str:
    """One line; refuses to time a wrong answer."""
    raw = np.random.default_rng(1).integers(0, 256, (1, *program.input.shape)).astype(np.uint8)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        emitted = emit(program, EmitOptions("bench", record(program, raw), "0"))
        for file, content in {**emitted.files, "bench.program.npz": program_file.to_bytes(program)}.items():
            (folder / file).write_bytes(content)
        with HostBuild(folder, "bench", flags) as build:
            expected, found = reference.run(program, raw), build.run(raw)
            if any(not np.array_equal(expected[name], found[name]) for name in found if name in expected):
                raise SystemExit("a wrong answer: not timed")
            ns = min(build.time(raw, 2)[1] for _ in range(ROUNDS))
            (folder / "in").write_bytes(raw.tobytes())
            counted = "-"
            if shutil.which("valgrind"):
                functions = {step.kernel for step in build.layout.steps} | {"strips_next"}
                counted = f"{instructions(build.build_folder / 'driver', folder, functions):,}"
            return f"arena {build.ram:6,} bytes  {ns / 1e6:8.3f} ms  {counted:>13} instructions"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=["mnist", "cifar10"], help=", ".join(NETWORKS))
    parser.add_argument("--flags", action="append", help="compiler flags, once for each pair of lines")
    arguments = parser.parse_args()
    for name in arguments.networks:
        program = network(*NETWORKS[name])
        for flags in arguments.flags or ["-O2", "-Os"]:
            for what, pays in (("whole maps", sys.maxsize), ("strips", 1)):
                strips.PAYS = pays
                print(f"{name} {flags} {what:10}  {measure(program, shlex.split(flags))}", flush=True)


if __name__ == "__main__":
    main()

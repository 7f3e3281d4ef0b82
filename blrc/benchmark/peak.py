"""The popcount peak of this machine: binary multiply-adds a second where all operands lie in registers.

One loop for each level of the instruction set (``peak.c``): xor, count, add with popcnt, AVX-512 and NEON (there, of
bytes); with AVX2, which has no instruction to count bits, look-up by byte shuffle and add. What the portable C does, a
compiler's flags decide: the loop is compiled with those of the kernels.
"""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from types import TracebackType

from blrc.benchmark.clock import Run
from blrc.targets.c.build import compiler as build
from blrc.targets.c.build.compiled import temporary_files
from blrc.targets.c.kernels.cpus import HOSTS, TIERS, X86_64, tier_file
from blrc.targets.c.kernels.tiers import host_cpu
from blrc.targets.c.native.library import host_flags
from blrc.targets.c.runtime_files import include_flags, runtime_dir, runtime_files

MACS = {"portable": 16 * 64, "popcnt": 16 * 64, "avx2": 16 * 128, "avx512": 16 * 512, "neon": 16 * 128}
"""Multiply-adds of one round of the loop."""
LOOPS = {"dotprod": "neon"}
"""Levels that count bits as another one does: sdot multiplies bytes."""
ROUNDS = 250  # of one run


class Peak:
    """The loops, compiled.

    Attributes:
        levels: those of the instruction set that this CPU has, the least first.

    Raises:
        BlrcError: no compiler, or it refuses them.
    """

    def __init__(self, cc: str | None = None) -> None:
        compiler, flags = build.find_compiler(cc), (*host_flags(), "-fPIC", *include_flags())
        with temporary_files():
            self._folder = tempfile.TemporaryDirectory(prefix="blrc-peak-")
        folder, include = Path(self._folder.name), runtime_dir() / "include"
        cpu = host_cpu() if host_cpu() in HOSTS else X86_64  # whose file finds no level above portable elsewhere
        sources = [Path(__file__).with_name("peak.c"), runtime_files()[tier_file(cpu)]]
        try:
            objects = [
                build.compile_object(compiler, flags, source, folder / f"{source.stem}.o", include)
                for source in sources
            ]
            self._library = ctypes.CDLL(str(build.link(compiler, (*flags, "-shared"), objects, folder / "peak.so")))
        except BaseException:
            self.close()
            raise
        self.levels = TIERS[cpu][: self._library.peak_level() + 1]

    def run(self, level: str) -> Run:
        """The loop of a level, `macs` a run."""
        loop = self._library[f"peak_{LOOPS.get(level, level)}"]
        loop.argtypes, loop.restype = (ctypes.c_uint64,), ctypes.c_uint64

        def run(repeats: int) -> None:
            loop(ROUNDS * repeats)

        return run

    def macs(self, level: str) -> int:
        """Multiply-adds of one run."""
        return ROUNDS * MACS[LOOPS.get(level, level)]

    def close(self) -> None:
        """Remove the temporary folder; what has been loaded goes on without its file."""
        self._folder.cleanup()

    def __enter__(self) -> Peak:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

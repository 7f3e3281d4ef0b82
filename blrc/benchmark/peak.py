"""Measure the popcount peak of this machine: binary multiply-adds per second with all operands in registers.

``peak.c`` has one loop for each level of the instruction set. With popcnt, AVX-512 and NEON it is xor, bit count and
add (in NEON the count is per byte). AVX2 has no instruction to count bits, so the loop looks them up by byte shuffle
and adds. What the portable loop becomes depends on the compiler's flags, which are those of the kernels.
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
ROUNDS = 250  # rounds of the loop in one run


class Peak:
    """Compile the loops and run them.

    Attributes:
        levels: levels of the instruction set that this CPU has, the lowest first.

    Raises:
        BlrcError: there is no compiler, or it refuses the loops.
    """

    def __init__(self, cc: str | None = None) -> None:
        compiler, flags = build.find_compiler(cc), (*host_flags(), "-fPIC", *include_flags())
        with temporary_files():
            self._folder = tempfile.TemporaryDirectory(prefix="blrc-peak-")
        folder, include = Path(self._folder.name), runtime_dir() / "include"
        cpu = host_cpu() if host_cpu() in HOSTS else X86_64  # on other CPUs its file finds only the portable level
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
        """Return a run of a level's loop, which does as many multiply-adds as `macs` returns."""
        loop = self._library[f"peak_{LOOPS.get(level, level)}"]
        loop.argtypes, loop.restype = (ctypes.c_uint64,), ctypes.c_uint64

        def run(repeats: int) -> None:
            loop(ROUNDS * repeats)

        return run

    def macs(self, level: str) -> int:
        """Return the number of multiply-adds of one run."""
        return ROUNDS * MACS[LOOPS.get(level, level)]

    def close(self) -> None:
        """Remove the temporary folder. The loaded library works without its file."""
        self._folder.cleanup()

    def __enter__(self) -> Peak:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

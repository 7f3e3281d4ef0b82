"""The CPUs that C can be made for (``--cpu``): one row each.

A new CPU is a row here, and C files where it has kernels of its own. What was measured of code and stack is written by
``tools/cortex_m_sizes.py`` into ``blrc/targets/c/size/sizes.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blrc.targets.c.runtime_files import runtime_files

PORTABLE, X86_64, AARCH64, CORTEX_M55 = "portable", "x86-64", "aarch64", "cortex-m55"


@dataclass(frozen=True)
class Cpu:
    """What choosing kernels needs to know of a CPU.

    Attributes:
        name: what ``--cpu`` says.
        counted: instructions for a multiply-add of a layer whose bits are counted by the portable kernels.
        lanes: bits of the words that bit-sliced kernels compute with, one for each pixel or output; 0: it has none.
        gather_words: words of a window's bits, at most, that are collected on the stack before they are counted.
        levels: of the instruction set, the least first (the runtime's BLRC_TIER_*), among which exports choose when
            they run. CPUs that have any are hosts: there is memory, and no budget for it.
        looks_up: some of the levels look up nibbles of weights, which are stored a second time for them.
        files: how the files of the runtime that are for this host end.
        machines: what `platform.machine` calls this host.
        sizes: the CPU on which code and stack were measured that bound those on this one.
    """

    name: str
    # docs/performance.md, MNIST's dense layer on a Cortex-M4: 0.31 (`dense`); CIFAR-10's: 0.29.
    counted: float = 0.3
    lanes: int = 32
    gather_words: int = 36
    levels: tuple[str, ...] = ()
    looks_up: bool = False
    files: str = ""
    machines: tuple[str, ...] = ()
    sizes: str = "cortex-m4"

    def inner_loops(self, family: str) -> tuple[str, ...]:
        """Return the sources with a family's inner loops for this host: one for each level, and what chooses one."""
        names = [f"{family}_{end}" for end in (*self.levels, self.files)]
        return tuple(name for name in names if f"blrc_{name}.c" in runtime_files())


_ROWS = (
    Cpu(PORTABLE),
    Cpu(
        X86_64,
        lanes=0,
        levels=("portable", "popcnt", "avx2", "avx512"),
        looks_up=True,
        files="x86",
        machines=("x86_64", "AMD64"),
    ),
    Cpu(
        AARCH64,
        lanes=0,
        levels=("portable", "neon", "dotprod"),
        files="aarch64",
        machines=("aarch64", "arm64", "ARM64"),
    ),
    # docs/decisions/020-vectors.md, MNIST's dense layer: 174,000 instructions for 1.61 million multiply-adds, 0.11.
    # One count for each output of up to 144 words, and not one for each kernel row, is worth the stack there.
    Cpu(CORTEX_M55, counted=0.12, lanes=128, gather_words=144, sizes="cortex-m55"),
    # The portable kernels count bits in its vectors (docs/decisions/020-vectors.md), so that it has none of its own.
    Cpu("rv64gcv"),
)
CPUS: Mapping[str, Cpu] = {cpu.name: cpu for cpu in _ROWS}
HOSTS = tuple(cpu.name for cpu in _ROWS if cpu.levels)
TIERS: Mapping[str, tuple[str, ...]] = {name: CPUS[name].levels for name in HOSTS}
"""By host, whose kernels choose a level when they run: by BLRC_TIER_*, the runtime's numbers."""


def tier_file(cpu: str) -> str:
    """Return the name of the runtime's source that says which level a host's CPU has."""
    return f"blrc_tier_{CPUS[cpu].files}.c"

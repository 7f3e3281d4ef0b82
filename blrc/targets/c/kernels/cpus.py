"""List the CPUs that C can be made for (``--cpu``), with one row for each.

A new CPU needs a row here, and C files if it has kernels of its own. ``tools/cortex_m_sizes.py`` measures code and
stack and writes them to ``blrc/targets/c/size/sizes.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blrc.targets.c.runtime_files import runtime_files

PORTABLE, X86_64, AARCH64, CORTEX_M55 = "portable", "x86-64", "aarch64", "cortex-m55"


@dataclass(frozen=True)
class Cpu:
    """Describe what the choice of kernels needs to know of a CPU.

    Attributes:
        name: the value of ``--cpu``.
        counted: instructions that the portable kernels take for a multiply-add of a layer whose bits they count.
        lanes: bits of the words that bit-sliced kernels compute with, one for each pixel or output; 0 if the CPU has no
            such kernels.
        gather_words: the most words of a window's bits that are collected on the stack before they are counted.
        levels: levels of the instruction set, lowest first (the runtime's BLRC_TIER_*). An export chooses among them
            when it runs. A CPU with any levels is a host, where memory is plentiful and has no budget.
        looks_up: whether some of the levels look up nibbles of weights, for which the weights are stored a second time.
        files: how the names of the runtime's files for this host end.
        machines: the names that `platform.machine` has for this host.
        sizes: the CPU on which the code and stack were measured that serve as bounds for this one.
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
        """Return the runtime's sources with a family's inner loops for this host.

        There is one source for each level, and one that chooses a level.
        """
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
"""Lists the levels of each host, among which its kernels choose when they run, in the order of BLRC_TIER_*."""


def tier_file(cpu: str) -> str:
    """Return the name of the runtime's source that says which level a host's CPU has."""
    return f"blrc_tier_{CPUS[cpu].files}.c"

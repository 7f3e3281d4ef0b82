"""Kernels of exports for hosts (x86-64, AArch64): which op has one, and the runtime's files that it needs besides its
own. Both share outer loops and tables; the inner loops, one for each level of the instruction set, are their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from blrc.program.program import Conv, Encode, Op, Program, Scores
from blrc.targets.c.kernels import dots, lanes, tiles
from blrc.targets.c.kernels.cpus import AARCH64, TIERS, X86_64
from blrc.targets.c.kernels.steps import Step

HOSTS = tuple(TIERS)
LEVELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    X86_64: {"tile": TIERS[X86_64], "dots": TIERS[X86_64], "lanes": ("popcnt", "avx2")},
    AARCH64: {"tile": ("portable", "neon"), "dots": TIERS[AARCH64]},
}
"""By host and family of inner loops, what these are called: each level that has one of its own."""
CHOSEN = {"tile", "dots"}
"""Families of which a file of their own takes one, by the level: those that several kernels share."""
FAMILIES = {
    "conv_tiles": "tile",
    "dense_tiles": "tile",
    "conv_dots": "dots",
    "scores_dots": "dots",
    "conv_lanes": "lanes",
}
"""By kernel, what the files of its inner loops are called: one for each level of the instruction set."""


def step(program: Program, op: Op, encode: Encode | None, cpu: str) -> Step | None:
    """The step of an op that has such a kernel, else None: the portable one has to do."""
    x86 = cpu == X86_64
    if isinstance(op, Conv):
        if op.x.dtype != "bits":
            return dots.conv(program, op, encode)
        sliced = lanes.step(program, op) if x86 else None  # NEON counts bits in vectors: slicing them gains nothing
        return sliced or tiles.step(program, op, looks_up=x86)
    return dots.scores(program, op) if isinstance(op, Scores) else None


def is_for_hosts(file: str) -> bool:
    """The runtime's file of this name serves exports for hosts alone."""
    return not {"tier", "tile", "tiles", "dots", "lanes", "neon"}.isdisjoint(re.split(r"[_.]", file))


def tier_file(cpu: str) -> str:
    """The runtime's source that says which level a host's CPU has."""
    return f"blrc_tier_{_short(cpu)}.c"


def files(kernels: Collection[str], cpu: str) -> set[str]:
    """Sources of the inner loops of these kernels, and of the choice between them."""
    families = {FAMILIES[kernel] for kernel in kernels if kernel in FAMILIES}
    if "lanes" in families:
        families.add("tile")
    found = {f"blrc_{family}_{level}.c" for family in families for level in LEVELS[cpu][family]}
    found |= {f"blrc_{family}_{_short(cpu)}.c" for family in families & CHOSEN}
    if "lanes" in families:
        found.add("blrc_conv_tiles.c")
    return found | {tier_file(cpu)} if families else set()


def _short(cpu: str) -> str:
    """As files of the runtime are called."""
    return cpu.removesuffix("-64")

"""Which kernels the farm has to reach: those that exist, by the files of the runtime, and at which levels."""

from __future__ import annotations

import re
from collections.abc import Collection

from blrc.targets.c.kernels.cpus import TIERS, X86_64
from blrc.targets.c.kernels.hosts import FAMILIES
from blrc.targets.c.runtime_files import runtime_sources

FROM_NO_CHECKPOINT = {"encode", "scores_int16"}
"""No module gives a program with them: two layers that read the same codes, or scores of 16 bits.
`tests/targets/c/test_c_sanitizers.py` runs them."""


def kernels() -> frozenset[str]:
    """Names of all kernels that a step can be: files of the runtime whose main function bears their name."""
    found = set()
    for path in runtime_sources():
        name = path.stem.removeprefix("blrc_")
        if re.match(r"(conv|dense|scores|pool|encode)", name):
            found.add(name)
    return frozenset(found)


def wanted(tiers: Collection[str]) -> frozenset[str]:
    """What the farm should reach: all kernels of checkpoints, and those for x86-64 at each of these levels."""
    found = set(kernels()) - FROM_NO_CHECKPOINT
    levels = [tier for tier in TIERS[X86_64] if tier in tiers]
    return frozenset(found | {f"{kernel}@{tier}" for kernel in FAMILIES for tier in levels})

"""Say which kernels the farm has to reach, and at which levels."""

from __future__ import annotations

from collections.abc import Collection

from blrc.targets.c.kernels.cpus import TIERS, X86_64
from blrc.targets.c.kernels.registry import KERNELS

FROM_NO_CHECKPOINT = {"encode", "scores_int16"}
"""No module gives a program with them: two layers that read the same codes, or scores of 16 bits.
`tests/targets/c/test_c_sanitizers.py` runs them. Those of ternary weights, and of ones of 8 bits, are run by
farm_direct.py alone."""


def wanted(tiers: Collection[str]) -> frozenset[str]:
    """What the farm should reach: all kernels of checkpoints, and those for x86-64 at each of these levels."""
    found = {name for name, kernel in KERNELS.items() if not (kernel.ternary or kernel.whole)} - FROM_NO_CHECKPOINT
    levels = [tier for tier in TIERS[X86_64] if tier in tiers]
    return frozenset(found | {f"{name}@{tier}" for name, kernel in KERNELS.items() if kernel.inner for tier in levels})

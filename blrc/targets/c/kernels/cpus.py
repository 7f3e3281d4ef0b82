"""What C can be made for (``--cpu``), and the levels of the instruction set that exports for hosts choose from."""

from __future__ import annotations

from collections.abc import Mapping

PORTABLE, X86_64, AARCH64, CORTEX_M55 = "portable", "x86-64", "aarch64", "cortex-m55"
CPUS = (PORTABLE, X86_64, AARCH64, CORTEX_M55)

TIERS: Mapping[str, tuple[str, ...]] = {
    X86_64: ("portable", "popcnt", "avx2", "avx512"),
    AARCH64: ("portable", "neon", "dotprod"),
}
"""By host, whose kernels choose a level when they run: by BLRC_TIER_*, the runtime's numbers."""

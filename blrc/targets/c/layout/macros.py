"""Set the runtime's macros in an export, so that types and buffers on the stack are no larger than its layers need."""

from __future__ import annotations

from blrc.targets.c.kernels.families.codes import CODE_ROWS, CODES
from blrc.targets.c.kernels.families.levels import BYTES, limit_bits
from blrc.targets.c.layout.layout import HOSTS, Layout
from blrc.targets.c.runtime_files import constant

TILED = ("BLRC_TILE_LINES", "BLRC_TILE_HELD", "BLRC_TILE_RUN")
"""Those of exports for hosts alone."""
DEFAULTS = {
    macro: constant(macro)
    for macro in (
        *("BLRC_BIT_THRESHOLDS", "BLRC_CODE_THRESHOLDS", "BLRC_GATHER_WORDS", "BLRC_CODES", "BLRC_CODE_ROWS"),
        *("BLRC_BYTES", "BLRC_LEVEL_LIMITS"),
        *TILED,
    )
}
"""What the runtime's header says of each before an export changes it."""
LEAST_CODE_ROWS = 8
"""Rows of a block of codes, whose nibbles fill a word."""


def runtime_macros(layout: Layout) -> dict[str, int]:
    """Return the values that an export of this layout gives to the runtime's macros."""
    most: dict[str, int] = {}
    for step in layout.steps:
        for macro, value in step.record.asks(step.op).items():
            most[macro] = max(most.get(macro, 1), value)
    codes = most.get("BLRC_CODES", 1)
    return {
        **({macro: most.get(macro, 1) for macro in TILED} if layout.cpu in HOSTS else {}),
        "BLRC_BIT_THRESHOLDS": layout.thresholds["bits"],
        "BLRC_CODE_THRESHOLDS": layout.thresholds["int8"],
        "BLRC_LEVEL_LIMITS": limit_bits(layout.program),
        "BLRC_BYTES": most.get("BLRC_BYTES", BYTES),
        "BLRC_GATHER_WORDS": most.get("BLRC_GATHER_WORDS", 1),
        "BLRC_CODES": min(-(-codes // 4) * 4, CODES),
        # Where all codes of a pixel are tabulated at once, the tables serve every block: blocks of 8 lay out the same.
        "BLRC_CODE_ROWS": CODE_ROWS if codes > CODES else LEAST_CODE_ROWS,
    }

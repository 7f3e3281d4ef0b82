"""The runtime's macros that an export sets: no wider types and no larger buffers on the stack than its layers need."""

from __future__ import annotations

from blrc.net.bits import words
from blrc.program.program import Conv
from blrc.targets.c.kernels import tiles
from blrc.targets.c.layout.layout import CODE_ROWS, CODES, GATHER_WORDS, HOSTS, Layout

DEFAULTS = {
    "BLRC_BIT_THRESHOLDS": 32,
    "BLRC_CODE_THRESHOLDS": 32,
    "BLRC_GATHER_WORDS": GATHER_WORDS,
    "BLRC_CODES": CODES,
    "BLRC_CODE_ROWS": CODE_ROWS,
    "BLRC_TILE_LINES": 1024,
    "BLRC_TILE_HELD": 16,
    "BLRC_TILE_RUN": 256,
}
"""What the runtime's header says of each before an export changes it."""


def runtime_macros(layout: Layout) -> dict[str, int]:
    """What the runtime's header says in an export of this layout, by macro."""
    collected, codes = [1], [1]
    for step in layout.steps:
        op = step.op
        if not isinstance(op, Conv):
            continue
        tap = words(op.group_channels)
        if step.kernel == "conv_gather":
            collected.append(op.window.taps * tap)
        elif step.kernel == "conv_packed":
            collected.append(words(op.fan_in))
        elif step.kernel == "conv_taps":
            collected.append(min(tap, GATHER_WORDS))
        elif step.kernel in ("conv_codes", "conv_pairs"):
            codes.append(op.fan_in)
        elif step.kernel == "conv_columns":
            codes.append(4 * op.window.kernel[0])
    most = max(codes)
    convs = [
        step.op for step in layout.steps if step.kernel in ("conv_tiles", "conv_lanes") and isinstance(step.op, Conv)
    ]
    tiled = {
        "BLRC_TILE_LINES": max(map(tiles.line_words, convs), default=1),
        "BLRC_TILE_HELD": max((op.window.span[0] for op in convs), default=1),
        "BLRC_TILE_RUN": max(map(tiles.run_words, convs), default=1),
    }
    return {
        **(tiled if layout.cpu in HOSTS else {}),
        "BLRC_BIT_THRESHOLDS": layout.thresholds["bits"],
        "BLRC_CODE_THRESHOLDS": layout.thresholds["int8"],
        "BLRC_GATHER_WORDS": max(collected),
        "BLRC_CODES": min(-(-most // 4) * 4, CODES),
        # Where all codes of a pixel are tabulated at once, the tables serve every block: blocks of 8 lay out the same.
        "BLRC_CODE_ROWS": CODE_ROWS if most > CODES else 8,
    }

"""Kernels of exports for x86-64: which op has one, and the runtime's files that it needs besides its own."""

from __future__ import annotations

import re
from collections.abc import Collection

from blrc.program import Conv, Encode, Op, Program, Scores
from blrc.targets.c import dots, lanes, tiles
from blrc.targets.c.steps import Step

_ALL = ("portable", "popcnt", "avx2", "avx512")
LEVELS = {"tile": _ALL, "dots": _ALL, "lanes": ("popcnt", "avx2")}
FAMILIES = {
    "conv_tiles": "tile",
    "dense_tiles": "tile",
    "conv_dots": "dots",
    "scores_dots": "dots",
    "conv_lanes": "lanes",
}
"""By kernel, what the files of its inner loops are called: one for each level of the instruction set."""


def step(program: Program, op: Op, encode: Encode | None) -> Step | None:
    """The step of an op that has such a kernel, else None: the portable one has to do."""
    if isinstance(op, Conv):
        if op.x.dtype != "bits":
            return dots.conv(program, op, encode)
        return lanes.step(program, op) or tiles.step(program, op)
    return dots.scores(program, op) if isinstance(op, Scores) else None


def is_for_x86(file: str) -> bool:
    """The runtime's file of this name serves exports for x86-64 alone."""
    return not {"tier", "tile", "tiles", "dots", "lanes"}.isdisjoint(re.split(r"[_.]", file))


def files(kernels: Collection[str]) -> set[str]:
    """Sources of the inner loops of these kernels, and of the choice between them."""
    families = {FAMILIES[kernel] for kernel in kernels if kernel in FAMILIES}
    if "lanes" in families:
        families.add("tile")
    found = {f"blrc_{family}_{level}.c" for family in families for level in LEVELS[family]}
    if "lanes" in families:
        found.add("blrc_conv_tiles.c")
    return found | {"blrc_tier.c"} if families else set()

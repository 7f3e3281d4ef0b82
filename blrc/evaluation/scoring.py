"""Scores of many programs of one structure: by their generated C where there is a compiler, else by torch.

Both are equal to `blrc.program.reference` bit for bit. The C is compiled once for all networks that differ in their
tables only (`blrc.targets.c.native.slots`), and its first scores are compared with the reference's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.evaluation import quick
from blrc.program import program_file, reference
from blrc.program.program import Program
from blrc.targets.c.native.slots import Slots, structure

CHECKED = 8
_lock = threading.Lock()


def scores(programs: Sequence[Program], raw: NDArray[Any]) -> list[NDArray[np.int32]]:
    """Scores of the first member of each program, int32 ``(N, classes)`` each.

    Args:
        programs: of one structure (members, or one member with several thresholds), so that they take the same input.
        raw: input in device layout, ``(N, H, W, C)``, as for `reference.scores`.
    """
    native = compiled(programs[0])
    if native is None:
        return quick.scores(programs, raw)
    x = raw.astype(bool, copy=False) if programs[0].input.dtype == "bits" else raw
    found = [native.scores(program, x, torch.get_num_threads()) for program in programs]
    for program, ours in zip(programs, found, strict=True):
        if not np.array_equal(ours[:CHECKED], reference.scores(program, x[:CHECKED])):
            return quick.scores(programs, raw)
    return found


def compiled(program: Program) -> Slots | None:
    """The library for all networks of this program's structure; None where it cannot be compiled here."""
    with _lock:
        return _compiled(_Structure(program))


class _Structure:
    """A program that is equal to others of its structure."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.digest = program_file.digest(structure(program))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=8)
def _compiled(common: _Structure) -> Slots | None:
    try:
        return Slots(common.program)
    except BlrcError:
        return None

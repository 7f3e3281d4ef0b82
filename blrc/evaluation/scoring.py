"""Compute scores of many programs of one structure: by their generated C, by ONNX Runtime, or by the reference.

The C is compiled once for all networks that differ in their tables only (`blrc.targets.c.native.slots`). If there is no
compiler, ONNX Runtime computes the scores. If that is not installed either, or refuses the network, the reference
does, which takes several times as long. The first scores of each program are compared with the reference's, and an
engine that differs is not used.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blrc import version
from blrc.errors import BlrcError
from blrc.extras import lacking
from blrc.program import program_file, reference, vectors
from blrc.program.program import Program
from blrc.targets.c.native.slots import Slots, structure
from blrc.targets.options import EmitOptions

CHECKED = 8
_lock = threading.Lock()


def scores(programs: Sequence[Program], raw: NDArray[Any]) -> list[NDArray[np.int32]]:
    """Return the scores of the first member of each program, int32 ``(N, classes)`` each.

    Args:
        programs: programs of one structure (members, or one member with several thresholds), which take the same input.
        raw: input in device layout, ``(N, H, W, C)``, as for `reference.scores`.
    """
    native = compiled(programs[0])
    x = raw.astype(bool, copy=False) if programs[0].input.dtype == "bits" else raw
    if native is not None:
        found = [native.scores(program, x, torch.get_num_threads()) for program in programs]
        if all(_is_right(program, x, ours) for program, ours in zip(programs, found, strict=True)):
            return found
    return [without_c(program, x) for program in programs]


def without_c(program: Program, x: NDArray[Any]) -> NDArray[np.int32]:
    """Compute the scores by ONNX Runtime if it is installed and right, or else by the reference.

    For a structure that is needed once this is quicker than to compile it.
    """
    if lacking("onnx") is None and lacking("onnxruntime") is None:
        with suppress(BlrcError):  # a layer or the file is too large for ONNX, or the runtime refuses it
            found = by_onnx_runtime(program, x)
            if _is_right(program, x, found):
                return found
    return reference.scores(program, x)


def by_onnx_runtime(program: Program, x: NDArray[Any]) -> NDArray[np.int32]:
    """Compute the scores of the first member by ONNX Runtime, which has to be installed."""
    from blrc.targets.onnx.emit import emit
    from blrc.targets.onnx.session import OnnxRun

    options = EmitOptions("scores", vectors.unknown(program, x[:0]), version.VERSION, onnx_outputs="scores")
    (model,) = emit(program, options).files.values()
    return OnnxRun(model, program, torch.get_num_threads()).classify(x)[1][:, 0]


def _is_right(program: Program, x: NDArray[Any], found: NDArray[np.int32]) -> bool:
    return bool(np.array_equal(found[:CHECKED], reference.scores(program, x[:CHECKED])))


def compiled(program: Program) -> Slots | None:
    """Return the library for all networks of this program's structure, or None if it cannot be compiled here."""
    with _lock:
        return _compiled(_Structure(program))


class _Structure:
    """Hold a program that compares equal to all others of its structure."""

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

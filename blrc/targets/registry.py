"""The targets by name: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blrc.program import Program
from blrc.targets import c, onnx, web
from blrc.targets.options import EmitOptions, Emitted

Emit = Callable[[Program, EmitOptions], Emitted]

TARGETS: Mapping[str, Emit] = {
    "c": c.emit,
    "onnx": onnx.emit,
    "web": web.emit,
}

NEEDS: Mapping[str, Callable[[], object]] = {"web": web.find_tools}
"""For targets that need other programs: raises a `BlrcError` where one is not installed, before all else."""

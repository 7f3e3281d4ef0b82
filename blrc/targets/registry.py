"""The targets by name: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blrc.extras import require
from blrc.program import Program
from blrc.targets import c, web
from blrc.targets.options import EmitOptions, Emitted

Emit = Callable[[Program, EmitOptions], Emitted]


def _emit_onnx(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets import onnx  # an optional package

    return onnx.emit(program, options)


TARGETS: Mapping[str, Emit] = {
    "c": c.emit,
    "onnx": _emit_onnx,
    "web": web.emit,
}

NEEDS: Mapping[str, Callable[[], object]] = {"web": web.find_tools, "onnx": lambda: require("onnx", "target onnx")}
"""For targets that need other programs or packages: raises a `BlrcError` where one is missing, before all else."""

"""The targets by name: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blrc.program import Program
from blrc.targets import c, onnx
from blrc.targets.options import EmitOptions, Emitted

Emit = Callable[[Program, EmitOptions], Emitted]

TARGETS: Mapping[str, Emit] = {
    "c": c.emit,
    "onnx": onnx.emit,
}

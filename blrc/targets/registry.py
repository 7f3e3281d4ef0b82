"""The targets by name: one line each. A target is imported when it is used: each needs packages of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blrc.extras import require
from blrc.program.program import Program
from blrc.targets.options import EmitOptions, Emitted

Emit = Callable[[Program, EmitOptions], Emitted]


def _c(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets import c

    return c.emit(program, options)


def _onnx(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets.onnx import emit

    return emit.emit(program, options)


def _web(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets import web

    return web.emit(program, options)


def _web_tools() -> object:
    from blrc.targets import web

    return web.find_tools()


TARGETS: Mapping[str, Emit] = {"c": _c, "onnx": _onnx, "web": _web}

NEEDS: Mapping[str, Callable[[], object]] = {"web": _web_tools, "onnx": lambda: require("onnx", "target onnx")}
"""For targets that need other programs or packages: raises a `BlrcError` where one is missing, before all else."""

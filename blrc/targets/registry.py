"""List the targets by name, one line each.

A target is imported only when it is used, because each needs packages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from blrc.errors import BlrcError
from blrc.extras import require

if TYPE_CHECKING:
    from blrc.program.program import Program
    from blrc.targets.options import EmitOptions, Emitted

    Emit = Callable[[Program, EmitOptions], Emitted]


def _c(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets.c.emit import emit

    return emit(program, options)


def _onnx(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets.onnx.emit import emit

    return emit(program, options)


def _web(program: Program, options: EmitOptions) -> Emitted:
    from blrc.targets.web.emit import emit

    return emit(program, options)


def _web_tools() -> object:
    from blrc.targets.web.wasm import find_tools

    return find_tools()


TARGETS: Mapping[str, Emit] = {"c": _c, "onnx": _onnx, "web": _web}

NEEDS: Mapping[str, Callable[[], object]] = {"web": _web_tools, "onnx": lambda: require("onnx", "target onnx")}
"""For targets that need other programs or packages: raises a `BlrcError` where one is missing, before all else."""

_PRODUCTS = {"c": "the C", "onnx": "the ONNX file"}


def parse_targets(targets: str | Sequence[str]) -> tuple[str, ...]:
    """Return the targets asked for, each once and sorted.

    Raises:
        BlrcError: there is no such target, or none is given.
    """
    chosen = (targets,) if isinstance(targets, str) else tuple(targets)
    unknown = [target for target in chosen if target not in TARGETS]
    if unknown or not chosen:
        raise BlrcError(f"unknown target {', '.join(map(repr, unknown)) or '(none)'}; known: {', '.join(TARGETS)}")
    return tuple(sorted(set(chosen)))


def refuse_options(target: str, given: Mapping[str, object]) -> None:
    """Refuse options of a target that is not asked for.

    Args:
        target: the target that the options are about.
        given: the options by the names that a user types; None stands for one that was left out.

    Raises:
        BlrcError: one of them was given.
    """
    for flag, value in given.items():
        if value is not None:
            raise BlrcError(f"{flag} {value} is about {_PRODUCTS[target]}; add --target {target}")

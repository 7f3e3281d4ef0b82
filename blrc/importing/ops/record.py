"""Define what a handler of an operator takes and gives, and the checks that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.build import Builder
from blrc.importing.file import Op
from blrc.importing.flow import Answer, Constant, Flow, Value
from blrc.importing.refusal import RefusalError

QONNX = ("onnx.brevitas", "qonnx", "finn")
"""Domains of QONNX's and FINN's operators, and beginnings of others that are followed by a dot."""


@dataclass(frozen=True)
class Context:
    """Hold what handlers share.

    Attributes:
        opset: version of ONNX's own operators.
        batch: the batch that the file's shapes are computed with.
        build: collects the layers.
    """

    opset: int
    batch: int
    build: Builder


@dataclass(frozen=True, eq=False)
class Taken:
    """Say what a node is taken for: its outputs (those that are known), and in words."""

    outputs: tuple[Value, ...]
    says: str


Args = Sequence[Value | None]
Run = Callable[[Context, Op, Args], Taken]


@dataclass(frozen=True)
class Handler:
    """Describe an operator: what runs for it, and whether it belongs to QONNX or FINN rather than to ONNX."""

    run: Run
    foreign: bool = False

    def owns(self, domain: str) -> bool:
        """Return whether an operator of a domain is this one."""
        ours = any(domain == name or domain.startswith(f"{name}.") for name in QONNX)
        return ours if self.foreign else not domain


def flow(args: Args, index: int = 0) -> Flow:
    """Return an input that depends on the network's input.

    Raises:
        RefusalError: it is a constant, left out, or was computed from the scores.
    """
    held = args[index] if index < len(args) else None
    if isinstance(held, Flow):
        return held
    if isinstance(held, Answer):
        raise RefusalError("it comes after the scores were turned into an answer", "let the network end there")
    raise RefusalError("its first input is a constant or left out", "export the network again")


def check_unpadded(x: Flow) -> None:
    """Refuse what a Pad has put numbers around, which only the next convolution or pool can take over.

    Raises:
        RefusalError: there is padding.
    """
    if any(x.pads):
        what = "zeros were" if not x.fill else f"{float(x.fill):g} was"
        raise RefusalError(f"{what} padded around its input", "pad directly before a convolution or pool", then=x)


def constant(args: Args, index: int, what: str) -> NDArray[Any]:
    """Return an input that is a constant.

    Raises:
        RefusalError: it is none.
    """
    held = args[index] if index < len(args) else None
    if isinstance(held, Constant):
        return held.array
    if held is None:
        raise RefusalError(f"its {what} is left out", "export the network again")
    raise RefusalError(
        f"its {what} is computed from the input",
        "only constants are taken there; such a network has no fixed thresholds",
    )


def optional(args: Args, index: int, what: str) -> NDArray[Any] | None:
    return None if index >= len(args) or args[index] is None else constant(args, index, what)


def scalar(what: str, held: NDArray[Any]) -> float:
    """Return the one value of a constant, which may be repeated.

    Raises:
        RefusalError: it has several values.
    """
    if not held.size or not (held == held.reshape(-1)[0]).all():
        raise RefusalError(f"its {what} has several values", "give one value for all channels")
    return float(held.reshape(-1)[0])


def ints(attributes: Mapping[str, Any], name: str, default: Sequence[int]) -> tuple[int, ...]:
    """Return an attribute that is a list of whole numbers, of the length of `default`.

    Raises:
        RefusalError: it is something else.
    """
    held = attributes.get(name, default)
    if not isinstance(held, list | tuple) or len(held) != len(default) or not all(type(n) is int for n in held):
        raise RefusalError(
            f"its {name} is {str(held)[:40]}, not {len(default)} whole numbers", "export the network again"
        )
    return tuple(held)


def number(attributes: Mapping[str, Any], name: str, default: float) -> float:
    """Return an attribute that is one finite number.

    Raises:
        RefusalError: it is something else.
    """
    held = attributes.get(name, default)
    if not isinstance(held, int | float) or not np.isfinite(held):
        raise RefusalError(f"its {name} is {str(held)[:40]}, not a finite number", "export the network again")
    return float(held)

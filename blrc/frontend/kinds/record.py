"""Define the record of a layer's kind, and the checks of single options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.kinds.node import Node
from blrc.net.net import Layer, Reals
from blrc.net.window import count

Options = Mapping[str, Any]
Check = Callable[[str, str, Any], None]
"""Refuse the value of an option: who has it, its name, and its value."""
LARGEST = 1e30  # of an eps: its product with the square of a scale is a number of float64
LONGEST = 100  # characters of a text among options: all that are known are far shorter


@dataclass(frozen=True)
class Tensor:
    """Describe a parameter or buffer of a layer.

    Attributes:
        shape: shape of its values.
        numbers: ``float``, ``int``, or ``weights``, which are floats, or int8 (codes, signs) in a compact checkpoint.
    """

    shape: tuple[int, ...]
    numbers: Literal["float", "int", "weights"] = "float"

    def takes(self, held: NDArray[Any]) -> bool:
        """Return whether an array can be this tensor, by its shape and type."""
        kinds = {"float": "f", "int": "i", "weights": "f"}[self.numbers]
        fits = held.dtype.kind == kinds or (self.numbers == "weights" and held.dtype == np.int8)
        return fits and held.shape == self.shape


class Values(Protocol):
    """Give the numbers of one layer of one member."""

    def weights(self) -> NDArray[np.int8]:
        """Return the weights, +-1, or of ternary layers -1, 0 or +1."""

    def reals(self, tensor: str) -> Reals:
        """Return a tensor by its name within the layer."""

    def optional(self, tensor: str) -> Reals | None:
        """Return a tensor by its name within the layer, or None if the layer does not have it."""

    @property
    def running(self) -> bool:
        """Return whether norms keep the running statistics of training."""


@dataclass(frozen=True)
class Kind:
    """Describe one kind of layer.

    Attributes:
        name: what a checkpoint calls it.
        options: the check of every option by its name; a node has exactly these.
        together: refuses options that do not go together, after each has been checked by itself.
        tensors: gives the layer's parameters and buffers by name, from its options.
        layer: gives the layer of a net, from the node and the numbers of a member; None where a network with fixed
            weights passes its input on.
        since: the first version of checkpoints whose readers know the kind.
    """

    name: str
    options: Mapping[str, Check]
    together: Callable[[str, Options], None]
    tensors: Callable[[Options], Mapping[str, Tensor]]
    layer: Callable[[str, Node, Values], Layer | None]
    since: int = 1

    def check(self, who: str, options: Options) -> None:
        """Refuse options that are unknown, missing, of another type or out of range; the message starts with `who`."""
        for option in options:
            if option not in self.options:
                known = ", ".join(self.options) or "none"
                raise BlrcError(f"{who}: a {self.name} has no option {shown(option)}; its options are {known}")
        for option, check in self.options.items():
            if option not in options:
                raise BlrcError(f"{who}: option {option!r} is missing")
            _check_plain(who, option, options[option])
            check(who, option, options[option])
        self.together(who, options)


def anything(who: str, option: str, value: Any) -> None:
    """Accept any value, and leave the check to `Kind.together`."""


def no_more(who: str, options: Options) -> None:
    """Accept all options together, for kinds that check each option only by itself."""


def size(who: str, option: str, value: Any) -> None:
    """Refuse anything but a number of channels or features."""
    count(who, option, value)


def flag(who: str, option: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if type(value) is not bool:
        raise BlrcError(f"{who}: {option} {shown(value)}: give True or False")


def not_negative(who: str, option: str, value: Any) -> None:
    """Refuse anything but a finite number from 0 to `LARGEST`."""
    if not (_is_real(value) and 0 <= value <= LARGEST):
        raise BlrcError(
            f"{who}: {option} {shown(value)}: must be finite and not negative, {LARGEST} at most; train with 1e-5, say"
        )


def positive(who: str, option: str, value: Any) -> None:
    """Refuse anything but a finite number above 0."""
    if not (_is_real(value) and math.isfinite(value) and value > 0):
        raise BlrcError(f"{who}: {option} {shown(value)}: must be finite and positive")


def real_or_none(who: str, option: str, value: Any) -> None:
    """Refuse anything but a finite number and None."""
    if value is not None and not (_is_real(value) and math.isfinite(value)):
        raise BlrcError(f"{who}: {option} {shown(value)}: give a number, or None")


def shown(value: Any) -> str:
    """Return a value as messages show it: short ones in full, long texts cut, and of anything else only the type."""
    if value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() < 128):
        return repr(value)
    if type(value) is str:
        return ascii(value if len(value) <= LONGEST else f"{value[:LONGEST]}...")
    return f"(of type {type(value).__name__})"


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and (type(value) is float or value.bit_length() < 128)


def _check_plain(who: str, option: str, value: Any) -> None:
    """Refuse anything but None, a number, a short text, and up to four numbers."""
    numbers = value if type(value) in (list, tuple) and len(value) <= 4 else (value,)
    for number in numbers:
        short = type(number) is str and len(number) <= LONGEST and number is value
        if not (number is None or type(number) is bool or _is_real(number) or short):
            raise BlrcError(
                f"{who}: option {option!r} {shown(number)}: give a number, up to four, a short text or None"
            )

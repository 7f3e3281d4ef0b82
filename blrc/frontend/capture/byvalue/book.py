"""Make the atoms of a network, each once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blrc.frontend.capture.byvalue.steps import Limits, Pixels, limits_of, steps_of
from blrc.frontend.capture.byvalue.tape import line
from blrc.frontend.capture.byvalue.values import (
    OPAQUE,
    PIXELS,
    Atom,
    Held,
    Reals,
    Sum,
    Table,
    Tap,
    Value,
    table_of_bits,
)
from blrc.net.net import INPUT

_SAME_TWICE = ("clip", "relu", "prelu", "scale", "shift")
"""Kinds that estimators compute twice, once to be kept and once to cancel."""
FOLDED = 2.0**-18
"""How far a last real layer that took up what followed it may be off, relative to its weights; they become int8."""


@dataclass(frozen=True, eq=False)
class Padded:
    """Hold a map, the values that the module computed of it, and numbers that were put around it.

    Attributes:
        sides: how many at the top, left, bottom and right.
        value: the number; it is the same everywhere.
    """

    held: Held
    tensor: torch.Tensor
    sides: tuple[int, int, int, int] = (0, 0, 0, 0)
    value: float = 0.0


Bits = tuple[Atom, Reals, Reals]
"""An atom of +-1, and for each channel by what it is multiplied, and what is added then."""


class Book:
    """Number the atoms of one run of a network."""

    def __init__(self, shape: tuple[int, ...], bits: bool, names: Mapping[str, str]) -> None:
        """Begin with the input: the shape of a sample, whether it is +-1, and the modules' classes by path."""
        self.names = names
        self.number = -1  # of the operation that is explained
        self._count = 0
        self._made: dict[Any, Any] = {}
        self._padded: dict[int, Padded] = {}
        self.input = self.layer(INPUT, "", None, shape=shape, bits=bits)
        self.pixels: Pixels | None = None
        self.unit = 1.0  # codes for each unit of the input

    def who(self, path: str) -> str:
        """Return how messages call the module at `path`."""
        return f"layer {path!r} ({self.names[path]})" if path else f"the network itself ({self.names[path]})"

    def layer(
        self,
        kind: str,
        path: str,
        x: Atom | None,
        options: Mapping[str, Any] | None = None,
        tensors: Mapping[str, NDArray[Any]] | None = None,
        shape: tuple[int, ...] | None = None,
        bits: bool = False,
        out: torch.Tensor | None = None,
        off: float = 0.0,
        tap: Tap | None = None,
    ) -> Atom:
        """Return a new atom; its shape is that of `x` by default, and `out` is what the present operation gives."""
        if shape is None:
            assert x is not None
            shape = x.shape
        if out is not None:
            tap = Tap.of(self.number, out, shape)
        key = None
        if x is not None and kind in _SAME_TWICE:
            key = kind, x.number, repr(options), *(row.tobytes() for row in (tensors or {}).values())
        if key not in self._made:
            self._count += 1
            made = Atom(self._count - 1, kind, path, shape, x, options or {}, tensors or {}, bits, tap, off)
            if key is None:
                return made
            self._made[key] = made
        same: Atom = self._made[key]
        return same

    def opaque(
        self, why: str, remedy: str, path: str, shape: tuple[int, ...], x: Atom | None = None, odd: bool = False
    ) -> Atom:
        """Return an atom that no layer computes: the message that `emit` raises where it is needed."""
        key = (OPAQUE, why, x.number) if odd and x is not None else None
        if key is None or key not in self._made:
            self._count += 1
            what = f"{self.who(path)}: {why}; {remedy}{line()}"
            made = Atom(self._count - 1, OPAQUE, path, shape or (1,), x, odd=odd, what=what)
            if key is None:
                return made
            self._made[key] = made
        same: Atom = self._made[key]
        return same

    def padded(self, around: Padded, path: str, seen: tuple[int, ...]) -> Held:
        """Return what a padded map stands for, which only a convolution or a pool can take over."""
        why = f"pads with {around.value:g} what no convolution (for 0) or max pooling (for -inf) reads next"
        atom = self.opaque(why, "pad directly before it, or give it the padding as an option", path, seen)
        self._padded[atom.number] = around
        return Held(atom, seen)

    def inside(self, held: Held, tensor: torch.Tensor) -> Padded:
        """Return what a map is without the padding that still has to be taken over."""
        number = held.value.number if isinstance(held.value, Atom) else -1
        around = self._padded.get(number)
        if around is None:
            return Padded(held, tensor)
        if held.row and not around.held.row:  # torch's pools of one dimension see a line as a map of one row
            return replace(around, held=replace(around.held, row=True), tensor=around.tensor.unsqueeze(-2))
        return around

    def unknown(self, why: str, shape: tuple[int, ...], path: str, x: Value | None = None) -> Held:
        """Return what a tensor stands for that no layer computes."""
        shape = shape or (1,)
        above = x if isinstance(x, Atom) else None
        return Held(self.opaque(f"its forward {why}", "write it as a chain of layers", path, shape, above), shape)

    def scaled(self, x: Atom, factor: Reals, divisor: Reals, path: str, out: torch.Tensor | None) -> Atom:
        """Return x times factor / divisor; where both are 1, that is x."""
        if (factor == 1).all() and (divisor == 1).all():
            return x
        factor, divisor = (row.copy() for row in np.broadcast_arrays(factor, divisor))
        if x.kind == "softmax":
            scale = factor / divisor
            return self.last(x, x.tensors["weight"] * scale[:, None], _bias(x) * scale, out)
        tensors = {"factor": factor, "divisor": divisor}
        return self.layer("scale", path, x, {"channels": len(factor)}, tensors, out=out)

    def shifted(self, x: Atom, by: Reals, path: str, out: torch.Tensor | None) -> Atom:
        """Return x + by."""
        if not by.any():
            return x
        if x.kind == "softmax":
            return self.last(x, x.tensors["weight"], _bias(x) + by, out)
        return self.layer("shift", path, x, {"channels": len(by)}, {"by": by}, out=out)

    def last(self, x: Atom, weight: Reals, bias: Reals, out: torch.Tensor | None) -> Atom:
        """Return a last layer whose weights took up what followed it."""
        tensors = {"weight": weight, "bias": np.broadcast_to(bias, len(weight)).copy()}
        off = x.off + FOLDED
        made = self.layer("softmax", x.path, x.x, {**x.options, "bias": True}, tensors, x.shape, out=out, off=off)
        return replace(made, what=x.what)

    def atom(self, held: Held, tensor: torch.Tensor, path: str) -> Atom:
        """Return what a tensor stands for as one atom; `tensor` holds the values that the module computed."""
        value = held.value
        if isinstance(value, Atom):
            return value
        if isinstance(value, Sum):
            names = [atom for atom, _ in value.atoms] + [table.base for table in value.tables]
            paths = " and ".join(repr(atom.path or atom.kind) for atom in names[:2])
            why = f"adds what {paths} give, as a residual connection does"
            return self.opaque(why, "make the network a chain of layers", path, held.shape)
        found = self.bits(held, tensor, path)
        if found is None:
            return self.opaque(*_NOT_TWO, path, held.shape, value.base)
        bits, factor, offset = found
        return self.shifted(self.scaled(bits, factor, np.ones(1), path, None), offset, path, None)

    def bits(self, held: Held, tensor: torch.Tensor, path: str, positive: bool = False) -> Bits | None:
        """Return what a tensor stands for as +-1 values, or None if it takes other values.

        Args:
            positive: whether the factors have to be positive, so that the values have the order of the bits.
        """
        value = held.value
        if isinstance(value, Atom):
            return (value, np.ones(value.channels), np.zeros(value.channels)) if value.bits else None
        if isinstance(value, Sum):
            return None
        factor, offset = value.two
        if value.base.bits:
            return (value.base, factor, offset) if (factor > 0).all() or (factor.all() and not positive) else None
        key = ("bits", value.key, positive)
        if key not in self._made:
            self._made[key] = self._sign(value, factor, offset, held.number, tensor, positive)
        found: Bits | None = self._made[key]
        return found

    def _sign(
        self, table: Table, factor: Reals, offset: Reals, number: int, tensor: torch.Tensor, positive: bool
    ) -> Bits | None:
        path = table.path
        below, middle, above = table.rows.double().numpy()
        if not factor.all():
            return None
        if self.pixels is not None and (steps := steps_of(table.base, self.pixels.atom)) is not None:
            limits = limits_of(self.pixels, steps, table)
            return None if limits is None or (positive and (limits.signs < 0).any()) else self._of_pixels(table, limits)
        x, turned = table.base, positive & (factor < 0)
        sign = np.where(turned, -1.0, 1.0)
        tap = Tap.of(number, tensor, x.shape, offset, factor * sign)
        if (middle == offset).all():  # torch.sign, with 0 for 0
            x = self.scaled(x, sign, np.ones(1), path, None)
            return self.layer("strict_sign", path, x, bits=True, tap=tap), factor * sign, offset
        upper = middle == below  # where it decides x > 0 and not x >= 0
        if not (upper | (middle == above)).all():
            return None
        inverted = upper != turned
        if not inverted.any() and not upper.any():
            return self.layer("ste_sign", path, x, bits=True, tap=tap), factor, offset
        x = self.scaled(x, np.where(upper, -1.0, 1.0), np.ones(1), path, None)
        tensors = {"at": np.zeros(len(inverted), np.int64), "inverted": inverted.astype(np.int64)}
        made = self.layer("threshold", path, x, {"channels": len(inverted)}, tensors, bits=True, tap=tap)
        return made, factor * sign, offset

    def _of_pixels(self, table: Table, limits: Limits) -> Bits:
        x = table.base
        made = self.layer(PIXELS, table.path, self.input, tensors={"at": limits.at}, bits=True)
        factor, offset = table.two
        return self.flattened(made, table.path) if made.shape != x.shape else made, abs(factor) * limits.signs, offset

    def firm(self, held: Held, tensor: torch.Tensor, path: str) -> Held:
        """Return a flattened map as a vector that a layer computes."""
        if not held.flat:
            return held
        path = path if held.at is None else held.at
        repeats = math.prod(held.shape[1:])
        if isinstance(held.value, Table):
            found = self.bits(held, tensor, path)
            if found is not None:
                flat = self.flattened(found[0], path)
                factor, offset = (np.repeat(row, repeats) for row in found[1:])
                rows = torch.from_numpy(np.stack([offset - factor, offset + factor, offset + factor]))
                return Held(Table(flat, rows, path), flat.shape)
        flat = self.flattened(self.atom(held, tensor, path), path)
        return Held(table_of_bits(flat) if flat.bits else flat, flat.shape)

    def flattened(self, x: Atom, path: str) -> Atom:
        """Return a map as a vector."""
        key = ("flatten", x.number)
        if key not in self._made:
            shape = (math.prod(x.shape),)
            tap = None if x.tap is None or x.bits else replace(x.tap, values=x.tap.values.reshape(-1, *shape))
            self._made[key] = self.layer("flatten", path, x, shape=shape, bits=x.bits, tap=tap)
        made: Atom = self._made[key]
        return made


_NOT_TWO = (
    "gives other values than two, one below a threshold and one from it on",
    "binarise activations as +-1, such as torch.where(x >= 0, 1.0, -1.0)",
)


def _bias(x: Atom) -> Reals:
    held = x.tensors.get("bias")
    return np.zeros(len(x.tensors["weight"])) if held is None else held

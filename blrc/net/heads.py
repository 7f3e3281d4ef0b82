"""Say what the ends of a network may be: heads, which are last layers that read the same bits, and units of values."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from blrc.errors import BlrcError

MOST = 64
"""Heads of a network: each takes 16 bytes of the caller's memory for its answer."""
LONGEST = 40
"""Characters of a head's name, which becomes a part of macros in C."""
TAKEN = frozenset({"input", "codes", "scores", "members"})
"""Tensors of an exported ONNX file, in which each head is an output of its own name."""
REMEDY = "name the heads with heads= of blrc.save, or --heads of blrc import"

Heads = tuple[tuple[str, str], ...]
"""The name of each head, and of the layer that gives its scores."""


@dataclass(frozen=True)
class Unit:
    """Say what real numbers a head's outputs stand for: real value = `scale` x output + `offset`.

    Raises:
        BlrcError: the scale is not a finite number above 0, or the offset is not finite.
    """

    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for what, number in (("scale", self.scale), ("offset", self.offset)):
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise BlrcError(f"{what} of values: {type(number).__name__} is no number")
            try:
                object.__setattr__(self, what, float(number))
            except OverflowError:
                raise BlrcError(f"{what} of values: a whole number beyond float64") from None
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise BlrcError(f"scale of values {self.scale}: must be a finite number above 0")
        if not math.isfinite(self.offset):
            raise BlrcError(f"offset of values {self.offset}: must be finite")


def values(*, scale: float = 1.0, offset: float = 0.0) -> Unit:
    """Say that a network's outputs are values, and what they stand for: real value = `scale` x output + `offset`.

    A network that was trained on (target - mean) / std has the scale std and the offset mean.

    >>> values(scale=12.5, offset=-3)
    Unit(scale=12.5, offset=-3.0)

    Raises:
        BlrcError: the scale is not a finite number above 0, or the offset is not finite.
    """
    return Unit(scale, offset)


Units = tuple[Unit, ...]
"""The unit of each head of a network that gives values, or of its only output; empty for one that gives labels."""


Outputs = str | Unit | Mapping[str, str | Unit]
"""List what `blrc.save` takes for `outputs`: ``labels``, ``values``, a unit, or one of these by a head's name."""


def units_of(outputs: Outputs, heads: Heads, source: str) -> Units:
    """Return the units of a network's outputs, from what `blrc.save` takes; none of labels.

    Raises:
        BlrcError: it is none of what `blrc.save` takes, or names other heads than there are.
    """
    names = [name for name, _ in heads]
    if isinstance(outputs, Mapping):
        if sorted(map(str, outputs)) != sorted(names) or not names:
            have = ", ".join(names) or "one output without a name"
            raise BlrcError(f"{source}: outputs= names {', '.join(map(str, outputs))}; the network has {have}")
        given = [outputs[name] for name in names]
    else:
        given = [outputs] * max(1, len(heads))
    if all(each == "labels" for each in given):
        return ()
    units = []
    for each in given:
        if each == "labels":
            raise BlrcError(f"{source}: some heads give labels and others values; save them as two networks")
        if each != "values" and not isinstance(each, Unit):
            raise BlrcError(f"{source}: outputs={each!r:.40}: expected 'labels', 'values' or what blrc.values gives")
        units.append(each if isinstance(each, Unit) else Unit())
    return tuple(units)


def check_units(units: Units, heads: Heads) -> None:
    """Refuse units of another number than that of the heads.

    Raises:
        BlrcError: there are too few or too many.
    """
    if units and len(units) != max(1, len(heads)):
        raise BlrcError(f"values: {len(units)} units of {max(1, len(heads))} outputs; give one for each")


def check_heads(names: Sequence[str]) -> None:
    """Refuse names that cannot be those of a network's heads.

    Raises:
        BlrcError: there are too few or too many names, one cannot be a part of a C identifier or is taken, or two are
            the same where case is ignored, as in macros.
    """
    if not 2 <= len(names) <= MOST:
        raise BlrcError(f"{len(names)} heads: a network has one output without a name, or 2 to {MOST} heads")
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII) or len(name) > LONGEST:
            shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
            raise BlrcError(
                f"head {shown!r}: its name becomes a part of names in C: up to {LONGEST} letters, digits and "
                f"underscores, a letter first; {REMEDY}"
            )
        if name in TAKEN:
            raise BlrcError(f"head {name!r}: a tensor of exported ONNX files has that name; {REMEDY}")
        if (other := seen.get(name.lower())) is not None:
            also = "has that name too" if other == name else f"is called {other!r}, which macros in C do not tell apart"
            raise BlrcError(f"head {name!r}: another head {also}; {REMEDY}")
        seen[name.lower()] = name


def check_ends(heads: Heads, layers: Container[str]) -> None:
    """Refuse heads with names that `check_heads` refuses, or of layers that are not there.

    Raises:
        BlrcError: names the first head that is wrong.
    """
    if heads:
        check_heads([name for name, _ in heads])
    for name, layer in heads:
        if layer not in layers:
            raise BlrcError(f"head {name!r}: is what layer {layer[:LONGEST]!r} gives, which is not there")

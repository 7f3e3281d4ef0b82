"""Follow multiplications and additions from the network's input, and find where they change the sign of a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from blrc.frontend.capture.byvalue.values import Atom, Reals, Table
from blrc.net.standardising import RAW_VALUES


@dataclass(frozen=True, eq=False)
class Pixels:
    """Hold what a module is given of pixels: ``atom``, whose values are ``seen`` (channels, 256)."""

    atom: Atom
    seen: torch.Tensor


@dataclass(frozen=True, eq=False)
class Limits:
    """Hold bits of pixels.

    Attributes:
        at: (channels of the input,), the value from which on a pixel is +1.
        signs: by what a bit is multiplied in each channel of the table that it stands for.
    """

    at: NDArray[np.int64]
    signs: Reals


@dataclass(frozen=True, eq=False)
class Step:
    """Describe what is done to the codes: each is multiplied by ``factor`` / ``divisor``, then ``by`` is added.

    All are (channels,), the channels of what the first layer reads.
    """

    factor: Reals
    divisor: Reals
    by: Reals


def steps_of(atom: Atom, since: Atom) -> list[Step] | None:
    """Return what is done between two atoms, or None where an atom is no function of this form of the one before."""
    above = []
    while atom is not since:
        if atom.kind not in ("flatten", "scale", "shift") or atom.x is None:
            return None
        above.append(atom)
        atom = atom.x
    found: list[Step] = []
    for atom in reversed(above):
        assert atom.x is not None
        if atom.kind == "flatten":
            repeats = atom.channels // atom.x.channels
            found = [Step(*(np.repeat(row, repeats) for row in vars(step).values())) for step in found]
            continue
        held, none, one = atom.tensors, np.zeros(atom.channels), np.ones(atom.channels)
        rows = (held["factor"], held["divisor"], none) if atom.kind == "scale" else (one, one, held["by"])
        found.append(Step(*(np.broadcast_to(row, atom.channels) for row in rows)))
    return found


def composed(steps: Sequence[Step], channels: int) -> tuple[Reals, Reals]:
    """Return what steps multiply values by, and what they then add, (channels,), rounded to floats."""
    factor, offset = np.ones(channels), np.zeros(channels)
    for step in steps:
        by = step.factor / step.divisor
        factor, offset = factor * by, offset * by + step.by
    return factor, offset


def limits_of(pixels: Pixels, steps: Sequence[Step], table: Table) -> Limits | None:
    """Return the bits of pixels that a table is, or None where they are not decided by one threshold a channel.

    All is computed in the module's own type, as it does.
    """
    offset = table.two[1][:, None]
    repeats = len(offset) // len(pixels.seen)
    values = pixels.seen.repeat_interleave(repeats, dim=0)
    for step in steps:
        factor, divisor, by = (torch.from_numpy(row.copy()).to(values)[:, None] for row in vars(step).values())
        values = values * factor / divisor + by
    rows = table.rows.double()[:, :, None]
    found = torch.where(values < 0, rows[0], torch.where(values == 0, rows[1], rows[2])).numpy()
    plus = found > offset
    falls = plus[:, :1] & ~plus[:, -1:]
    at = (plus == falls).sum(axis=1)
    one_threshold = ((np.arange(RAW_VALUES) >= at[:, None]) ^ falls == plus).all()
    each = at.reshape(-1, repeats)
    if not one_threshold or (found == offset).any() or (each != each[:, :1]).any():
        return None
    return Limits(each[:, 0], np.where(falls[:, 0], -1.0, 1.0))

"""Recognise the network's input behind multiplications and additions, and let the first layer take them up.

A first layer's sums of codes are exact. What is done to the input before it, such as standardising pixels, is done to
its sums behind it: they are multiplied alike, and for each number that is added to the input, that number is added as
often as the signs of the weights say.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from blrc.frontend.capture.byvalue.book import Book
from blrc.frontend.capture.byvalue.steps import Pixels, Step
from blrc.frontend.capture.byvalue.values import Atom, Held, Reals, table_of_bits
from blrc.net.encoding import InputEncoding
from blrc.net.parts import parts
from blrc.net.standardising import MIDDLE, RAW_VALUES, standardised


def begin(book: Book, encoding: InputEncoding, dtype: torch.dtype) -> Held:
    """Return what the network's input stands for; exact pixels are the codes plus 128, standardised.

    Args:
        dtype: the type of the module's input.
    """
    book.unit = encoding.scale
    if book.input.bits:
        return Held(table_of_bits(book.input), encoding.shape)
    atom, one = book.input, np.ones(1)
    if encoding.exact:
        rows = [parts(MIDDLE - 255 * Fraction(mean)) or [] for mean in encoding.mean]
        for depth in range(max(map(len, rows))):
            by = np.array([row[depth] if depth < len(row) else 0.0 for row in rows])
            atom = book.shifted(atom, by, "", None)
        atom = book.scaled(atom, one, np.array([255.0]), "", None)
        atom = book.scaled(atom, one, np.array(encoding.std), "", None)
        ramp = np.tile(np.arange(RAW_VALUES, dtype=np.uint8), (1, encoding.channels, 1))
        seen = standardised(ramp, encoding.mean, encoding.std, np.float32)[0]
        book.pixels = Pixels(atom, torch.from_numpy(seen).to(dtype))
    return Held(atom, encoding.shape)


def first_layer(
    book: Book,
    kind: str,
    path: str,
    x: Atom,
    steps: Sequence[Step],
    signs: Reals,
    behind: tuple[Reals, Reals | None],
    options: Mapping[str, Any],
    given: torch.Tensor,
    out: torch.Tensor,
    unit: float | None = None,
) -> Atom:
    """Return a layer of signs on codes, and behind it what is done before it, its scales and its bias.

    Args:
        x: the codes, of the input or of averages.
        steps: what is done to the codes.
        signs: the weights, (out, in / groups, ...).
        behind: the weights' scale (out,), and the bias (out,) or None.
        given: what the module computed of the layer's input.
        out: what it computed of its output.
        unit: codes for each unit of `x`; None for those of the input.
    """
    seen, one = tuple(out.shape[1:]), np.ones(1)
    rounded = "" if book.pixels is None or unit is not None else f", or {ROUND}"
    if not all(np.isfinite(row).all() for step in steps for row in vars(step).values()):
        why = "reads an input that is multiplied by, or added to, a number that is not finite"
        return book.opaque(f"its layer {why}", _FINITE, path, seen, x)
    slopes = [(Fraction(a), Fraction(d)) for step in steps for a, d in [(step.factor[0], step.divisor[0])]]
    if any((row != row[0]).any() for step in steps for row in (step.factor, step.divisor)):
        why = "reads an input that is multiplied by another number for each channel"
        return book.opaque(f"its layer {why}", _ALIKE + rounded, path, seen, x)
    offset = _offset(steps)
    if any(offset) and np.any(options.get("padding", 0)):
        why = "pads the input with zeros, which no pixel or code stands for, since a number was added to it"
        return book.opaque(f"its layer {why}", _NO_PADS + rounded, path, seen, x)
    moves: list[tuple[Reals, Reals] | Reals] = []
    for step, (factor, divisor) in zip(steps, slopes, strict=True):
        moves.append((np.array([float(factor)]), np.array([float(divisor)])))
        if any(offset):
            added = _added(step.by, signs, int(options.get("groups", 1)))
            if added is None:
                why = "reads an input to which numbers are added whose sums no few floats hold"
                return book.opaque(f"its layer {why}", _FINITE, path, seen, x)
            moves += added
    scale, bias = behind
    moves += [(scale, one), np.zeros(1) if bias is None else bias]
    left = [move for move in moves if (move.any() if isinstance(move, np.ndarray) else (move[0] != move[1]).any())]
    off = _rounding(given, slopes, offset, book.unit if unit is None else unit)
    if off is None:
        why = "reads an input that is multiplied by, or added to, a number that the module's type has no float for"
        return book.opaque(f"its layer {why}", _FINITE, path, seen, x)
    inner = {**options, "bias": False}
    weight = {"weight": signs.astype(np.float32)}
    made = book.layer(kind, path, x, inner, weight, seen, out=None if left else out, off=off)
    for i, move in enumerate(left):
        tapped = out if i == len(left) - 1 else None
        if isinstance(move, np.ndarray):
            made = book.shifted(made, move, path, tapped)
        else:
            made = book.scaled(made, *move, path, tapped)
    return made


ROUND = "round pixels to codes: blrc.pixels(..., exact=False)"
"""End messages of what a network of rounded pixels may have."""
_ALIKE = "multiply all channels alike"
_NO_PADS = "pad behind the first sign only"
_FINITE = "scale the input to numbers of some units"


def _offset(steps: Sequence[Step]) -> list[Fraction]:
    """Return what code 0 becomes in each channel."""
    rows, which = np.unique([row for step in steps for row in vars(step).values()], axis=1, return_inverse=True)
    found = []
    for column in rows.T.reshape(-1, len(steps), 3).tolist():
        value = Fraction(0)
        for factor, divisor, by in column:
            value = value * Fraction(factor) / Fraction(divisor) + Fraction(by)
        found.append(value)
    return [found[i] for i in which.reshape(-1)]


def _added(by: Reals, signs: Reals, groups: int) -> list[Reals] | None:
    """Return what adding numbers to a layer's input adds to its sums, in parts that are floats, or None if in none."""
    if not by.any():
        return []
    counts = signs.reshape(groups, -1, signs.shape[1], signs[0, 0].size).sum(axis=3).astype(np.int64).astype(object)
    ratios = [value.as_integer_ratio() for value in by.tolist()]
    bottom = max(below for _, below in ratios)  # all are powers of two
    each = np.array([above * (bottom // below) for above, below in ratios], dtype=object).reshape(groups, -1)
    rows = []
    for whole in np.concatenate([times @ numbers for times, numbers in zip(counts, each, strict=True)]):
        total = Fraction(whole, bottom)
        row = parts(total) if abs(total) < sys.float_info.max else None
        if row is None:
            return None
        rows.append(row)
    return [np.array([row[depth] if depth < len(row) else 0.0 for row in rows]) for depth in range(max(map(len, rows)))]


def _rounding(
    given: torch.Tensor, slopes: Sequence[tuple[Fraction, Fraction]], offset: Sequence[Fraction], unit: float
) -> float | None:
    """Return how far the module's input is from codes, relative to the largest: it computes with rounding.

    Args:
        unit: codes for each unit of what the first layer reads.

    Returns:
        None where the module's floats do not reach what is done to the codes.
    """
    slope = Fraction(1)
    for factor, divisor in slopes:
        slope *= factor / divisor
    if not slope:
        return 0.0
    own = torch.finfo(given.dtype)
    if max(map(abs, (slope, *offset))) > own.max or abs(slope) < own.tiny:
        return None
    column = np.reshape([float(by) for by in offset], (-1, *[1] * (given.ndim - 2)))
    codes = (given.detach().double().numpy() - column) / float(slope) * unit
    return float(np.abs(codes - np.rint(codes)).max(initial=0.0) / max(1.0, np.abs(codes).max(initial=0.0)))

"""Recognise averages of +-1 over windows and over whole maps.

A layer of the net averages the bits themselves. What they stand for, such as 0 and 1, is a factor and an offset, which
pass through an average unchanged: they stay behind it, and the next linear layer takes them up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blrc.errors import BlrcError
from blrc.frontend.capture.byvalue.book import Book, Padded
from blrc.frontend.capture.byvalue.rules.linear import bits_around
from blrc.frontend.capture.byvalue.steps import Step, composed, steps_of
from blrc.frontend.capture.byvalue.tape import Operation, line
from blrc.frontend.capture.byvalue.values import AVERAGES, Atom, Held, Tap, averages_under, off_grid, origin, taps_of
from blrc.net.elements import Codes
from blrc.net.net import AveragePool
from blrc.net.pieces import averaged
from blrc.net.window import Window

_WHOLE = "average height and width together, as x.mean((2, 3)) and nn.AdaptiveAvgPool2d(1) do"


def average_pool(book: Book, op: Operation) -> Held:
    """Return the averages of windows that lie inside the map, or reach into padding with a value of bits."""
    given, held, seen = op.given, op.held["self"], tuple(op.out.shape[1:])
    if held.flat or len(held.seen) != 3:
        return _refused(book, op, f"averages {('N', *held.seen)}, which is no map", _WHOLE)
    around = book.inside(held, given["self"])
    kernel, own = pair(given["kernel_size"]), pair(given["padding"])
    stride = pair(given["stride"]) if given["stride"] else kernel
    if given["divisor_override"] not in (None, math.prod(kernel)):
        why = f"divides sums of {math.prod(kernel)} values by {given['divisor_override']} (divisor_override)"
        return _refused(book, op, why, "leave divisor_override out, and multiply behind the pool instead")
    floor = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(held.seen[1:], own, kernel, stride, strict=True)]
    if floor != list(seen[1:]):
        why = "averages windows that reach beyond the map, so fewer values in these (ceil_mode)"
        return _refused(book, op, why, "leave ceil_mode out, or give the map a size in which the windows fit")
    if any(own) and not given["count_include_pad"]:
        why = "averages fewer values at the border than inside (count_include_pad=False with padding)"
        return _refused(book, op, why, "use padding=0")
    if any(own) and any(around.sides) and around.value:
        why = f"pads with zeros what was padded with {around.value:g}"
        return _refused(book, op, why, "use padding=0", origin(around.held.value))
    if any(own):
        top, left, bottom, right = (n + own[i % 2] for i, n in enumerate(around.sides))
        around = replace(around, sides=(top, left, bottom, right), value=0.0)
    return _averaged(book, op, around, kernel, stride)


def adaptive_pool(book: Book, op: Operation) -> Held:
    """Return the averages of parts of a map that are all of one size; torch takes a mean where there is one part."""
    held = op.held["self"]
    size, parts = list(held.seen[1:]), [int(n) for n in op.given["output_size"]]
    if parts == size:
        return held
    if held.flat or len(size) != len(parts) or any(n % many for n, many in zip(size, parts, strict=True)):
        why = f"averages {size} values in {parts} windows of several sizes (adaptive pooling)"
        return _refused(book, op, why, "use nn.AdaptiveAvgPool2d(1), or nn.AvgPool2d for windows of one size")
    kernel = [n // many for n, many in zip(size, parts, strict=True)]
    return _averaged(book, op, book.inside(held, op.given["self"]), kernel, kernel)


def mean(book: Book, op: Operation) -> Held:
    """Return the mean, or the sum, over height and width; over one of them where it stays a dimension."""
    held, given = op.held["self"], op.given
    axes, kept = len(held.seen) + 1, bool(given.get("keepdim"))
    dims = sorted({int(d) % axes for d in given.get("dim") or range(axes)})
    if held.flat or dims[0] < 2 or not (kept or dims == list(range(2, axes))):
        over = f"over the dimensions {tuple(dims)} of {('N', *held.seen)}"
        return _refused(book, op, f"computes {op.name} {over}, which has no binary form", _WHOLE)
    kernel = [n if axis in dims else 1 for axis, n in enumerate(held.seen[1:], 2)]
    around = book.inside(held, given["self"])
    times = float(math.prod(kernel)) if op.name == "sum" else 1.0
    return _averaged(book, op, around, kernel, [1] * len(kernel), times, flat=not kept)


def _averaged(
    book: Book,
    op: Operation,
    around: Padded,
    kernel: Sequence[int],
    stride: Sequence[int],
    times: float = 1.0,
    flat: bool = False,
) -> Held:
    """Return averages of windows, multiplied by `times`, as a map or as the vector that the operation makes of it."""
    held, tensor = around.held, around.tensor
    if any(around.sides):
        padded = bits_around(book, op, around)
        if padded is None:
            why, above = f"averages what is padded with {around.value:g}", origin(held.value)
            if book.bits(held, tensor, op.path) is None:
                return _refused(book, op, why, "use padding=0", above)
            why += ", which is neither of the two values that it averages"
            return _refused(book, op, why, "use padding=0, or pad with one of the two before it", above)
        held = replace(padded, row=held.row)
    if (found := book.bits(held, tensor, op.path)) is not None:
        x, factor, offset = found
        steps = [Step(factor, np.ones(1), offset)]
    else:
        atom = book.atom(held, tensor, op.path)
        under = averages_under(atom)
        if under is None:
            why = "averages real values: only averages of +-1, or of two other values, are whole numbers"
            return _refused(book, op, why, "average behind a sign, or use max pooling", atom)
        x, steps = under, steps_of(atom, under) or []
    kernel, stride, shape = list(kernel), list(stride), tuple(op.out.shape[1:])
    rank = len(x.shape) - 1
    if rank == 1 and kernel[:-1] not in ([], [1]):
        return _refused(book, op, "averages several rows of a line", "average a line without padding its height")
    if flat:
        shape = (x.channels, *[1] * rank)
    elif held.row:
        shape = (shape[0], shape[2])
    if math.prod(kernel) * math.prod(stride) == 1:  # single values
        return replace(held, flat=flat, row=held.row and not flat, at=op.path if flat else held.at)
    options = {"kernel_size": kernel[-rank:], "stride": stride[-rank:], "padding": [0] * rank}
    if times != 1:
        steps = [*steps, Step(np.array([times]), np.ones(1), np.zeros(1))]
    made = _layer(book, op, f"average_pool{rank}d", x, options, shape, steps)
    try:
        _codes(made)
    except BlrcError as error:
        why, _, remedy = str(error).partition(": ")[2].partition("; ")
        return _refused(book, op, why, remedy)
    return Held(moved(book, made, steps, op.path), shape, flat, held.row and not flat, op.path if flat else None)


def _layer(
    book: Book, op: Operation, kind: str, x: Atom, options: dict[str, Any], shape: tuple[int, ...], steps: list[Step]
) -> Atom:
    """Return averages of bits; the operation gives what `steps` make of them."""
    made = book.layer(kind, op.path, x, options, shape=shape)
    factor, offset = composed(steps, made.channels)
    taps = taps_of(made)
    assert taps is not None
    what = f"{book.who(op.path)}: averages signs{line()}"
    if not factor.all():
        return replace(made, what=what)
    tap = Tap.of(op.number, op.out, shape, offset, factor)
    return replace(made, what=what, tap=tap, off=off_grid(tap.values, taps))


def _codes(x: Atom) -> Codes | None:
    """Return the sums that stand for averages.

    Raises:
        BlrcError: they are too large.
    """
    before = None if x.x is None or taps_of(x) is None else _codes(x.x)
    if x.kind not in AVERAGES:
        return before
    kernel = x.options["kernel_size"]
    return averaged(AveragePool(x.path, "", Window((math.prod(kernel[:-1]), kernel[-1]))), before)


def moved(book: Book, x: Atom, steps: Sequence[Step], path: str) -> Atom:
    """Return what steps make of averages."""
    for step in steps:
        x = book.shifted(book.scaled(x, step.factor, step.divisor, path, None), step.by, path, None)
    return x


def _refused(book: Book, op: Operation, why: str, remedy: str, above: Atom | None = None) -> Held:
    seen = tuple(op.out.shape[1:]) or (1,)
    above = origin(op.held["self"].value) if above is None else above
    return Held(book.opaque(why, remedy, op.path, seen, above), seen)


def pair(value: Any) -> list[int]:
    """Return an option of a window as (vertical, horizontal)."""
    values = list(map(int, value)) if isinstance(value, list | tuple) else [int(value)]
    return values * 2 if len(values) == 1 else values

"""Decide what a device's raw input is, and which encoding it has. No other module knows how.

An ONNX file says what numbers a network takes, but not where they come from. A sign directly behind the input decides
by itself: the raw input are bits. So does a quantiser of at most 8 bits: its codes. Otherwise the user has to say it.

Pixels that the user declares become bits by thresholds, or codes by a table, where a sign or a quantiser follows.
Otherwise their codes are x - 128, which is exact: what has been added to a pixel is added to the layer's sums. Where
that is not possible, because each channel has its own scale or because zeros are padded, they are rounded to codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.importing.declared import Declared, raw_of, wrong_count
from blrc.importing.flow import Bits, Raw
from blrc.importing.numbers import quotient
from blrc.importing.refusal import RefusalError
from blrc.net.encoding import InputEncoding, bits, int8_codes, pixel_bits, pixel_codes
from blrc.net.net import INPUT
from blrc.net.parts import parts
from blrc.net.standardising import MIDDLE, RAW_VALUES

Encode = Callable[[tuple[int, ...]], InputEncoding]
"""Gives the encoding of the raw input, from the shape of a sample."""
_AXES = "the raw input is scaled along other axes than its channels"
_FEATURES = "each feature of the raw input has a scale or a threshold of its own"
_TURNED, _ALIKE = "some channels of the raw input are turned round, or multiplied by 0", "scale all alike"
MOST_SHOWN = 8
"""Thresholds that a note lists."""
_SAY = "say what the raw input is: --input pixels (with --mean and --std), --input int8 (with --scale) or --input bits"


@dataclass(frozen=True, eq=False)
class Entry:
    """Say what a first layer reads, whose value is (code + ``before``) times all ``factors``, plus ``after``."""

    encode: Encode
    before: Fraction
    factors: tuple[Fraction, ...]
    after: Fraction
    note: str = ""


def as_bits(declared: Declared | None, raw: Raw, strict: bool = False) -> tuple[Bits, Encode, str]:
    """Take the sign of the raw input for bits: those that the caller gives, or pixels from thresholds on.

    Raises:
        RefusalError: it was said to be codes, or its channels are not decided alike.
    """
    if declared is not None and declared.stated and raw.seen is None:
        raise RefusalError(
            "it makes bits of the raw input, which --input int8 or a quantiser before it makes codes",
            "declare --input bits, or leave --input and that quantiser out",
            then=Bits(INPUT, raw.shape, raw.axes),
        )
    found = Bits(INPUT, raw.shape, raw.axes)
    if raw.seen is not None:
        plus = raw.seen > 0 if strict else raw.seen >= 0
        if not (rises := (plus[1:] >= plus[:-1]).all()) and not (plus[1:] <= plus[:-1]).all():
            raise RefusalError(_TURNED, _ALIKE, then=found)
        # Where values fall, they are +1 up to a limit: from the next pixel on they are not.
        limits = (~(plus if rises else ~plus)).sum(axis=0)
        axis, at = _along(raw, limits), _short(tuple(int(n) for n in limits.reshape(-1)))
        turned = found if rises else replace(found, scales=(Fraction(-1),))
        return replace(turned, bound=axis if len(at) > 1 else None), lambda shape: pixel_bits(shape, at=at), ""
    rows = _lines(Declared("pixels") if declared is None else declared, raw, per_pixel=False)
    if not all(a > 0 for a, _ in rows) and not all(a < 0 for a, _ in rows):
        raise RefusalError(_TURNED, _ALIKE, then=found)
    upwards = rows[0][0] > 0
    sign = (">" if upwards else "<") + ("" if strict else "=")
    marks = [f"{float(-b / a):g}" for a, b in rows]
    axis = _along(raw, raw.factor, raw.offset)
    order = f"in the order of {f'the axis {axis + 1}' if axis else 'channels'}"
    more = f", ... ({len(marks)} in all)" if len(marks) > MOST_SHOWN else ""
    where = marks[0] if len({*marks}) == 1 else f"{', '.join(marks[:MOST_SHOWN])}{more} {order}"
    return found, bits, f"the raw input is bits: 1 where the network's input {sign} {where}, else 0"


def _along(raw: Raw, *held: NDArray[Any]) -> int | None:
    """Return the axis of the raw input along which arrays of its rank differ, or None where they have one value.

    Raises:
        RefusalError: they differ along several axes, or along the one of a vector.
    """
    axes = {axis for each in held for axis, size in enumerate(each.shape) if size > 1}
    if len(axes) > 1 or (axes and len(raw.shape) == 1):
        raise _other_axes(raw)
    return axes.pop() if axes else None


def _other_axes(raw: Raw) -> RefusalError:
    if len(raw.shape) == 1:
        return RefusalError(_FEATURES, "give one for all features, or make bits of them before the network")
    return RefusalError(_AXES, "give one value for each channel, or one for all")


def _short(limits: tuple[int, ...]) -> tuple[int, ...]:
    return limits[:1] if len({*limits}) == 1 else limits


def _lines(declared: Declared, raw: Raw, per_pixel: bool) -> list[tuple[Fraction, Fraction]]:
    """Return slope and offset of every channel (one for a vector): in pixels from 0 to 255, or in the file's input.

    In the file's input, channels are those along the axis that has several.

    Raises:
        RefusalError: they differ along other axes than the channels.
        BlrcError: mean and std are not those of so many channels.
    """
    found = (raw.factor, raw.offset)
    axis, channels = _along(raw, *found), raw.shape[0] if len(raw.shape) > 1 else 1
    rows = max(held.size for held in found)
    if not per_pixel:
        return [(found[0].flat[i % found[0].size], found[1].flat[i % found[1].size]) for i in range(rows)]
    if axis:
        raise _other_axes(raw)
    for name, row in (("mean", declared.mean), ("std", declared.std)):
        if len(row) not in (1, channels):
            raise BlrcError(wrong_count(name, len(row), channels))
        rows = max(rows, len(row))
    lines = []
    for i in range(rows):
        a, b = (held.flat[i % held.size] for held in found)
        mean, std = (Fraction(row[i % len(row)]) for row in (declared.mean, declared.std))
        lines.append((a / (255 * std), b - a * mean / std))
    return lines


def as_codes(
    declared: Declared | None, raw: Raw, step: Fraction, low: int, high: int, rounded: Callable[[Any], Any]
) -> tuple[Raw, Declared, Encode, str]:
    """Take a quantiser behind the raw input for int8 codes: those that the caller gives, or a table of pixels.

    Args:
        step, low, high: what a code stands for, and the least and the largest code.
        rounded: rounds values in steps to whole numbers.
    """
    middle = MIDDLE if high > 127 else 0
    if not -128 <= low - middle <= high - middle <= 127:
        raise RefusalError(
            f"it gives codes from {low} to {high}, and first layers take int8", "use a quantiser of at most 8 bits", raw
        )
    codes = replace(raw_of(raw.shape, step, middle * step), axes=raw.axes, pads=raw.pads)
    if declared is None:
        less = f", minus {middle}" if middle else ""
        note = f"the raw input is int8 codes: what the first quantiser gives, divided by {float(step):g}{less}"
        return codes, Declared("int8"), lambda shape: int8_codes(shape, scale=1.0), note
    if declared.kind != "pixels":
        raise RefusalError(
            "it quantises int8 codes again",
            "leave --input out, and give the quantiser's codes as the input",
            then=codes,
        )
    assert raw.seen is not None
    size = raw.seen.dtype.type(float(step))
    steps = rounded(np.clip(raw.seen / size, low, high))
    axis = _along(raw, steps[0])
    table = tuple(tuple(int(code) - middle for code in row) for row in steps.reshape(RAW_VALUES, -1).T.tolist())
    rows = table[:1] if len({*table}) == 1 else table
    codes = replace(codes, seen=steps * size, bound=axis if len(rows) > 1 else None)
    return codes, Declared("int8"), lambda shape: pixel_codes(shape, table=rows), ""


def as_real(declared: Declared | None, raw: Raw, encode: Encode | None) -> Entry:
    """Take the raw input for what a first layer reads.

    Args:
        encode: the encoding that a quantiser decided.

    Raises:
        RefusalError: nobody said what the raw input is, or codes cannot express it.
    """
    if declared is None:
        raise RefusalError("the file does not say what the raw input is", _SAY)
    if raw.bent:
        raise RefusalError(
            f"it reads the raw input behind {raw.bent}", "put a sign between them, or leave out the clip"
        )
    if declared.kind == "pixels":
        return _pixels(declared, raw)
    if raw.factor.size > 1 or raw.offset.size > 1:
        raise RefusalError("it reads int8 codes with another scale for each channel", "use one scale for all channels")
    factor, offset = raw.factor.flat[0], raw.offset.flat[0]
    if offset and any(raw.pads):
        raise RefusalError(
            "it pads the input with zeros that no code stands for, since a constant was added to it",
            "leave out the constant or the padding",
        )
    scale = declared.scale
    entry = _exact((factor,), offset, Fraction(0))
    if entry is None:
        raise RefusalError("what is added to the input is no sum of a few floats", "give constants that float32 holds")
    return replace(entry, encode=encode or (lambda shape: int8_codes(shape, scale=scale)))


def _exact(factors: tuple[Fraction, ...], offset: Fraction, before: Fraction) -> Entry | None:
    """Return how (x + before) factors + offset is computed exactly, by one shift before the factors, or by two.

    The one before is 0 where the input is centred, so that padded zeros stay what they are.
    """
    if any(quotient(factor) is None for factor in factors):
        return None
    total = math.prod(factors, start=Fraction(1))
    for first, last in ((before + offset / total if total else before, Fraction(0)), (before, offset)):
        if parts(first) is not None and parts(last) is not None:
            return Entry(bits, first, factors, last)
    return None


def _pixels(declared: Declared, raw: Raw) -> Entry:
    """Return the codes of pixels: x - 128, or rounded ones where that is not possible."""
    lines = _lines(declared, raw, per_pixel=True)
    if len({*lines}) == 1:
        std, mean = Fraction(declared.std[0]), Fraction(declared.mean[0])
        factors = (raw.factor.flat[0], Fraction(1, 255), 1 / std)
        entry = _exact(factors, raw.offset.flat[0], MIDDLE - 255 * mean)
        slope, offset = lines[0]
        if entry is not None and not (any(raw.pads) and MIDDLE * slope + offset):
            table = [x - MIDDLE for x in range(RAW_VALUES)]
            return replace(entry, encode=lambda shape: pixel_codes(shape, table=table))
    if not all(a > 0 for a, _ in lines) and not all(a < 0 for a, _ in lines):
        raise RefusalError(_TURNED, _ALIKE)
    turn = 1 if lines[0][0] > 0 else -1
    means = tuple(float(-b / a / 255) for a, b in lines)
    stds = tuple(float(abs(1 / a) / 255) for a, _ in lines)
    note = (
        "pixels are rounded to int8 codes, since they have several scales, or are padded with zeros that are no pixel: "
        "the first layer's sums differ a little from the file's"
    )

    def encode(shape: tuple[int, ...]) -> InputEncoding:
        scale = 127.0 / max(max(abs(m), abs(1.0 - m)) / s for m, s in zip(means, stds, strict=True))
        many = shape[0] if len(shape) == 3 and len(means) == 1 else 1
        return InputEncoding("uint8", shape, scale, means * many, stds * many)

    return Entry(encode, Fraction(0), (Fraction(turn),), Fraction(0), note)

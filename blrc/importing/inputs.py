"""Decide what a device's raw input is, and which encoding it has. No other module knows how.

An ONNX file says what numbers a network takes, but not where they come from. A sign directly behind the input decides
by itself: the raw input are bits. So does a quantiser of at most 8 bits: its codes. Otherwise the user has to say it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from blrc.errors import BlrcError
from blrc.importing.declared import Declared
from blrc.importing.file import Source, shown
from blrc.importing.flow import Bits, Flow, Raw, natural
from blrc.importing.refusal import RefusalError
from blrc.net.encoding import InputEncoding, bits, int8_codes
from blrc.net.net import INPUT

_SAY = "say what the raw input is: --input pixels (with --mean and --std), --input int8 (with --scale) or --input bits"


def start(source: Source, declared: Declared | None) -> tuple[Raw | Bits, Declared | None]:
    """Return the flow of the file's input, and what it says about the raw input where the user said nothing.

    Raises:
        BlrcError: its shape is no (N, C, H, W), (N, C, L) or (N, features) with known sizes.
    """
    shape = source.shape[1:]
    if not 1 <= len(shape) <= 3 or not all(n is not None and n >= 1 for n in shape):
        sizes = ", ".join("?" if n is None else str(n) for n in source.shape)
        raise BlrcError(
            f"input {shown(source.name)} is ({sizes}); expected (N, C, H, W), (N, C, L) or (N, features), with all "
            "sizes but the batch's known"
        )
    known = tuple(n for n in shape if n is not None)
    if declared is not None and declared.kind == "bits":
        return Bits(INPUT, known, natural(known)), declared
    factor = 1
    if source.element == "UINT8":
        if declared not in (None, Declared("pixels")):
            raise BlrcError(f"input {shown(source.name)} is uint8, so it takes --input pixels, without mean and std")
        declared, factor = Declared("pixels"), 255
    if source.element == "INT8":
        if declared not in (None, Declared("int8")):
            raise BlrcError(f"input {shown(source.name)} is int8, so it takes --input int8, without scale")
        declared = Declared("int8")
    ones = (1,) * len(known)
    return (
        Raw(INPUT, known, natural(known), factor=_full(ones, Fraction(factor)), offset=_full(ones, Fraction(0))),
        declared,
    )


def _full(shape: tuple[int, ...], value: Fraction) -> Any:
    found = np.empty(shape, dtype=object)
    found[...] = value
    return found


def encode(declared: Declared | None, shape: tuple[int, ...]) -> InputEncoding:
    """Return the encoding of the raw input of a known shape."""
    assert declared is not None
    if declared.kind == "bits":
        return bits(shape)
    if declared.kind == "int8":
        return int8_codes(shape, scale=declared.scale)
    channels = shape[0] if len(shape) == 3 else 1
    mean, std = (row * channels if len(row) == 1 else row for row in (declared.mean, declared.std))
    if not len(mean) == len(std) == channels:
        raise BlrcError(f"--mean and --std: {len(mean)} and {len(std)} numbers, but the input has {channels} channels")
    scale = 127.0 / max(max(abs(m), abs(1.0 - m)) / s for m, s in zip(mean, std, strict=True))
    return InputEncoding("uint8", shape, scale, mean, std)


def as_bits(declared: Declared | None, raw: Raw, strict: bool = False) -> tuple[Bits, Declared, str]:
    """Take the sign of the raw input for bits that the caller gives, and say how they are made."""
    if raw.factor.size > 1 or raw.offset.size > 1 or not raw.factor.flat[0]:
        raise RefusalError(
            "it decides the raw input by another threshold for each channel",
            "threshold the input yourself, and import the network without that part, with --input bits",
        )
    factor, offset = raw.factor.flat[0], raw.offset.flat[0]
    at, sign = -offset / factor, (">" if factor > 0 else "<") + ("" if strict else "=")
    how = f"the input are bits: 1 where the network's input {sign} {float(at):g}, else 0"
    if declared is not None and declared.kind == "pixels":
        if len({*declared.mean, *declared.std}) > 2 or len(declared.mean) > 1:
            raise RefusalError("pixels of several channels have several thresholds", "use one mean and std for all")
        pixel = (at * Fraction(declared.std[0]) + Fraction(declared.mean[0])) * 255
        how = f"the input are bits: 1 where a pixel (0 to 255) is {_reached(pixel, factor > 0, strict)}, else 0"
    return Bits(INPUT, raw.shape, raw.axes), Declared("bits"), how


def _reached(at: Fraction, upwards: bool, strict: bool) -> str:
    """Return which whole numbers are on the side of a threshold that gives 1."""
    if upwards:
        return f"at least {math.floor(at) + 1 if strict else math.ceil(at)}"
    return f"at most {math.ceil(at) - 1 if strict else math.floor(at)}"


def as_codes(declared: Declared | None, raw: Raw, step: Fraction, low: int, high: int) -> tuple[Raw, Declared, str]:
    """Take a quantiser behind the raw input for int8 codes that the caller gives, and say how they are made."""
    if declared is not None and declared.kind != "int8":
        raise RefusalError(
            f"it quantises the raw input, which is {declared.kind}",
            "leave --input out and give the quantiser's codes as int8 input",
        )
    if not -128 <= low <= high <= 127:
        raise RefusalError(
            f"it gives codes from {low} to {high}, and first layers take int8",
            "use a signed quantiser of at most 8 bits",
        )
    how = f"the input are int8 codes, {low} to {high}: what this quantiser gives, divided by {float(step):g}"
    ones = (1,) * len(raw.shape)
    found = Raw(INPUT, raw.shape, raw.axes, factor=_full(ones, step), offset=_full(ones, Fraction(0)))
    return found, Declared("int8"), how


def as_real(declared: Declared | None, raw: Raw, pads: bool) -> tuple[Flow, Declared, Fraction, Fraction]:
    """Take the raw input for what a first layer reads.

    Returns:
        the flow that it reads, what the raw input is, and the factor and offset that are still to be applied.

    Raises:
        RefusalError: nobody said what the raw input is, or codes cannot express it.
    """
    if declared is None:
        raise RefusalError("the file does not say what the raw input is", _SAY)
    flow = Flow(INPUT, raw.shape, raw.axes, raw.pads)
    if declared.kind == "pixels":
        return flow, *_normalised(declared, raw)
    if raw.factor.size > 1 or raw.offset.size > 1:
        raise RefusalError("it reads int8 codes with another scale for each channel", "use one scale for all channels")
    factor, offset = raw.factor.flat[0], raw.offset.flat[0]
    if offset and pads:
        raise RefusalError(
            "it pads codes with zeros that no code stands for, since a constant was added to the input",
            "leave out the constant or the padding",
        )
    return flow, declared, factor, offset


def _normalised(declared: Declared, raw: Raw) -> tuple[Declared, Fraction, Fraction]:
    """Let mean and std of the pixels take up factor and offset; a factor below 0 leaves its sign."""
    channels = raw.shape[0] if len(raw.shape) == 3 else 1
    rows = []
    for held in (raw.factor, raw.offset):
        if held.size not in (1, channels) or (held.size > 1 and held.shape[0] != channels):
            raise RefusalError(
                "the raw input is scaled by other axes than its channels", "give one value for each channel, or for all"
            )
        rows.append([held.flat[i % held.size] for i in range(channels)])
    means, stds = ([Fraction(row[i % len(row)]) for i in range(channels)] for row in (declared.mean, declared.std))
    if not all(a > 0 for a in rows[0]) and not all(a < 0 for a in rows[0]):
        raise RefusalError("some channels of the raw input are turned round, or multiplied by 0", "scale all alike")
    mean = tuple(float(m - b * s / a) for a, b, m, s in zip(*rows, means, stds, strict=True))
    std = tuple(float(abs(s / a)) for a, s in zip(rows[0], stds, strict=True))
    return Declared("pixels", mean, std), Fraction(1 if rows[0][0] > 0 else -1), Fraction(0)

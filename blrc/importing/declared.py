"""Say what a device's raw input is: by the options --input, --mean, --std and --scale, and by the type in the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from blrc.errors import BlrcError
from blrc.importing.file import Source, shown
from blrc.importing.flow import Bits, Raw, natural
from blrc.net.choices import INPUTS
from blrc.net.net import INPUT
from blrc.net.shapes import MOST_VALUES
from blrc.net.standardising import RAW_VALUES

_FLOATS = {"DOUBLE": np.float64, "FLOAT16": np.float16}
"""Types of inputs by ONNX's names, where they are not float32."""


@dataclass(frozen=True)
class Declared:
    """Say what the raw input is.

    Attributes:
        kind: ``pixels``: uint8 x, and the network takes (x / 255 - mean) / std; ``int8``: codes, and the network takes
            code / scale; ``bits``: the network takes -1 and +1.
        mean, std: for each channel, or one for all.
        stated: whether the user or a quantiser says so, and not only the file's type.
    """

    kind: str
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    scale: float = 1.0
    stated: bool = field(default=True, compare=False)


def parse_input(
    kind: str | None, mean: Sequence[float] | None, std: Sequence[float] | None, scale: float | None
) -> Declared | None:
    """Return what the options --input, --mean, --std and --scale say together.

    Raises:
        BlrcError: an unknown kind, or options that do not belong to it.
    """
    if kind not in (None, *INPUTS):
        raise BlrcError(f"--input {kind!r}: expected {', '.join(INPUTS[:-1])} or {INPUTS[-1]}")
    for name, value, owner in (("mean", mean, "pixels"), ("std", std, "pixels"), ("scale", scale, "int8")):
        if value is not None and kind != owner:
            raise BlrcError(f"--{name}: only for --input {owner}")
    if kind is None:
        return None
    rows = []
    for name, values, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        try:
            row = (default,) if values is None else tuple(float(value) for value in values)
        except (TypeError, ValueError):
            row = ()
        if not row or not all(map(math.isfinite, row)) or (name == "std" and min(row) <= 0):
            above = " above 0" if name == "std" else ""
            raise BlrcError(f"--{name} {values!r}: expected finite numbers{above}, one for each channel or one for all")
        rows.append(row)
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        raise BlrcError(f"--scale {scale!r}: expected a positive number, codes per unit")
    return Declared(kind, rows[0], rows[1], 1.0 if scale is None else float(scale))


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
    if math.prod(known) > MOST_VALUES:
        raise BlrcError(f"input {shown(source.name)} has more than {MOST_VALUES} values; make it smaller")
    if declared is not None and declared.kind == "bits":
        return Bits(INPUT, known, natural(known)), declared
    factor = 1
    kind: Any = _FLOATS.get(source.element, np.float32)
    x = np.arange(RAW_VALUES, dtype=kind)
    if source.element == "UINT8":
        if declared not in (None, Declared("pixels")):
            raise BlrcError(f"input {shown(source.name)} is uint8, so it takes --input pixels, without mean and std")
        declared, factor = Declared("pixels"), 255
    if source.element == "INT8":
        if declared not in (None, Declared("int8")):
            raise BlrcError(f"input {shown(source.name)} is int8, so it takes --input int8, without scale")
        declared = declared or Declared("int8", stated=False)
    integer = source.element not in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")
    if integer and factor == 1 and declared not in (None, Declared("int8")):
        raise BlrcError(
            f"input {shown(source.name)} is {source.element.lower()}, and pixels and scaled codes are no integers; "
            "export it with an input of float32, or use --input int8 without scale"
        )
    raw = replace(raw_of(known, Fraction(factor), Fraction(0)), integer=integer)
    if declared is None or declared.kind != "pixels":
        return raw, declared
    seen = x.reshape(-1, *[1] * len(known))
    if factor == 1:
        mean, std = (
            np.array(row, dtype=kind).reshape(_laid(name, len(row), known))
            for name, row in (("mean", declared.mean), ("std", declared.std))
        )
        seen = (seen / kind(255) - mean) / std
    return replace(raw, seen=seen), declared


def _laid(name: str, many: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return how --mean and --std lie in a sample: along its channels, which may be its last axis.

    Raises:
        BlrcError: they are not those of so many channels.
    """
    if many == 1:
        return (1,) * len(shape)
    channels = shape[0] if len(shape) > 1 else 1
    if many == channels:
        return many, *[1] * (len(shape) - 1)
    if len(shape) > 1 and many == shape[-1]:
        return *[1] * (len(shape) - 1), many
    raise BlrcError(wrong_count(name, many, channels))


def wrong_count(name: str, many: int, channels: int) -> str:
    """Say that --mean or --std has too many or too few numbers."""
    has = f"{channels} channel{'s' if channels > 1 else ''}"
    return f"--{name}: {many} numbers, but the input has {has}; give one for each channel, or one for all"


def raw_of(shape: tuple[int, ...], factor: Fraction, offset: Fraction) -> Raw:
    """Return the flow of a raw input of a shape, of which the network takes factor x + offset."""
    held = []
    for value in (factor, offset):
        full = np.empty((1,) * len(shape), dtype=object)
        full[...] = value
        held.append(full)
    return Raw(INPUT, shape, natural(shape), factor=held[0], offset=held[1])

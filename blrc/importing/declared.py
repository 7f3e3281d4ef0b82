"""Say what a device's raw input is, where an ONNX file does not: the options --input, --mean, --std and --scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from blrc.errors import BlrcError

KINDS = ("pixels", "int8", "bits")


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
    if kind not in (None, *KINDS):
        raise BlrcError(f"--input {kind!r}: expected {', '.join(KINDS[:-1])} or {KINDS[-1]}")
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

"""Name what a user may choose of a network and its bits. Imports nothing, so that help may ask for the names."""

from __future__ import annotations

from typing import Literal, get_args

Norms = Literal["given", "estimated"]
"""Statistics of norms: those that training left, or those of the calibration samples."""
NORMS: tuple[Norms, ...] = get_args(Norms)

Rounding = Literal["exact", "float32"]
"""What decides a bit: rational numbers, or float32, which rounds after every step."""
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)

INPUTS = ("pixels", "int8", "bits")
"""Raw inputs that `--input` may declare (`blrc.importing.declared`)."""

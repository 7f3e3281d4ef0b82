"""Define what a user may choose for each target.

The target's own package checks the choices, so that a choice imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Optimize = Literal["size", "speed", "ram"]
OnnxWeights = Literal["bytes", "bits"]
OnnxOutputs = Literal["all", "scores"]
OnnxForm = Literal["integer", "float"]


@dataclass(frozen=True)
class COptions:
    """Hold the choices for the C (`blrc.targets.c.options.parse_c`); see `blrc.targets.options.EmitOptions`."""

    packages: tuple[str, ...] = ()
    optimize: Optimize = "size"
    cpu: str = "portable"
    flash: int | None = None
    ram: int | None = None


@dataclass(frozen=True)
class OnnxOptions:
    """Hold the choices for the ONNX file (`blrc.targets.onnx.options.parse_onnx`)."""

    weights: OnnxWeights = "bytes"
    outputs: OnnxOutputs = "all"
    form: OnnxForm = "integer"

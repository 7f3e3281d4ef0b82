"""What a user may choose for each target. The target's own room checks it: nothing heavy is imported for a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Optimize = Literal["size", "speed", "ram"]
OnnxWeights = Literal["bytes", "bits"]
OnnxOutputs = Literal["all", "scores"]
OnnxForm = Literal["integer", "float"]


@dataclass(frozen=True)
class COptions:
    """What the C looks like (`blrc.targets.c.options.parse_c`); see `blrc.targets.options.EmitOptions`."""

    packages: tuple[str, ...] = ()
    optimize: Optimize = "size"
    cpu: str = "portable"
    flash: int | None = None
    ram: int | None = None


@dataclass(frozen=True)
class OnnxOptions:
    """What the ONNX file looks like (`blrc.targets.onnx.options.parse_onnx`)."""

    weights: OnnxWeights = "bytes"
    outputs: OnnxOutputs = "all"
    form: OnnxForm = "integer"

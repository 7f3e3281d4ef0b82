"""The options of the ONNX target: their choices, and which of them go together. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from blrc.errors import BlrcError

OnnxWeights = Literal["bytes", "bits"]
OnnxOutputs = Literal["all", "scores"]
OnnxForm = Literal["integer", "float"]


@dataclass(frozen=True)
class OnnxOptions:
    """What the ONNX file looks like; see `blrc.targets.options.EmitOptions`."""

    weights: OnnxWeights = "bytes"
    outputs: OnnxOutputs = "all"
    form: OnnxForm = "integer"


def parse_onnx(weights: str, outputs: str | None, form: str, targets: Sequence[str]) -> OnnxOptions:
    """Give what ``--onnx-weights``, ``--onnx-outputs`` and ``--onnx-form`` say, for these targets.

    Args:
        outputs: None takes what the form has: all outputs for ``integer``, the scores for ``float``.

    Raises:
        BlrcError: an unknown choice, choices that exclude each other, or any choice where no ONNX file is written.
    """
    choices = (
        ("--onnx-weights", weights, "bytes", get_args(OnnxWeights)),
        ("--onnx-outputs", outputs, None, get_args(OnnxOutputs)),
        ("--onnx-form", form, "integer", get_args(OnnxForm)),
    )
    for option, chosen, default, known in choices:
        if chosen != default and chosen not in known:
            raise BlrcError(f"{option} {chosen}: expected {' or '.join(known)}")
        if chosen != default and "onnx" not in targets:
            raise BlrcError(f"{option} {chosen} is about the ONNX file; add --target onnx")
    if form == "float" and outputs == "all":
        raise BlrcError("--onnx-form float has no head, which needs integers: leave out --onnx-outputs all")
    if form == "float" and weights == "bits":
        raise BlrcError("--onnx-form float stores weights as float32: leave out --onnx-weights bits")
    if outputs is None:
        outputs = "scores" if form == "float" else "all"
    return OnnxOptions(weights, outputs, form)  # type: ignore[arg-type]

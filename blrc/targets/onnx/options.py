"""Check the options of the ONNX target: their choices, and which of them go together.

This module imports nothing heavy.
"""

from __future__ import annotations

from typing import get_args

from blrc.errors import BlrcError
from blrc.targets.requests import OnnxForm, OnnxOptions, OnnxOutputs, OnnxWeights


def parse_onnx(weights: str = "bytes", outputs: str | None = None, form: str = "integer") -> OnnxOptions:
    """Check the values of ``--onnx-weights``, ``--onnx-outputs`` and ``--onnx-form``, and return them together.

    Args:
        outputs: None takes what the form has: all outputs for ``integer``, the scores for ``float``.

    Raises:
        BlrcError: an unknown choice, or choices that exclude each other.
    """
    for option, chosen, known in (
        ("--onnx-weights", weights, get_args(OnnxWeights)),
        ("--onnx-outputs", outputs, (None, *get_args(OnnxOutputs))),
        ("--onnx-form", form, get_args(OnnxForm)),
    ):
        if chosen not in known:
            raise BlrcError(f"{option} {chosen}: expected {' or '.join(filter(None, known))}")
    if form == "float" and outputs == "all":
        raise BlrcError("--onnx-form float has no head, which needs integers: leave out --onnx-outputs all")
    if form == "float" and weights == "bits":
        raise BlrcError("--onnx-form float stores weights as float32: leave out --onnx-weights bits")
    if outputs is None:
        outputs = "scores" if form == "float" else "all"
    return OnnxOptions(weights, outputs, form)  # type: ignore[arg-type]

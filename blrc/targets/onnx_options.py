"""Options of the ONNX target, which can be checked without the package onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from blrc.errors import BlrcError

OnnxWeights = Literal["bytes", "bits"]


def parse_onnx_weights(weights: str, targets: Sequence[str]) -> OnnxWeights:
    """What ``--onnx-weights`` says, for these targets.

    Raises:
        BlrcError: something else than ``bytes`` or ``bits``, or bits where no ONNX file is written.
    """
    if weights not in get_args(OnnxWeights):
        raise BlrcError(f"--onnx-weights {weights}: expected {' or '.join(get_args(OnnxWeights))}")
    if weights != "bytes" and "onnx" not in targets:
        raise BlrcError(f"--onnx-weights {weights} is about the ONNX file; add --target onnx")
    return weights  # type: ignore[return-value]

"""Faults that were found in imports, each with what ONNX Runtime gives or the words of the refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx_chains import BREVITAS, FINN, File, signs

import blrc
from blrc.errors import BlrcError

INT8 = {"input": "int8", "scale": 1.0}


def decided(file: File) -> File:
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
    return file


def hidden(file: File, rng: np.random.Generator, inputs: int = 9, outputs: int = 8) -> File:
    """Add a binary layer and its sign."""
    file.node("MatMul", signs(rng, inputs, outputs))
    return decided(file)


def refused(tmp_path: Path, file: File, words: str, **options: Any) -> None:
    with pytest.raises(BlrcError, match=words):
        blrc.import_onnx(file.save(tmp_path / "net.onnx"), **options)


def _pad(file: File) -> None:
    file.node("Pad", file.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))


AFTER_A_PAD: dict[str, Callable[[File], Any]] = {
    "BipolarQuant": decided,
    "Where": lambda f: (f.node("GreaterOrEqual", np.float32(0)), f.node("Where", np.float32(1), np.float32(-1))),
    "MultiThreshold": lambda f: f.node(
        "MultiThreshold", np.zeros((4, 1), np.float32), domain=FINN, out_scale=2.0, out_bias=-1.0
    ),
}


@pytest.mark.parametrize("name", AFTER_A_PAD)
def test_a_sign_behind_padded_bits_is_refused(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 2, 7, 7))
    file.node("Conv", signs(rng, 4, 2, 3, 3))
    _pad(decided(file))
    AFTER_A_PAD[name](file)
    file.node("Conv", signs(rng, 4, 4, 3, 3))
    decided(file).node("Flatten")
    file.node("MatMul", signs(rng, 100, 4))
    refused(tmp_path, file, f"{name}_.*zeros were padded around what it decides", **INT8)

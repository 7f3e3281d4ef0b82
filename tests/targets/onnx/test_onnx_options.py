"""Which options of the ONNX file there are, and which go together."""

from __future__ import annotations

import pytest

from blrc.errors import BlrcError
from blrc.targets.onnx.options import parse_onnx
from blrc.targets.requests import OnnxOptions


def test_choices() -> None:
    assert parse_onnx("bits") == OnnxOptions("bits", "all", "integer")
    assert parse_onnx() == OnnxOptions()
    assert parse_onnx(outputs="scores") == OnnxOptions(outputs="scores")
    assert parse_onnx(form="float") == OnnxOptions(outputs="scores", form="float")


@pytest.mark.parametrize(
    ("weights", "outputs", "form", "words"),
    [
        ("bit", None, "integer", "--onnx-weights bit: expected bytes or bits"),
        ("bytes", "label", "integer", "--onnx-outputs label: expected all or scores"),
        ("bytes", None, "int", "--onnx-form int: expected integer or float"),
        ("bytes", "all", "float", "--onnx-form float has no head"),
        ("bits", None, "float", "--onnx-form float stores weights as float32"),
    ],
)
def test_mistakes_with_options(weights: str, outputs: str | None, form: str, words: str) -> None:
    with pytest.raises(BlrcError, match=words):
        parse_onnx(weights, outputs, form)

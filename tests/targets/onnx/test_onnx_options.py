"""Which options of the ONNX file there are, and which go together."""

from __future__ import annotations

import pytest

from blrc.errors import BlrcError
from blrc.targets.onnx_options import OnnxOptions, parse_onnx


def test_choices() -> None:
    assert parse_onnx("bits", None, "integer", ("c", "onnx")) == OnnxOptions("bits", "all", "integer")
    assert parse_onnx("bytes", None, "integer", ("c",)) == OnnxOptions()
    assert parse_onnx("bytes", "scores", "integer", ("onnx",)) == OnnxOptions(outputs="scores")
    assert parse_onnx("bytes", None, "float", ("onnx",)) == OnnxOptions(outputs="scores", form="float")


@pytest.mark.parametrize(
    ("weights", "outputs", "form", "targets", "words"),
    [
        ("bit", None, "integer", ("onnx",), "--onnx-weights bit: expected bytes or bits"),
        ("bits", None, "integer", ("c",), "--onnx-weights bits is about the ONNX file; add --target onnx"),
        ("bytes", "label", "integer", ("onnx",), "--onnx-outputs label: expected all or scores"),
        ("bytes", "all", "integer", ("c",), "--onnx-outputs all is about the ONNX file"),
        ("bytes", None, "int", ("onnx",), "--onnx-form int: expected integer or float"),
        ("bytes", None, "float", ("web",), "--onnx-form float is about the ONNX file"),
        ("bytes", "all", "float", ("onnx",), "--onnx-form float has no head"),
        ("bits", None, "float", ("onnx",), "--onnx-form float stores weights as float32"),
    ],
)
def test_mistakes_with_options(
    weights: str, outputs: str | None, form: str, targets: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BlrcError, match=words):
        parse_onnx(weights, outputs, form, targets)

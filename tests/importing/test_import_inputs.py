"""What a first layer makes of pixels, codes and bits equals what the file makes of its own input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from onnx_chains import BREVITAS, File, imported, ran, scores, signs

from blrc.errors import BlrcError
from blrc.net.encoding import InputEncoding

MEAN, STD = np.float32([0.45, 0.5, 0.4]), np.float32([0.25, 0.2, 0.3])


def quantise(file: File, bits: int, signed: int, narrow: int, step: float) -> None:
    file.node("Quant", np.float32(step), np.float32(0), np.float32(bits), domain=BREVITAS, signed=signed, narrow=narrow)


def normalise(file: File, rows: slice = slice(None)) -> None:
    file.node("Sub", MEAN[rows].reshape(1, -1, 1, 1))
    file.node("Div", STD[rows].reshape(1, -1, 1, 1))


def below(file: File) -> None:
    file.node("Less", np.float32([0.2, 0.5, 0.7]).reshape(3, 1, 1))
    file.node("Where", np.float32(1.0), np.float32(-1.0))


def falling(file: File) -> None:
    file.node("Sub", np.float32(0.3), on=None)
    file.node("Mul", np.float32(-2.5))
    file.node("BipolarQuant", np.float32(0.5), domain=BREVITAS)


def several(file: File) -> None:
    normalise(file)
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)


def network(rng: np.random.Generator, head: Callable[[File], Any], pads: int = 0) -> File:
    """Return a file: what `head` makes of its input, a binary convolution, a norm, a sign, and scores."""
    shape = (3, 6, 7)
    file = File(("N", *shape))
    head(file)
    file.node("Conv", signs(rng, 8, shape[0], 3, 3) * np.float32(0.25), pads=[pads] * 4)
    norm = [rng.normal(size=8).astype(np.float32) for _ in range(3)]
    file.node("BatchNormalization", *norm, rng.uniform(2, 5, 8).astype(np.float32))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("Flatten")
    features = 8 * (shape[1] - 2 + 2 * pads) * (shape[2] - 2 + 2 * pads)
    file.node("MatMul", signs(rng, features, 4))
    return file


def differ(file: File, path: Path, shape: tuple[int, ...], **options: Any) -> tuple[float, InputEncoding]:
    """Return the share of samples whose scores are others than ONNX Runtime's for x / 255, and the encoding."""
    found, program = imported(file.save(path), **options)
    pixels = np.random.default_rng(0).integers(0, 256, (100, *shape), dtype=np.uint8)
    mean, std = (np.float32(options.get(key, default)).reshape(-1, 1, 1) for key, default in (("mean", 0), ("std", 1)))
    expected = ran(file.model(), (pixels / np.float32(255) - mean) / std)
    wrong = np.abs(scores(program, pixels) - expected).max(axis=1) > 0.5
    return float(wrong.mean()), found.encoding


@pytest.mark.parametrize("head", [below, falling, several])
def test_pixels_become_bits_by_thresholds(head: Callable[[File], Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    wrong, encoding = differ(network(rng, head, pads=1), tmp_path / "n.onnx", (3, 6, 7), input="pixels")
    assert wrong == 0 and encoding.kind == "uint8" and len(encoding.at) in (1, 3)


@pytest.mark.parametrize(("bits", "signed", "narrow"), [(8, 1, 0), (8, 1, 1), (4, 1, 1), (8, 0, 0), (3, 0, 0)])
def test_pixels_become_codes_by_a_table(bits: int, signed: int, narrow: int, tmp_path: Path) -> None:
    def head(file: File) -> None:
        normalise(file)
        quantise(file, bits, signed, narrow, 2.0 ** (1 - bits))

    rng = np.random.default_rng(6)
    pads = 1 if signed or bits < 8 else 0
    wrong, encoding = differ(network(rng, head, pads), tmp_path / "n.onnx", (3, 6, 7), input="pixels")
    assert wrong == 0 and len(encoding.given) == 3


def test_pixels_with_one_scale_are_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    file = network(rng, lambda file: normalise(file, slice(1)))
    wrong, encoding = differ(file, tmp_path / "n.onnx", (3, 6, 7), input="pixels")
    assert wrong == 0 and encoding.given == (tuple(range(-128, 128)),)
    wrong, encoding = differ(
        network(rng, lambda file: None), tmp_path / "n.onnx", (3, 6, 7), input="pixels", mean=[0.47], std=[0.31]
    )
    assert wrong == 0 and encoding.given


def test_pixels_that_must_be_rounded_are_said_to_be(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    said: list[str] = []
    file = network(rng, normalise, pads=1)
    wrong, encoding = differ(file, tmp_path / "n.onnx", (3, 6, 7), input="pixels", say=said.append)
    assert encoding.mean and len(said) == 1 and "rounded to int8 codes" in said[0]
    assert wrong < 0.7  # a score differs by 2 where one bit does


def test_an_input_of_uint8_is_pixels(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)

    def head(file: File) -> None:
        file.node("Cast", to=TensorProto.FLOAT)
        file.node("Sub", np.float32(128.0))

    file = network(rng, head, pads=1)
    file.element = TensorProto.UINT8
    _, program = imported(file.save(tmp_path / "n.onnx"))
    pixels = rng.integers(0, 256, (50, 3, 6, 7), dtype=np.uint8)
    assert np.abs(scores(program, pixels) - ran(file.model(), pixels)).max() < 0.5


def test_bits_and_codes_are_what_the_note_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    said: list[str] = []
    file = network(rng, below)
    _, program = imported(file.save(tmp_path / "bits.onnx"), say=said.append)
    assert said == ["the input are bits: 1 where the network's input >= 0.2, 0.5, 0.7 in the order of channels, else 0"]
    x = rng.uniform(0, 1, (50, 3, 6, 7)).astype(np.float32)
    raw = (x >= np.float32([0.2, 0.5, 0.7]).reshape(3, 1, 1)).astype(np.uint8)
    assert np.abs(scores(program, raw) - ran(file.model(), x)).max() < 0.5
    said.clear()
    file = network(rng, lambda file: quantise(file, 4, 1, 0, 0.125), pads=1)
    _, program = imported(file.save(tmp_path / "codes.onnx"), say=said.append)
    assert said == ["the input are int8 codes: what the first quantiser gives, divided by 0.125"]
    x = rng.uniform(-1.5, 1.5, (50, 3, 6, 7)).astype(np.float32)
    codes = np.clip(np.round(x / 0.125), -8, 7).astype(np.int8)
    assert np.abs(scores(program, codes) - ran(file.model(), x)).max() < 0.5


def test_declared_bits_are_minus_and_plus_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    file = network(rng, lambda file: None, pads=1)
    _, program = imported(file.save(tmp_path / "n.onnx"), input="bits")
    raw: NDArray[np.uint8] = rng.integers(0, 2, (50, 3, 6, 7), dtype=np.uint8)
    assert np.abs(scores(program, raw) - ran(file.model(), raw.astype(np.float32) * 2 - 1)).max() < 0.5


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "Conv_.*the file does not say what the raw input is; say what the raw input is: --input pixels"),
        ({"input": "image"}, "--input 'image': expected pixels, int8 or bits"),
        ({"input": "bits", "mean": [0.5]}, "--mean: only for --input pixels"),
        ({"input": "pixels", "std": [0.0]}, "--std .0.0.: expected finite numbers above 0"),
        ({"input": "pixels", "mean": [0.5, 0.5]}, "--mean: 2 numbers, but the input has 3 channels"),
        ({"input": "int8", "scale": -1.0}, "--scale -1.0: expected a positive number"),
    ],
)
def test_the_raw_input_has_to_be_said(options: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    file = network(np.random.default_rng(12), lambda file: None)
    with pytest.raises(BlrcError, match=complaint):
        imported(file.save(tmp_path / "n.onnx"), **options)

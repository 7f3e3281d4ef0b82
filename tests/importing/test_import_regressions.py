"""Faults that were found in imports, each with what ONNX Runtime gives or the words of the refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_chains import BREVITAS, FINN, File, imported, ran, scores, signs

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


def test_integer_division_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = hidden(File(("N", 9)), rng)
    file.node("Cast", to=TensorProto.INT32)
    two = file.constant(2, np.int32)
    file.node("Add", two)
    file.node("Div", two)
    file.node("Cast", to=TensorProto.FLOAT)
    file.node("MatMul", signs(rng, 8, 4))
    refused(tmp_path, file, "Div_4 .*it divides integers, which rounds; cast to float32 before it", **INT8)


@pytest.mark.parametrize(
    ("element", "kind", "factor", "words"),
    [
        (TensorProto.INT32, "Div", np.int32(2), "it divides integers"),
        (TensorProto.INT32, "Mul", np.int32(2**30), "integers may wrap around beyond -2147483648"),
        (TensorProto.INT8, "Sub", np.int8(5), "integers may wrap around beyond -128"),
        (TensorProto.UINT8, "Add", np.uint8(5), "integers may wrap around beyond 0"),
        (TensorProto.INT8, "Neg", None, "it negates integers"),
        (TensorProto.INT32, "MatMul", np.ones((9, 4), np.int32), "it multiplies integers"),
    ],
)
def test_integers_that_may_wrap_around_are_refused(
    tmp_path: Path, element: int, kind: str, factor: Any, words: str
) -> None:
    file = File(("N", 9), element=element)
    file.node(kind, *([] if factor is None else [file.constant(factor, factor.dtype)]))
    file.node("Cast", to=TensorProto.FLOAT)
    hidden(file, np.random.default_rng(0)).node("MatMul", np.ones((8, 4)))
    refused(tmp_path, file, words, **({} if element == TensorProto.UINT8 else INT8))


def test_integers_that_cannot_wrap_around_are_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    file = File(("N", 9), element=TensorProto.INT32)
    file.node("Mul", file.constant(100, np.int32))
    file.node("Sub", file.constant(7, np.int32))
    file.node("Cast", to=TensorProto.FLOAT)
    hidden(file, rng)
    file.node("Cast", to=TensorProto.INT64)
    file.node("Add", file.constant(2, np.int64))
    file.node("Cast", to=TensorProto.FLOAT)
    file.node("MatMul", signs(rng, 8, 4))
    decided(file).node("MatMul", signs(rng, 4, 3))
    _, program = imported(file.save(tmp_path / "net.onnx"), **INT8)
    raw = rng.integers(-128, 128, (64, 9)).astype(np.int8)
    assert (scores(program, raw) == ran(file.model(), raw.astype(np.int32))).all()


def test_minus_one_as_an_unsigned_integer_is_refused(tmp_path: Path) -> None:
    file = hidden(File(("N", 9)), np.random.default_rng(0))
    file.node("Cast", to=TensorProto.UINT8)
    refused(tmp_path, file, "Cast_2 .*it casts to a type that rounds", **INT8)


@pytest.mark.parametrize("to", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_sums_cast_to_fewer_digits_are_refused(tmp_path: Path, to: int) -> None:
    file = File(("N", 99))
    file.node("MatMul", np.ones((99, 8)))
    file.node("Cast", to=to)
    file.node("Cast", to=TensorProto.FLOAT)
    decided(file).node("MatMul", np.ones((8, 4)))
    refused(tmp_path, file, "Cast_1 .*it casts to a type that rounds; cast to float32", **INT8)


def test_codes_that_fit_are_cast_to_float16(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    file = File(("N", 9))
    file.node("Cast", to=TensorProto.FLOAT16)
    file.node("Cast", to=TensorProto.FLOAT)
    hidden(file, rng)
    file.node("Cast", to=TensorProto.FLOAT16)
    file.node("Cast", to=TensorProto.FLOAT)
    file.node("MatMul", signs(rng, 8, 4))
    _, program = imported(file.save(tmp_path / "net.onnx"), **INT8)
    raw = rng.integers(-128, 128, (64, 9)).astype(np.int8)
    assert (scores(program, raw) == ran(file.model(), raw.astype(np.float32))).all()
    refused(tmp_path, file, "Cast_0 .*it casts to a type that rounds", input="int8", scale=3.0)


def test_dropout_in_training_mode_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = hidden(File(("N", 9)), rng)
    file.node("Dropout", np.float32(0.5), file.constant(True, np.bool_))
    file.node("MatMul", signs(rng, 8, 4))
    refused(tmp_path, file, "Dropout_2 .*it drops values, in training mode", **INT8)


@pytest.mark.parametrize("seed", range(6))
def test_a_norm_of_pixels_decides_as_the_file_where_a_pixel_is_the_mean(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    file = File(("N", 3, 4, 4))
    rows = [rng.uniform(0.5, 2, 3), np.zeros(3), np.float32([11, 100, 77]) / np.float32(255), rng.uniform(0.01, 1, 3)]
    file.node("BatchNormalization", *rows)
    normed = file.at
    decided(file).node("Conv", signs(rng, 4, 3, 3, 3))
    decided(file).node("Flatten")
    file.node("MatMul", signs(rng, 16, 4))
    found, _ = imported(file.save(tmp_path / "net.onnx"), input="pixels")
    every = np.arange(256, dtype=np.float32) / np.float32(255)
    file.at = normed
    given = ran(file.model(), np.broadcast_to(every[:, None, None, None], (256, 3, 4, 4)).copy())
    assert found.encoding.at == tuple((given[:, :, 0, 0] < 0).sum(axis=0).tolist())


def _normed_bits(variance: Any, eps: float = 0.0) -> File:
    file = File(("N", 9))
    rows = [np.broadcast_to(np.float32(value), 9) for value in (1.0, 0.5, 3.0, variance)]
    file.node("BatchNormalization", *rows, epsilon=eps)
    file.node("MatMul", np.where(np.arange(18).reshape(9, 2) < 8, -1, 1))
    decided(file).node("MatMul", np.float32([[1, -1, 1], [1, 1, -1]]))
    return file


@pytest.mark.parametrize(("variance", "eps"), [(4.0, 0.0), (5.0, 0.0), (2.0, 1e-5)])
def test_a_norm_of_bits_gives_the_two_floats_of_the_file(tmp_path: Path, variance: float, eps: float) -> None:
    file = _normed_bits(variance, eps)
    _, program = imported(file.save(tmp_path / "net.onnx"), input="bits")
    raw = np.random.default_rng(0).integers(0, 2, (400, 9)).astype(np.uint8)
    assert (scores(program, raw) == ran(file.model(), raw.astype(np.float32) * 2 - 1)).all()


def test_a_norm_of_bits_with_other_values_in_each_channel_is_refused(tmp_path: Path) -> None:
    words = "BatchNormalization_0 .*a norm of bits that gives each channel other values"
    refused(tmp_path, _normed_bits(np.arange(2, 11)), words, input="bits")


def test_weights_of_two_sizes_up_to_rounding_are_refused(tmp_path: Path) -> None:
    """Refuse what w + (sign(w) - w) rounds to: where a sum of signs is 0, the file's is not, and rounding decides."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(10, 8)).astype(np.float32)
    scale = np.float32(0.3)
    folded = w + (scale * np.sign(w) - w)
    assert 0 < np.abs(np.abs(folded) - scale).max() < 1e-6
    file = File(("N", 10))
    file.node("MatMul", folded)
    x = 2 * rng.integers(0, 2, (500, 10)).astype(np.float32) - 1
    zero = x @ np.sign(w) == 0
    sums = ran(file.model(), x)[zero]
    assert (sums > 0).any() and (sums < 0).any()
    decided(file).node("MatMul", signs(rng, 8, 3))
    words = r"MatMul_0 \(MatMul\), whose weights are -s and .* only up to rounding; sums that are 0 would fall"
    refused(tmp_path, file, words, input="bits")
    constant = File(("N", 10))
    held, number = constant.constant(w), constant.constant(scale)
    flipped = constant.alone("Mul", [constant.alone("Sign", [held]), number])
    constant.node("MatMul", constant.alone("Add", [held, constant.alone("Sub", [flipped, held])]))
    decided(constant).node("MatMul", signs(rng, 8, 3))
    assert blrc.import_onnx(constant.save(tmp_path / "net.onnx"), input="bits").nodes[0].kind == "ste_linear"


def test_a_quantiser_that_always_gives_0_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 9))
    file.node("MatMul", signs(rng, 9, 8))
    file.node("Quant", 1.0, 0.0, 1.0, domain=BREVITAS, signed=0, narrow=1)
    file.node("MatMul", signs(rng, 8, 4))
    refused(tmp_path, file, "Quant_1 .*it always gives 0, since it is unsigned and narrow", **INT8)


def _threshold(shape: tuple[int, ...] = (9,)) -> File:
    file = File(("N", *shape))
    file.node("Sub", np.float32(0.35))
    decided(file).node("MatMul", signs(np.random.default_rng(0), 9, 4))
    return file


def test_codes_with_a_threshold_directly_behind_them_are_refused(tmp_path: Path) -> None:
    words = "makes bits of the raw input, which --input int8 .* makes codes; declare --input bits, or leave --input"
    refused(tmp_path, _threshold(), words, input="int8", scale=2.0)
    file = _threshold()
    file.element = TensorProto.INT8  # which says nothing of what the user wants
    file.nodes.pop(0), file.constants.pop(0)
    file.nodes[0].input[0] = "x"
    said: list[str] = []
    blrc.import_onnx(file.save(tmp_path / "net.onnx"), say=said.append)
    assert said == ["the raw input is bits: 1 where the network's input >= 0, else 0"]


@pytest.mark.parametrize(("step", "turn"), [(1 / 64, 1.0), (0.15, 1.0), (1 / 64, -1.0)])
def test_quantised_pixels_become_bits_as_the_file_decides(tmp_path: Path, step: float, turn: float) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 9))
    file.node("Mul", np.float32(turn))
    file.node("Quant", np.float32(step), 0.0, 8.0, domain=BREVITAS, signed=1, narrow=1)
    file.node("Sub", np.float32(0.4 * turn))
    decided(file).node("MatMul", signs(rng, 9, 4))
    said: list[str] = []
    found, program = imported(file.save(tmp_path / "net.onnx"), input="pixels", say=said.append)
    raw = np.tile(np.arange(256, dtype=np.uint8)[:, None], 9)
    assert found.encoding.kind == "uint8" and not said
    assert (scores(program, raw) == ran(file.model(), raw / np.float32(255))).all()
    refused(tmp_path, file, "a quantiser before it makes codes; .*leave --input and that quantiser out")


@pytest.mark.parametrize("shape", [(9,), (1, 3, 3), (2, 3, 4)])
@pytest.mark.parametrize("name", ["mean", "std"])
def test_a_wrong_number_of_means_is_said(tmp_path: Path, shape: tuple[int, ...], name: str) -> None:
    channels = shape[0] if len(shape) == 3 else 1
    words = f"--{name}: 5 numbers, but the input has {channels} channels?; give one for each channel, or one for all"
    refused(tmp_path, _threshold(shape), words, input="pixels", **{name: [0.1, 0.2, 0.3, 0.4, 0.5]})


def test_means_of_channels_that_lie_last_are_those_of_channels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 4, 5, 3))
    file.node("Transpose", perm=[0, 3, 1, 2])
    decided(file).node("Conv", signs(rng, 4, 3, 3, 3))
    decided(file).node("Flatten")
    file.node("MatMul", signs(rng, 24, 4))
    mean = np.float32([0.2, 0.5, 0.7])
    found, program = imported(file.save(tmp_path / "net.onnx"), input="pixels", mean=mean.tolist())
    raw = rng.integers(0, 256, (64, 3, 4, 5)).astype(np.uint8)
    given = raw.transpose(0, 2, 3, 1) / np.float32(255) - mean
    assert len(found.encoding.at) == 3 and (scores(program, raw) == ran(file.model(), given)).all()


def test_numbers_beyond_float64_are_refused_by_node(tmp_path: Path) -> None:
    def scaled() -> File:
        file = hidden(File(("N", 9)), np.random.default_rng(0))
        for _ in range(2):
            file.node("Mul", file.constant(1e300, np.float64))
        return file

    file = scaled()
    file.node("MatMul", np.random.default_rng(0).normal(size=(8, 4)))
    refused(tmp_path, file, "MatMul_4 .*numbers are beyond what a float64 holds; use a network that did not", **INT8)
    file = scaled()
    file.node("Relu")
    file.node("MatMul", np.ones((8, 4)))
    refused(tmp_path, file, "Relu_4 .*numbers are beyond what a float64 holds", **INT8)
    file = File(("N", 9))
    for _ in range(2):
        file.node("Mul", file.constant(1e300, np.float64))
    file.node("Add", file.constant(1e300, np.float64))
    file.node("Mul", file.constant(1e-300, np.float64))
    file.node("Mul", file.constant(1e-300, np.float64))
    decided(file).node("MatMul", np.ones((9, 4)))
    blrc.import_onnx(file.save(tmp_path / "net.onnx"))


@pytest.mark.parametrize(
    ("kind", "opset", "attributes"),
    [
        ("Squeeze", 11, {"axes": 1}),
        ("Clip", 9, {"min": "a"}),
        ("Shape", 15, {"start": "a"}),
        ("Pad", 9, {"pads": 1}),
        ("Pad", 9, {"pads": ["a", "b", "c", "d"]}),
    ],
)
def test_attributes_of_another_type_end_in_one_line(
    tmp_path: Path, kind: str, opset: int, attributes: dict[str, Any]
) -> None:
    file = File(("N", 9), opset=opset)
    file.node("MatMul", np.ones((9, 8)))
    file.node(kind, **attributes)
    refused(tmp_path, file, f"{kind}_1 .*the file is malformed: .* its operator takes; export", **INT8)


def test_a_bound_that_is_nan_is_said(tmp_path: Path) -> None:
    file = File(("N", 9))
    file.node("MatMul", np.ones((9, 8)))
    file.node("Clip", np.float32(np.nan))
    refused(tmp_path, file, "Clip_1 .*its min is NaN; give a finite bound", **INT8)


def _huge(kind: str) -> File:
    """Return a small file whose constant would have 2^28 values or more."""
    file = File(("N", 9))
    wide = file.alone("ConstantOfShape", [file.constant([2**14, 1], np.int64)])
    tall = file.alone("ConstantOfShape", [file.constant([1, 2**14], np.int64)])
    if kind == "Gather":
        zeros = file.alone("Cast", [tall], to=TensorProto.INT64)
        made = file.alone("Gather", [wide, zeros], axis=1)
    elif kind == "Concat":
        made = file.alone("Concat", [wide] * 2**14, axis=1)
    else:
        made = file.alone(kind, [wide, tall], domain=BREVITAS if kind == "BipolarQuant" else "")
    file.node("Add", made)
    return file


@pytest.mark.parametrize("kind", ["Gather", "Concat", "BipolarQuant", "Clip", "Add"])
def test_constants_are_bounded_before_they_are_computed(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("take", "concatenate", "where", "clip", "add"):
        monkeypatch.setattr(np, name, lambda *_, **__: pytest.fail("computed"))
    refused(tmp_path, _huge(kind), f"{kind}_.*its result would be too large", **INT8)


@pytest.mark.parametrize("options", [INT8, {"input": "pixels"}])
def test_a_scale_of_each_pixel_is_bounded(tmp_path: Path, options: dict[str, Any]) -> None:
    file = File(("N", 1, 1024, 1024))
    file.node("Add", np.arange(1024).reshape(1, 1024, 1))
    file.node("Mul", np.arange(1, 1025).reshape(1, 1, 1024))
    decided(file).node("Flatten")
    refused(tmp_path, file, "Mul_1 .*would have 1048576 scales or shifts of its own, and at most 16384", **options)

"""Faults that drawn and mutated files showed, each with what ONNX Runtime gives or the words of the refusal."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from onnx_chains import BREVITAS, FINN, File, imported, ran, scores, signs

import blrc
from blrc.errors import BlrcError

MARKS = np.float32([0.2, 0.5, 0.7])


def decided(file: File) -> File:
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)
    return file


def refused(path: Path, file: File, words: str, **options: Any) -> None:
    with pytest.raises(BlrcError, match=words) as raised:
        blrc.import_onnx(file.save(path), **options)
    assert "\n" not in str(raised.value)


def expect_equal(path: Path, file: File, shape: tuple[int, ...], to_file: Callable[[Any], Any]) -> None:
    """Compare with ONNX Runtime on random pixels of a shape, channels first."""
    found, program = imported(file.save(path), input="pixels")
    raw = np.random.default_rng(1).integers(0, 256, (60, *shape)).astype(np.uint8)
    given = np.ascontiguousarray(to_file(raw), dtype=np.float32) / np.float32(255)
    assert (scores(program, raw.reshape(60, *found.encoding.shape)) == ran(file.model(), given)).all()


def channels_last(x: NDArray[Any]) -> NDArray[Any]:
    return np.moveaxis(x, 1, -1)


# ---- thresholds and tables of the raw input


def flattened(file: File, features: int, rng: np.random.Generator) -> None:
    file.node("Flatten")
    file.node("MatMul", signs(rng, features, 5))


def convolved(file: File, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    channels, height, width = shape
    file.node("Conv", signs(rng, 4, channels, 2, 2))
    flattened(decided(file), 4 * (height - 1) * (width - 1), rng)


SHAPES = [(3, 4, 5), (3, 3, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_thresholds_of_channels_stay_with_them_through_a_flatten(shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for last in (False, True):
        file = File(("N", *shape[1:], 3) if last else ("N", *shape))
        file.node("Sub", MARKS if last else MARKS.reshape(3, 1, 1))
        flattened(decided(file), int(np.prod(shape)), rng)
        expect_equal(tmp_path / "net.onnx", file, shape, channels_last if last else lambda x: x)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spelling", ["BipolarQuant", "Quant", "MultiThreshold"])
def test_thresholds_and_tables_of_channels_that_lie_last(shape: tuple[int, ...], spelling: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", *shape[1:], 3))
    if spelling == "MultiThreshold":
        options: dict[str, Any] = {"out_scale": 2.0, "out_bias": -1.0, "data_layout": "NHWC"}
        file.node("MultiThreshold", MARKS[:, None], domain=FINN, **options)
    else:
        file.node("Sub", MARKS)
        more = [np.float32(0), np.float32(8)] if spelling == "Quant" else []
        options = {"signed": 1, "narrow": 1} if spelling == "Quant" else {}
        file.node(spelling, np.float32(1 / 64), *more, domain=BREVITAS, **options)
    file.node("Transpose", perm=[0, 3, 1, 2])
    convolved(file, rng, shape)
    expect_equal(tmp_path / "net.onnx", file, shape, channels_last)


def test_thresholds_that_a_transpose_takes_from_the_channels_are_refused(tmp_path: Path) -> None:
    """They were given to the wrong channels, where height and channels are as many."""
    file = File(("N", 3, 3, 3))
    file.node("Sub", MARKS.reshape(3, 1, 1))
    decided(file).node("Transpose", perm=[0, 2, 3, 1])
    convolved(file, np.random.default_rng(0), (3, 3, 3))
    refused(
        tmp_path / "net.onnx", file, "Conv_3 .*lie along its axis 3, not along its channels; transp", input="pixels"
    )


def test_thresholds_of_channels_of_one_dimension(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 3, 8))
    file.node("Sub", MARKS.reshape(3, 1))
    decided(file).node("Conv", signs(rng, 4, 3, 3))
    flattened(decided(file), 24, rng)
    expect_equal(tmp_path / "net.onnx", file, (3, 8), lambda x: x)


def test_thresholds_of_each_feature_are_called_so(tmp_path: Path) -> None:
    file = File(("N", 9))
    file.node("Sub", np.arange(9))
    decided(file).node("MatMul", signs(np.random.default_rng(0), 9, 4))
    words = "BipolarQuant_1 .*each feature of the raw input has a scale or a threshold of its own; give one for all"
    refused(tmp_path / "net.onnx", file, words)
    refused(tmp_path / "net.onnx", file, words, input="pixels")


def test_a_note_says_how_many_thresholds_it_leaves_out(tmp_path: Path) -> None:
    file = File(("N", 12, 2, 2))
    file.node("Sub", np.arange(12).reshape(12, 1, 1))
    flattened(decided(file), 48, np.random.default_rng(0))
    said: list[str] = []
    blrc.import_onnx(file.save(tmp_path / "net.onnx"), say=said.append)
    words = "1 where the network's input >= 0, 1, 2, 3, 4, 5, 6, 7, ... (12 in all) in the order of channels, else 0"
    assert said == [f"the raw input is bits: {words}"]


# ---- spellings


@pytest.mark.parametrize("options", [{"input": "pixels"}, {}])
def test_a_clip_before_the_first_sign_changes_nothing(options: dict[str, str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 9))
    file.node("Sub", np.float32(0.4))
    file.node("Clip", np.float32(-0.25), np.float32(0.5))
    decided(file).node("MatMul", signs(rng, 9, 5))
    _, program = imported(file.save(tmp_path / "net.onnx"), **options)
    raw = rng.integers(0, 256 if options else 2, (60, 9)).astype(np.uint8)
    x = raw / np.float32(255) if options else raw.astype(np.float32)
    assert (scores(program, raw) == ran(file.model(), x)).all()


def test_a_clip_of_the_raw_input_that_is_no_sign_is_refused(tmp_path: Path) -> None:
    file = File(("N", 9))
    file.node("Clip", np.float32(-0.25), np.float32(0.5))
    file.node("MatMul", np.ones((9, 5)))
    for options in ({"input": "pixels"}, {"input": "int8", "scale": 8.0}):
        words = "MatMul_1 .*reads the raw input behind Clip_0 .*; put a sign between them, or leave out the clip"
        refused(tmp_path / "net.onnx", file, words, **options)
    file = File(("N", 9))
    file.node("Clip", np.float32(-0.25), np.float32(0.5))
    file.node("Sub", np.float32(0.6))
    decided(file).node("MatMul", np.ones((9, 5)))
    refused(tmp_path / "net.onnx", file, "Sub_1 .*it adds to the raw input behind Clip_0 .*; add before the clip")


def test_max_and_min_are_clips(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 9))
    file.node("MatMul", signs(rng, 9, 16))
    file.at = file.alone("Max", [file.constant(-2.0), file.at])
    file.node("Min", np.float32(3))
    file.node("Sub", rng.integers(-3, 4, 16))
    decided(file).node("MatMul", signs(rng, 16, 5))
    _, program = imported(file.save(tmp_path / "net.onnx"), input="bits")
    raw = rng.integers(0, 2, (60, 9)).astype(np.uint8)
    assert (scores(program, raw) == ran(file.model(), raw * np.float32(2) - 1)).all()
    file.nodes[1].input[0] = file.nodes[1].input[1]
    refused(tmp_path / "net.onnx", file, "Max_1 .*it joins two branches", input="bits")


@pytest.mark.parametrize("rank", [1, 2])
def test_convolutions_and_pools_behind_a_map_of_one_position(rank: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes, three, ones = [5, 4][:rank], [3] * rank, [1] * rank
    file = File(("N", 2, *sizes))
    file.node("Conv", signs(rng, 7, 2, *sizes))  # covers the map
    decided(file).node("Conv", signs(rng, 9, 7, *three), rng.integers(-2, 3, 9), pads=[1] * 2 * rank)
    file.node("MaxPool", kernel_shape=[2] * rank, pads=[0] * rank + ones)
    decided(file).node("Conv", signs(rng, 5, 9, *ones))
    found, program = imported(file.save(tmp_path / "net.onnx"), input="bits")
    raw = rng.integers(0, 2, (60, 2 * int(np.prod(sizes)))).astype(np.uint8)
    expected = ran(file.model(), (raw * np.float32(2) - 1).reshape(60, 2, *sizes)).reshape(60, 5)
    assert (scores(program, raw.reshape(60, *found.encoding.shape)) == expected).all()
    decided(file).node("Conv", signs(rng, 5, 1, *ones), group=5)
    refused(tmp_path / "net.onnx", file, "Conv_.*a map of one position, and it is no dense layer: it has", input="bits")


def test_weights_that_are_rounded_and_scaled_by_their_mean(tmp_path: Path) -> None:
    """Courbariaux's round(hard sigmoid) for signs, and XNOR-Net's mean of sizes for scales."""
    rng = np.random.default_rng(0)
    held = rng.normal(size=(9, 6)).astype(np.float32)
    file = File(("N", 9))
    name = file.constant(held)
    sizes = file.node("ReduceL1", on=name, axes=[0], keepdims=1)
    half = file.node("Div", 2.0, on=file.node("Add", 1.0, on=name))
    bits = file.node("Round", on=file.node("Clip", np.float32(0), np.float32(1), on=half))
    plus = file.node("Sub", 1.0, on=file.node("Mul", 2.0, on=bits))
    file.node("MatMul", file.alone("Mul", [plus, sizes]))
    decided(file).node("MatMul", signs(rng, 6, 4))
    _, program = imported(file.save(tmp_path / "net.onnx"), input="bits")
    raw = rng.integers(0, 2, (60, 9)).astype(np.uint8)
    assert (scores(program, raw) == ran(file.model(), raw * np.float32(2) - 1)).all()


# ---- numbers


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_dense_weights_that_are_not_finite_are_refused_without_a_warning(bad: float, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(9, 4))
    weights[3, 2] = bad
    file = File(("N", 9))
    file.node("MatMul", weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(tmp_path / "net.onnx", file, "MatMul_0 .*NaN or infinite values", input="bits")


def test_a_file_in_float16_is_taken_for_its_numbers_and_says_so(tmp_path: Path) -> None:
    """Its own sums are rounded to 11 digits; the same file in float32 is what is imported."""
    said: dict[int, list[str]] = {TensorProto.FLOAT16: [], TensorProto.FLOAT: []}
    found = {}
    for element, kind in ((TensorProto.FLOAT16, np.float16), (TensorProto.FLOAT, np.float32)):
        rng = np.random.default_rng(0)
        file = File(("N", 99), element=element)
        file.node("MatMul", file.constant(signs(rng, 99, 8), kind))
        file.node("Mul", file.constant(np.float16(0.1), kind))
        file.node("Add", file.constant(rng.normal(size=8).astype(np.float16), kind))
        decided(file).node("MatMul", file.constant(signs(rng, 8, 4), kind))
        file.nodes[-2].input[1] = file.constant(1, kind)
        _, program = imported(file.save(tmp_path / "net.onnx"), input="bits", say=said[element].append)
        raw = rng.integers(0, 2, (200, 99)).astype(np.uint8)
        found[element] = scores(program, raw)
    assert (found[TensorProto.FLOAT16] == ran(file.model(), raw * np.float32(2) - 1)).all()
    assert (found[TensorProto.FLOAT] == found[TensorProto.FLOAT16]).all()
    assert said[TensorProto.FLOAT] == [] and len(said[TensorProto.FLOAT16]) == 1
    assert said[TensorProto.FLOAT16][0].startswith("the file computes in float16, which rounds")


def test_an_operator_of_several_lines_is_named_in_one(tmp_path: Path) -> None:
    file = File(("N", 9))
    file.node("MatMul", file.node("A\nB", on=file.constant(np.ones((9, 4)))))
    refused(tmp_path / "net.onnx", file, r"A.*constants go through A\\nB, which is not computed here", input="bits")


def test_a_mean_of_nothing_is_refused_without_a_warning(tmp_path: Path) -> None:
    file = File(("N", 9))
    file.node("Mul", file.node("ReduceMean", on=file.constant(np.zeros((0, 3)))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(tmp_path / "net.onnx", file, "ReduceMean_0 .*it reduces a constant without values", input="bits")

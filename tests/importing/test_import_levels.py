"""Quantisers of several bits in ONNX files: levels, and weights that are whole numbers times a scale."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx_chains import BREVITAS, File, imported, ran, scores, signs
from test_import_spellings import bits, expect_equal

from blrc.app.import_onnx import import_onnx
from blrc.errors import BlrcError
from blrc.importing.numbers import Discrete, whole_of
from blrc.program.program import Conv, Scores

SCALE = 2.0**-5
"""Scale activations so that sums are exact in float32, and ONNX Runtime decides as exact numbers do."""


def numbers(rng: np.random.Generator, most: int, *shape: int) -> NDArray[np.float32]:
    """Weights from -most to most, times a power of two for each channel."""
    held = rng.integers(-most, most + 1, shape).astype(np.float32)
    held.reshape(len(held), -1)[:, 0] = most
    return held * np.exp2(rng.integers(-6, 0, len(held))).astype(np.float32).reshape(-1, *[1] * (len(shape) - 1))


def normed(file: File, rng: np.random.Generator, channels: int, size: float) -> None:
    rows = [rng.normal(size=channels).astype(np.float32) for _ in range(3)]
    rows[2] *= np.float32(size)
    file.node("BatchNormalization", *rows, rng.uniform(0.5, 2, channels).astype(np.float32) * np.float32(size**2))


def levels(file: File, width: int, signed: bool = False, narrow: bool = False, scale: float = SCALE) -> None:
    rest = {"signed": int(signed), "narrow": int(narrow), "rounding_mode": "ROUND"}
    file.node("Quant", scale, 0.0, float(width), domain=BREVITAS, **rest)


@pytest.mark.parametrize(("weight", "width", "signed", "narrow"), [
    (127, 8, False, False), (7, 4, False, False), (1, 2, False, True), (3, 3, True, True), (1, 2, True, False),
    (1, 2, True, True), (127, 8, True, False),
])  # fmt: skip
def test_dense_networks_of_several_bits(weight: int, width: int, signed: bool, narrow: bool, tmp_path: Path) -> None:
    """Build networks as the W2A2 ones of QONNX's zoo: norm, quantiser, whole weights, also in the last layer."""
    rng = np.random.default_rng(width + 10 * weight)
    file = File(("N", 30))
    bits(file)
    for inputs, outputs in ((30, 20), (20, 16)):
        file.node("MatMul", numbers(rng, weight, outputs, inputs).T)
        normed(file, rng, outputs, weight / 8)
        if not signed:
            file.node("Relu")
        levels(file, width, signed, narrow, 2.0 ** (1 - width))
    file.node("MatMul", numbers(rng, weight, 4, 16).T)
    file.node("Mul", np.float32(0.25))
    file.node("Add", np.float32([0.5, -0.25, 1.0, 0.0]))
    found, program = imported(file.save(tmp_path / "n.onnx", listed=True))
    assert [node.kind for node in found.nodes].count("even_levels") == 2 and isinstance(program.ops[-1], Scores)
    convs = [op for op in program.ops if isinstance(op, Conv) and not op.name.endswith("turned")]
    assert all((op.ternary, op.whole) == ((True, False) if weight == 1 else (False, True)) for op in convs)
    x = np.random.default_rng(1).integers(0, 2, (200, 30), dtype=np.uint8)
    expected = ran(file.model(), x.astype(np.float32))
    theirs, ours = expected.argmax(1), scores(program, x).argmax(1)
    gap = np.sort(expected, axis=1)
    clear = gap[:, -1] - gap[:, -2] > 0.02 * np.abs(expected).max()  # the last layer's weights are rounded to 8 bits
    assert clear.sum() > 100 and (theirs == ours)[clear].all()
    unit = program.score_scale * 16 * (2**width - 1)
    assert np.abs(scores(program, x) - expected).max() <= unit


def test_convolutions_with_depthwise_and_pointwise_layers(tmp_path: Path) -> None:
    """Zeros are padded around levels from 0 on; a pool takes the largest, another one averages."""
    rng = np.random.default_rng(3)
    file = File(("N", 2, 9, 8))
    bits(file)
    file.node("Conv", numbers(rng, 127, 6, 2, 3, 3), strides=[2, 1])
    normed(file, rng, 6, 20)
    file.node("Relu")
    levels(file, 4, scale=0.125)
    file.node("Conv", numbers(rng, 31, 6, 1, 3, 3), pads=[1, 1, 1, 1], group=6)
    normed(file, rng, 6, 10)
    file.node("MaxPool", kernel_shape=[2, 2], strides=[1, 1])
    levels(file, 3, scale=0.25)
    file.node("Conv", numbers(rng, 15, 10, 6, 1, 1), rng.normal(size=10).astype(np.float32))
    normed(file, rng, 10, 10)
    levels(file, 2, scale=0.5)
    file.node("AveragePool", kernel_shape=[2, 2], strides=[1, 1])
    file.node("Flatten")
    file.node("Gemm", rng.normal(size=(3, 10 * 2 * 4)), transB=1)
    expect_equal(file, tmp_path / "n.onnx", (2, 9, 8), 0.3)
    program = imported(tmp_path / "n.onnx")[1]
    assert [op.whole for op in program.ops if isinstance(op, Conv)] == [True, True, True]


def test_weights_that_the_file_quantises(tmp_path: Path) -> None:
    """Let nodes make weights: a Quant, and a DequantizeLinear with a scale for each channel."""
    rng = np.random.default_rng(4)
    file = File(("N", 2, 6, 6), opset=13)
    bits(file)
    x, held = file.at, file.constant(rng.normal(size=(5, 2, 3, 3)))
    file.at = held
    file.node("Quant", 0.03, 0.0, 8.0, domain=BREVITAS, signed=1, narrow=1, rounding_mode="ROUND")
    first, file.at = file.at, file.constant(rng.integers(-127, 128, (7, 5, 3, 3)), np.int8)
    file.node("DequantizeLinear", rng.uniform(0.01, 0.1, 7), file.constant(np.zeros(7), np.int8), axis=0)
    second, file.at = file.at, x
    file.node("Conv", first)
    normed(file, rng, 5, 4)
    levels(file, 4)
    file.node("Conv", second)
    normed(file, rng, 7, 4)
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 7 * 4, 3))
    found, program = imported(file.save(tmp_path / "n.onnx", listed=True))
    assert [node.kind for node in found.nodes].count("whole_conv2d") == 2
    raw = np.random.default_rng(1).integers(0, 2, (40, 2, 6, 6), dtype=np.uint8)
    expected = ran(file.model(), raw.astype(np.float32))
    assert (scores(program, raw).argmax(1) == expected.argmax(1)).mean() > 0.9


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 127),
    st.floats(2.0**-20, 1000, width=32),
    st.lists(st.integers(-127, 127), min_size=1, max_size=40),
)
def test_numbers_and_scale_are_found_again(most: int, scale: float, row: list[int]) -> None:
    """The products that float32 gives: numbers of the coarsest unit with exactly these products."""
    row = [max(-most, min(most, n)) for n in row]
    held = np.array([row], np.float32) * np.float32(scale)
    found = whole_of(held)
    assert isinstance(found, Discrete)
    assert (found.numbers.astype(np.float32) * np.float32(found.scales[0]) == held).all()
    largest = max(map(abs, row))
    assert np.abs(found.numbers.astype(int)).max() <= largest


@pytest.mark.parametrize("seed", range(4))
def test_real_weights_are_not_taken_for_numbers(seed: int) -> None:
    assert whole_of(np.random.default_rng(seed).normal(size=(4, 9)).astype(np.float32)) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounding_mode": "FLOOR"}, "it rounds up or down alone; round to the nearest number"),
        ({"width": 9.0}, "it gives 512 levels, from 0 to 511; use at most 8 bits"),
        ({"zero": 3.0}, "its zero point is not 0"),
        ({"scale": 1e-30}, r"'Quant_\d+': step .*: give a positive number|step"),
    ],
)
def test_quantisers_that_are_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    file = File(("N", 12))
    bits(file)
    file.node("MatMul", signs(np.random.default_rng(0), 12, 12))
    width, zero, scale = (change.pop(key, default) for key, default in (("width", 4.0), ("zero", 0.0), ("scale", 0.5)))
    rest = {"signed": 0, "narrow": 0, "rounding_mode": "ROUND", **change}
    file.node("Quant", scale, zero, width, domain=BREVITAS, **rest)
    file.node("MatMul", signs(np.random.default_rng(0), 12, 3))
    with pytest.raises(BlrcError) as error:
        import_onnx(file.save(tmp_path / "n.onnx", listed=True))
    assert re.search(message, str(error.value)) and "\n" not in str(error.value)


@pytest.mark.parametrize("number", [-128, 128])
def test_regression_the_number_128_became_its_opposite(number: int, tmp_path: Path) -> None:
    """-128 was refused, and 128 wrapped around to it without a word."""
    rng = np.random.default_rng(0)
    file = File(("N", 12))
    bits(file)
    held = rng.integers(-127, 128, (12, 12)).astype(np.float32)
    held[0, :2] = number, 127
    file.node("MatMul", held.T)
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("MatMul", signs(rng, 12, 3))
    with pytest.raises(BlrcError, match=rf"of which one is {number}.*symmetric quantisers of 8 bits"):
        import_onnx(file.save(tmp_path / "n.onnx", listed=True))


@pytest.mark.parametrize("number", [-128, 128])
def test_a_last_layer_may_have_any_numbers(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 12))
    bits(file)
    file.node("MatMul", signs(rng, 12, 12))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    held = rng.integers(-127, 128, (3, 12)).astype(np.float32)
    held[0, :2] = number, 127
    file.node("MatMul", held.T)
    expect_equal(file, tmp_path / "n.onnx", (12,), 12)


@pytest.mark.parametrize(
    ("shape", "scale", "axis"),
    [((), np.full(12, 0.1), 1), ((12, 12), np.full(12, 0.1), 7), ((12, 12), np.full(12, 0.1), -9),
     ((12, 12), np.full((12, 2), 0.1), 1)],
)  # fmt: skip
def test_regression_scales_along_no_axis_are_refused(
    shape: tuple[int, ...], scale: NDArray[np.float64], axis: int, tmp_path: Path
) -> None:
    """A constant of no dimensions ended in a traceback, and an axis out of range was taken for another one."""
    file = File(("N", 12), opset=13)
    bits(file)
    x, file.at = file.at, file.constant(np.full(shape, 3), np.int8)
    file.node("DequantizeLinear", scale, axis=axis)
    weights, file.at = file.at, x
    file.node("MatMul", weights)
    with pytest.raises(BlrcError, match="its scales lie along no axis"):
        import_onnx(file.save(tmp_path / "n.onnx", listed=True))


def test_numbers_that_were_rounded_again_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 12))
    bits(file)
    file.node("MatMul", (rng.integers(-127, 128, (12, 12)) * 0.3).astype(np.float32))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("MatMul", signs(rng, 12, 3))
    with pytest.raises(BlrcError, match=r"whose weights are whole numbers of 8 bits times s .* only up to rounding"):
        import_onnx(file.save(tmp_path / "n.onnx", listed=True))


@pytest.mark.parametrize("node", ["Relu", "Sigmoid", "BipolarQuant", "Quant"])
def test_nothing_else_computes_with_levels(node: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 12))
    bits(file)
    file.node("MatMul", signs(rng, 12, 12))
    levels(file, 3)
    if node == "BipolarQuant":
        file.node(node, np.float32(1.0), domain=BREVITAS)
    elif node == "Quant":
        levels(file, 3)
    else:
        file.node(node)
    file.node("MatMul", signs(rng, 12, 3))
    with pytest.raises(BlrcError, match=r"it computes with levels|has no exact form"):
        import_onnx(file.save(tmp_path / "n.onnx", listed=True))


def test_zeros_around_levels_below_0_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 2, 6, 6))
    bits(file)
    file.node("Conv", signs(rng, 4, 2, 3, 3))
    levels(file, 2, signed=True)
    file.node("Conv", signs(rng, 4, 4, 3, 3), pads=[1, 1, 1, 1])
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 64, 3))
    with pytest.raises(BlrcError, match="it pads levels below 0; leave out the padding"):
        import_onnx(file.save(tmp_path / "n.onnx", listed=True))

"""Single spellings that random chains do not have: FINN's operators, one dimension, heads, pads, endings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx_chains import BREVITAS, FINN, File, imported, ran, scores, signs

import blrc


def bits(file: File) -> None:
    file.node("Sub", np.float32(0.5))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)


def norm(file: File, rng: np.random.Generator, channels: int) -> None:
    rows = [rng.normal(size=channels).astype(np.float32) for _ in range(3)]
    file.node("BatchNormalization", *rows, rng.uniform(2, 5, channels).astype(np.float32))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)


def expect_equal(file: File, path: Path, shape: tuple[int, ...], bound: float = 0.01) -> None:
    found, program = imported(file.save(path, listed=True))
    x = np.random.default_rng(1).integers(0, 2, (40, *shape), dtype=np.uint8)
    expected = ran(file.model(), x.astype(np.float32)).reshape(40, -1)
    assert np.abs(scores(program, x.reshape(40, *found.encoding.shape)) - expected).max() < bound


def test_one_dimension(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 3, 20))
    bits(file)
    file.node("Conv", signs(rng, 6, 3, 5), pads=[2, 2])
    file.node("MaxPool", kernel_shape=[2], strides=[2])
    norm(file, rng, 6)
    file.node("Conv", signs(rng, 4, 6, 3), rng.normal(size=4), dilations=[2])
    norm(file, rng, 4)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 4 * 6, 3))
    expect_equal(file, tmp_path / "n.onnx", (3, 20))


@pytest.mark.parametrize("pool", [False, True])
def test_a_convolution_as_the_head(pool: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    file = File(("N", 2, 6, 5))
    bits(file)
    file.node("Conv", signs(rng, 5, 2, 3, 3))
    norm(file, rng, 5)
    kernel = (1, 1) if pool else (4, 3)
    if pool:
        file.node("GlobalMaxPool")
    file.node("Conv", signs(rng, 4, 5, *kernel) * np.float32(0.5), rng.normal(size=4))
    file.node("Squeeze", file.constant([2, 3], np.int64))
    expect_equal(file, tmp_path / "n.onnx", (2, 6, 5))


def test_a_norm_of_a_vector_that_was_a_map(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    file = File(("N", 2, 4, 4))
    bits(file)
    file.node("Conv", signs(rng, 7, 2, 3, 3))
    file.node("MaxPool", kernel_shape=[2, 2])
    file.node("Flatten")
    norm(file, rng, 7)
    file.node("Gemm", rng.normal(size=(3, 7)), transB=1, alpha=0.5)
    file.node("Mul", np.float32([1.5, -2.0, 0.25]))
    expect_equal(file, tmp_path / "n.onnx", (2, 4, 4), 0.05)


def test_pads_and_words_for_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    file = File(("N", 2, 6, 5))
    bits(file)
    file.node("Pad", file.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    file.node("Conv", signs(rng, 5, 2, 3, 3))
    norm(file, rng, 5)
    file.node("Conv", signs(rng, 5, 5, 2, 2), auto_pad="SAME_UPPER")
    norm(file, rng, 5)
    file.node("Identity")
    file.node("Flatten")
    file.node("MatMul", signs(rng, 5 * 6 * 5, 3))
    expect_equal(file, tmp_path / "n.onnx", (2, 6, 5))


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "pads": {"pads": [0, 0, 1, 1]},
    "pads before": {"pads": [2, 1, 0, 0]},
    "SAME_UPPER": {"auto_pad": "SAME_UPPER"},
    "SAME_LOWER": {"auto_pad": "SAME_LOWER"},
}
POOLS: dict[str, dict[str, Any]] = {
    "pads": {"pads": [0, 0, 1, 1]},
    "pads of two": {"pads": [0, 2, 1, 0]},
    "SAME_UPPER": {"auto_pad": "SAME_UPPER"},
    "SAME_LOWER": {"auto_pad": "SAME_LOWER"},
    "ceil_mode": {"ceil_mode": 1},
    "ceil_mode, pads": {"ceil_mode": 1, "pads": [1, 0, 0, 1]},
}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_pads_of_one_side(conv: str, pool: str, tmp_path: Path) -> None:
    """A first layer on codes, one on bits, and pools of sums and of bits, all with stride 2."""
    rng = np.random.default_rng(10)
    file = File(("N", 2, 20, 17))
    file.node("Conv", signs(rng, 5, 2, 3, 3), strides=[2, 2], **CONVOLUTIONS[conv])
    file.node("MaxPool", kernel_shape=[3, 3], strides=[2, 1], **POOLS[pool])
    norm(file, rng, 5)
    file.node("Pad", file.constant([0, 0, 0, 1, 0, 0, 0, 0], np.int64))
    file.node("Conv", signs(rng, 6, 5, 3, 2), strides=[1, 2], **CONVOLUTIONS[conv])
    norm(file, rng, 6)
    file.node(
        "MaxPool", kernel_shape=[2, 3], strides=[2, 2], **(POOLS[pool] if "of" not in pool else {"pads": [1, 0, 0, 2]})
    )
    features = ran(file.model(), np.zeros((1, 2, 20, 17), np.float32)).size
    file.node("Flatten")
    file.node("MatMul", signs(rng, features, 3))
    path = file.save(tmp_path / "n.onnx")
    raw = rng.integers(-128, 128, (40, 2, 20, 17)).astype(np.int8)
    _, program = imported(path, input="int8")
    assert np.abs(scores(program, raw) - ran(file.model(), raw.astype(np.float32))).max() < 0.01


def test_a_window_of_a_pool_sees_the_map(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    file = File(("N", 2, 6, 5))
    bits(file)
    file.node("MaxPool", kernel_shape=[2, 2], pads=[0, 0, 2, 0])
    file.node("Flatten")
    file.node("MatMul", signs(rng, 2 * 7 * 4, 3))
    with pytest.raises(
        blrc.BlrcError, match=r"its padding \(0, 0, 2, 0\) is no less than the kernel .* at most \(1, 1\)"
    ):
        blrc.import_onnx(file.save(tmp_path / "n.onnx"))


def test_bits_that_are_0_and_1(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    file = File(("N", 20))
    file.node("Greater", np.float32(0.5))
    file.node("Cast", to=TensorProto.FLOAT)
    file.node("MatMul", signs(rng, 20, 9) * np.float32(0.7))
    norm(file, rng, 9)
    file.node("Relu")
    file.node("MatMul", signs(rng, 9, 3))
    file.node("Add", np.float32([0.1, 0.2, 0.3]))
    expect_equal(file, tmp_path / "n.onnx", (20,))


def test_finn_counts_equal_bits(tmp_path: Path) -> None:
    """XnorPopcountMatMul by its definition: how many of the bits 0 and 1 equal the weights 0 and 1."""
    rng = np.random.default_rng(6)
    weights = rng.integers(0, 2, (20, 9)).astype(np.float32)
    last = rng.integers(0, 2, (9, 3)).astype(np.float32)
    limits = rng.integers(6, 14, (9, 1)).astype(np.float32) + np.float32(0.5)
    file = File(("N", 20))
    file.node("MultiThreshold", np.float32([[0.5]]), domain=FINN, out_dtype="BINARY", data_layout="NC")
    file.node("XnorPopcountMatMul", weights, domain=FINN)
    file.node("MultiThreshold", limits, domain=FINN, out_dtype="BINARY", data_layout="NC")
    file.node("XnorPopcountMatMul", last, domain=FINN)
    _, program = imported(file.save(tmp_path / "n.onnx"))
    raw = rng.integers(0, 2, (50, 20), dtype=np.uint8)

    def equal(x: NDArray[Any], held: NDArray[Any]) -> NDArray[Any]:
        return (x[:, :, None] == held[None]).sum(axis=1)

    expected = equal(equal(raw, weights) >= limits[:, 0], last)
    assert np.abs(scores(program, raw) - expected).max() < 0.01


@pytest.mark.parametrize("ending", ["Softmax", "LogSoftmax", "ArgMax", "TopK"])
def test_what_follows_the_scores_is_left_out(ending: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)

    def network() -> File:
        file = File(("N", 20))
        bits(file)
        file.node("MatMul", signs(np.random.default_rng(7), 20, 3))
        return file

    plain, file = network(), network()
    if ending == "TopK":
        name = file.constant([1], np.int64)
        file.nodes.append(helper.make_node("TopK", [file.at, name], ["values", "indices"], "TopK"))
        file.at = "indices"
    else:
        file.node(ending, axis=1)
    _, program = imported(file.save(tmp_path / "n.onnx"))
    raw = rng.integers(0, 2, (50, 20), dtype=np.uint8)
    assert np.abs(scores(program, raw) - ran(plain.model(), raw.astype(np.float32))).max() < 0.01


def test_a_sign_that_can_be_0_is_refused_by_the_compiler(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    file = File(("N", 20))
    bits(file)
    file.node("MatMul", signs(rng, 20, 6))
    file.node("Sign")
    file.node("MatMul", signs(rng, 6, 3))
    path = file.save(tmp_path / "n.onnx")
    assert [node.kind for node in blrc.import_onnx(path).nodes][1] == "strict_sign"
    with pytest.raises(blrc.BlrcError, match="layer 'Sign_3': channel 0 can be exactly 0"):
        blrc.export(path, folder=tmp_path / "out", targets=["onnx"])


def test_bounds_of_a_clip_as_attributes(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    file = File(("N", 20), opset=9)
    bits(file)
    file.node("MatMul", signs(rng, 20, 9))
    file.node("Clip", min=-5.5, max=3.5)
    norm(file, rng, 9)
    file.node("MatMul", signs(rng, 9, 3))
    expect_equal(file, tmp_path / "n.onnx", (20,))

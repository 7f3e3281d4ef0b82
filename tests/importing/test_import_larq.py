"""Networks of Larq as tf2onnx writes them: one that Larq trained, and single spellings of its layers.

`larq_strided.onnx` was trained and written by `examples/imported/larq_tutorial.py`, whose docstring says with which
options; neither Larq nor TensorFlow is needed here. The other files have tf2onnx's nodes: maps with channels last,
transposes around convolutions, and signs as sign(sign(x) + 0.1).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_chains import File, imported, ran, scores, signs

import blrc
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.importing.declared import Declared
from blrc.program.ops.conv import Conv
from blrc.verification.original.compare import compare_original
from blrc.verification.original.file import open_file

STRIDED = Path(__file__).parent / "larq_strided.onnx"
SHAPE = (9, 8, 2)  # height, width, channels


def test_a_network_that_larq_trained_equals_its_original() -> None:
    """Every bit of every layer, every threshold on every sum, scores and labels, in ONNX Runtime."""
    paths = [list(node.attribute) for node in onnx.load(STRIDED).graph.node if node.op_type in ("Conv", "MaxPool")]
    pads = [onnx.helper.get_attribute_value(a) for row in paths for a in row if a.name == "pads"]
    assert pads == [[0, 0, 1, 1]] * 3
    declared = Declared("pixels")
    program = build(blrc.import_onnx(STRIDED, input="pixels"), [MAP])[0]
    windows = [window for op in program.ops if isinstance(op, Conv) for window in (op.window, op.pool) if window]
    assert [w.padding for w in windows[:3]] == [(0, 0, 1, 1)] * 3
    raw = np.random.default_rng(0).integers(0, 256, (300, 28, 28, 1)).astype(np.uint8)
    raw[:100] = np.where(raw[:100] > 200, raw[:100], 0)  # dark, as digits are
    found = compare_original(program, open_file(STRIDED, declared, "exact"), [(raw, None)], lambda *_: None)
    assert not found.problems and found.same_labels == found.labels == 300
    layers = found.layers.values()
    assert (
        len(layers) == 3 and not any(layer.differ for layer in layers) and sum(layer.bits for layer in layers) > 10**5
    )
    assert not found.channels and found.decisions > 1000


def larq(file: File, rng: np.random.Generator, channels: int) -> None:
    """A norm and a sign, on maps with channels first, and what lies behind it with channels last."""
    rows = [rng.normal(size=channels).astype(np.float32) for _ in range(3)]
    file.node("BatchNormalization", *rows, rng.uniform(2, 5, channels).astype(np.float32))
    file.node("Transpose", perm=[0, 2, 3, 1])
    file.node("Sign")
    file.node("Add", np.float32(0.1))
    file.node("Sign")


def first(file: File, rng: np.random.Generator) -> None:
    file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("Conv", signs(rng, 5, 2, 3, 3))


def last(file: File, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    features = ran(file.model(), np.zeros((1, *shape), np.float32)).size
    file.node("Reshape", file.constant([-1, features], np.int64))
    file.node("MatMul", signs(rng, features, 3))
    file.node("Add", rng.normal(size=3))


def expect_equal(file: File, path: Path, shape: tuple[int, ...]) -> None:
    _, program = imported(file.save(path), input="int8")
    raw = np.random.default_rng(1).integers(-128, 128, (60, *shape)).astype(np.int8)
    device = np.moveaxis(raw, -1, 1)
    expected = ran(file.model(), raw.astype(np.float32))
    assert np.abs(scores(program, device) - expected).max() < 0.01 and len(np.unique(expected)) > 10


def test_zeros_around_maps_with_channels_last(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", *SHAPE))
    first(file, rng)
    larq(file, rng, 5)
    file.node("Pad", file.constant([0, 0, 2, 0, 0, 1, 1, 0], np.int64))
    file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("Conv", signs(rng, 6, 5, 3, 3), strides=[2, 2])
    larq(file, rng, 6)
    last(file, rng, SHAPE)
    expect_equal(file, tmp_path / "n.onnx", SHAPE)


def test_ones_around_maps_with_channels_last(tmp_path: Path) -> None:
    """Larq's pad_values=1."""
    rng = np.random.default_rng(1)
    file = File(("N", *SHAPE))
    first(file, rng)
    larq(file, rng, 5)
    file.node("Pad", file.constant([0, 1, 1, 0, 0, 1, 1, 0], np.int64), np.float32(1))
    file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("Conv", signs(rng, 6, 5, 3, 3))
    larq(file, rng, 6)
    last(file, rng, SHAPE)
    expect_equal(file, tmp_path / "n.onnx", SHAPE)


def test_channels_cannot_be_padded(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    file = File(("N", *SHAPE))
    first(file, rng)
    larq(file, rng, 5)
    file.node("Pad", file.constant([0, 0, 0, 1, 0, 0, 0, 0], np.int64))
    last(file, rng, SHAPE)
    with pytest.raises(BlrcError, match=r"\(Pad\): it pads the batch or the channels"):
        blrc.import_onnx(file.save(tmp_path / "n.onnx"), input="int8")


@pytest.mark.parametrize("clipped", [False, True])
def test_heaviside_is_one_above_zero(clipped: bool, tmp_path: Path) -> None:
    """The sign of a ReLU, whose convolution sums whole numbers and 0 among them; and clips by Min and Max."""
    rng = np.random.default_rng(3)
    file = File(("N", *SHAPE))
    first(file, rng)
    file.node("Div", np.float32(256))
    if clipped:
        file.node("Min", np.float32(1.0))
        file.node("Max", np.float32(-0.5))
    file.node("Relu")
    file.node("Transpose", perm=[0, 2, 3, 1])
    file.node("Sign")
    file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("Conv", signs(rng, 6, 5, 2, 2), strides=[2, 1])
    larq(file, rng, 6)
    last(file, rng, SHAPE)
    expect_equal(file, tmp_path / "n.onnx", SHAPE)


def test_min_and_max_need_a_constant(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    file = File(("N", *SHAPE))
    first(file, rng)
    file.node("Max")
    with pytest.raises(BlrcError, match=r"\(Max\): it has 1 inputs; give it one number beside what is computed"):
        blrc.import_onnx(file.save(tmp_path / "n.onnx"), input="int8")


def test_pools_over_time(tmp_path: Path) -> None:
    """Convolutions see (C, 1, L), and pools (C, L, 1), padded at its end."""
    rng, shape = np.random.default_rng(5), (23, 3)
    file = File(("N", *shape))
    file.node("Unsqueeze", file.constant([1], np.int64))
    file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("Conv", signs(rng, 5, 3, 1, 3), pads=[0, 1, 0, 1])
    file.node("Squeeze", file.constant([2], np.int64))
    file.node("Unsqueeze", file.constant([3], np.int64))
    file.node("MaxPool", kernel_shape=[2, 1], strides=[2, 1], pads=[0, 0, 1, 0])
    file.node("Squeeze", file.constant([3], np.int64))
    file.node("Transpose", perm=[0, 2, 1])
    file.node("Sign")
    file.node("Add", np.float32(0.1))
    file.node("Sign")
    file.node("Unsqueeze", file.constant([1], np.int64))
    file.node("Transpose", perm=[0, 3, 1, 2])
    file.node("Conv", signs(rng, 6, 5, 1, 3), strides=[1, 2], pads=[0, 0, 0, 1])
    larq(file, rng, 6)
    last(file, rng, shape)
    expect_equal(file, tmp_path / "n.onnx", shape)

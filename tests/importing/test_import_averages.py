"""Average pooling of bits in ONNX files, in all its spellings: scores are those of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_chains import BREVITAS, File, imported, signs
from test_import_spellings import bits, expect_equal, norm
from test_original import compared, with_table

from blrc.app.import_onnx import import_onnx
from blrc.errors import BlrcError


def _global(file: File, style: str) -> None:
    """The average of a map of 4 x 3, by that node."""
    if style == "AveragePool":
        file.node("AveragePool", kernel_shape=[4, 3])
    elif style == "GlobalAveragePool":
        file.node("GlobalAveragePool")
    else:
        keep = int(style != "flat")
        file.node("ReduceMean", file.constant([2, -1], np.int64), keepdims=keep)
        if not keep:
            return
    file.node("Flatten")


@pytest.mark.parametrize("style", ["AveragePool", "GlobalAveragePool", "ReduceMean", "flat"])
def test_a_global_average_before_the_last_layer(style: str, tmp_path: Path) -> None:
    """Average bits -1 and +1 that a factor and a shift made 0.5 and 2.5; real and binary weights read the averages."""
    rng = np.random.default_rng(0)
    file = File(("N", 2, 6, 5), opset=18)
    bits(file)
    file.node("Conv", signs(rng, 7, 2, 3, 3))
    norm(file, rng, 7)
    file.node("Add", np.float32(1.5))
    _global(file, style)
    real = style in ("AveragePool", "flat")
    file.node("Gemm", rng.normal(size=(3, 7)) if real else signs(rng, 3, 7), transB=1)
    file.node("Mul", np.float32([1.5, -2.0, 0.25]))
    expect_equal(file, tmp_path / "n.onnx", (2, 6, 5), 0.05)


def test_windows_between_layers(tmp_path: Path) -> None:
    """A convolution reads averages of 0 and 1 without padding; a max pool takes the largest of others."""
    rng = np.random.default_rng(1)
    file = File(("N", 2, 12, 12))
    bits(file)
    file.node("Conv", signs(rng, 6, 2, 3, 3), pads=[1, 1, 1, 1])
    norm(file, rng, 6)
    file.node("Add", np.float32(1.0))
    file.node("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    file.node("Mul", np.float32(0.5))
    file.node("Conv", signs(rng, 9, 6, 3, 3), rng.integers(-3, 3, 9) + 0.3)
    norm(file, rng, 9)
    file.node("AveragePool", kernel_shape=[2, 2], strides=[1, 1])
    file.node("MaxPool", kernel_shape=[3, 3])
    file.node("Flatten")
    file.node("MatMul", signs(rng, 9, 3))
    expect_equal(file, tmp_path / "n.onnx", (2, 12, 12))


def test_an_average_over_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    file = File(("N", 3, 20))
    bits(file)
    file.node("Conv", signs(rng, 6, 3, 5))
    norm(file, rng, 6)
    file.node("AveragePool", kernel_shape=[4], strides=[2])
    file.node("Flatten")
    file.node("MatMul", signs(rng, 6 * 7, 3))
    expect_equal(file, tmp_path / "n.onnx", (3, 20))


def refused(file: File, path: Path) -> str:
    with pytest.raises(BlrcError) as error:
        import_onnx(file.save(path, listed=True), input="bits")
    return str(error.value)


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("AveragePool", {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, "its window is padded, dilated, or rounded up"),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, "or rounded up in number"),
        ("AveragePool", {"kernel_shape": [2, 3], "strides": [1, 2], "ceil_mode": 1}, "or rounded up in number"),
        ("AveragePool", {}, "its kernel_shape is None; use pools of one or two dimensions"),
        ("ReduceMean", {"axes": [1]}, "it averages axes [1] of ('N', 2, 6, 6)"),
        ("ReduceMean", {"axes": [6, 7]}, "it averages axes [6, 7]"),
        ("ReduceMean", {"axes": [2.5, 3.5]}, "its axes are [2.5, 3.5]; give whole numbers"),
        ("ReduceMean", {"axes": [2, 3], "keepdims": 2}, "its keepdims is 2; make it 0 or 1"),
    ],
)
def test_what_is_not_exact_is_refused(kind: str, attributes: dict[str, object], message: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    file = File(("N", 2, 6, 6), opset=13)
    bits(file)
    file.node(kind, **attributes)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 18, 3))
    assert message in refused(file, tmp_path / "n.onnx")


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (lambda file: file.node("Relu"), "it computes with averages of bits"),
        (lambda file: file.node("Sign"), "it computes with averages of bits"),
        (lambda file: file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS), "it computes with averages of bits"),
        (
            lambda file: file.node("Conv", signs(np.random.default_rng(0), 4, 2, 3, 3), pads=[1, 1, 1, 1]),
            "it pads averages of bits",
        ),
    ],
)
def test_what_reads_averages_as_bits_is_refused(then: object, message: str, tmp_path: Path) -> None:
    file = File(("N", 2, 6, 6))
    bits(file)
    file.node("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    then(file)  # type: ignore[operator]
    file.node("Flatten")
    file.node("MatMul", signs(np.random.default_rng(4), 18, 3))
    assert message in refused(file, tmp_path / "n.onnx")


def test_sums_are_not_averaged(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    file = File(("N", 2, 6, 6))
    bits(file)
    file.node("Conv", signs(rng, 5, 2, 3, 3))
    file.node("GlobalAveragePool")
    norm(file, rng, 5)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 5, 3))
    assert "it averages what is not bits; average behind a sign" in refused(file, tmp_path / "n.onnx")


def test_regression_a_sum_that_is_too_large_is_refused_before_a_checkpoint_is_written(tmp_path: Path) -> None:
    """A dry run said that all could be imported, and `blrc inspect` refused the checkpoint."""
    rng = np.random.default_rng(6)
    file = File(("N", 2, 18, 18))
    bits(file)
    file.node("Conv", signs(rng, 5, 2, 3, 3))
    norm(file, rng, 5)
    file.node("GlobalAveragePool")
    file.node("Flatten")
    file.node("MatMul", signs(rng, 5, 3))
    said = refused(file, tmp_path / "n.onnx")
    assert "averages 256 bits, whose sum may be 256" in said and "use fewer levels" not in said


@pytest.mark.parametrize("style", ["AveragePool", "GlobalAveragePool", "flat"])
def test_regression_an_average_of_single_values_is_left_out(style: str, tmp_path: Path) -> None:
    """A vector that the file sees as a map of one position was pooled as a map, which the export refused."""
    rng = np.random.default_rng(7)
    file = File(("N", 20))
    bits(file)
    file.node("MatMul", signs(rng, 20, 6))
    file.node("Add", rng.integers(-3, 3, 6) + np.float32(0.3))
    file.node("BipolarQuant", np.float32(1.0), domain=BREVITAS)
    file.node("Unsqueeze", file.constant([2, 3], np.int64))
    if style == "AveragePool":
        file.node("AveragePool", kernel_shape=[1, 1])
    elif style == "GlobalAveragePool":
        file.node("GlobalAveragePool")
    else:
        file.node("ReduceMean", axes=[2, 3], keepdims=0)
    if style != "flat":
        file.node("Flatten")
    file.node("MatMul", signs(rng, 6, 3))
    expect_equal(file, tmp_path / "n.onnx", (20,))


def test_regression_ceil_mode_is_taken_where_it_rounds_nothing(tmp_path: Path) -> None:
    """Windows that end with the map are the same with and without it, and the file was refused."""
    rng = np.random.default_rng(8)
    file = File(("N", 2, 7, 8))
    bits(file)
    file.node("AveragePool", kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)
    file.node("Flatten")
    file.node("MatMul", signs(rng, 18, 3))
    expect_equal(file, tmp_path / "n.onnx", (2, 7, 8))


def test_regression_axes_that_are_given_twice_are_refused(tmp_path: Path) -> None:
    """Two lists of axes may differ; the input was passed over."""
    file = File(("N", 2, 6, 6), opset=18)
    bits(file)
    file.node("ReduceMean", file.constant([1], np.int64), axes=[2, 3], keepdims=0)
    file.node("MatMul", signs(np.random.default_rng(9), 2, 3))
    assert "its axes are an attribute and an input as well" in refused(file, tmp_path / "n.onnx")


def test_an_export_with_averages_is_compared_with_its_file(tmp_path: Path) -> None:
    """Compare the bits behind averages of 0.5 and 2.5, and the scores of averages; find a changed threshold."""
    rng = np.random.default_rng(1)
    file = File(("N", 2, 9, 8))
    bits(file)
    file.node("Conv", signs(rng, 6, 2, 3, 3))
    norm(file, rng, 6)
    file.node("Add", np.float32(1.5))
    file.node("AveragePool", kernel_shape=[3, 2], strides=[2, 2])
    file.node("Conv", signs(rng, 9, 6, 2, 2), rng.integers(-3, 3, 9) + 0.3)
    norm(file, rng, 9)
    file.node("GlobalAveragePool")
    file.node("Flatten")
    file.node("Gemm", rng.normal(size=(3, 9)), transB=1)
    path = file.save(tmp_path / "net.onnx")
    _, program = imported(path, input="bits")
    found = compared(path, program)
    assert found.same_program and not found.problems and found.farthest <= 1.001 * found.bound
    assert [layer.bits > 0 for layer in found.layers.values()] == [True, True]
    name = [op.name for op in program.ops if op.kind == "conv"][1]
    table = program.constant(f"{name}.thresholds").copy()
    table[4] += 2
    found = compared(path, with_table(program, f"{name}.thresholds", table))
    assert any(f"layer {name!r}, channel 4: at z = " in problem for problem in found.problems)

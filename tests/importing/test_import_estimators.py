"""Straight-through estimators that an exporter wrote out, x + (s - x), are taken for s; shortcuts are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx_chains import File, imported, ran, scores
from torch import nn

import blrc
from blrc.errors import BlrcError

FORMS = ("x + (s - x)", "(s - x) + x", "x - (x - s)", "identity", "clipped")


def sign_of(file: File, x: str) -> str:
    zero, one, minus = (file.constant(number) for number in (0.0, 1.0, -1.0))
    return file.alone("Where", [file.alone("Not", [file.alone("Less", [x, zero])]), one, minus])


def estimator(file: File, form: str) -> None:
    """Put an estimator behind what the file computes so far."""
    x = file.at
    s = sign_of(file, x)
    if form == "clipped":
        x = file.alone("Clip", [x, file.constant(-1.0), file.constant(1.0)])
    if form == "identity":
        difference = file.alone("Identity", [file.alone("Sub", [file.alone("Identity", [s]), x])])
    else:
        difference = file.alone("Sub", [x, s] if form == "x - (x - s)" else [s, x])
    both = [difference, x] if form == "(s - x) + x" else [x, difference]
    file.at = file.alone("Sub" if form == "x - (x - s)" else "Add", both)


@pytest.mark.parametrize("form", FORMS)
def test_the_sign_is_what_counts(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(FORMS.index(form))
    file = File(("N", 1, 6, 6))
    for channels, given in ((4, 1), (5, 4)):
        file.node("Conv", np.where(rng.normal(size=(channels, given, 3, 3)) < 0, -1.0, 1.0).astype(np.float32))
        file.node("Add", np.float32(rng.integers(-3, 4, (1, channels, 1, 1)) / 4))  # quarters: float32 is exact
        estimator(file, form)
    file.node("Flatten")
    file.node("MatMul", np.where(rng.normal(size=(20, 3)) < 0, -1.0, 1.0).astype(np.float32))
    found, program = imported(file.save(tmp_path / "net.onnx"), input="int8")
    raw = rng.integers(-128, 128, (50, *found.encoding.shape)).astype(np.int8)
    assert (scores(program, raw) == ran(file.model(), raw.reshape(50, 1, 6, 6).astype(np.float32))).all()


def _scaled(file: File) -> None:
    file.node("Add", np.float32(1))
    file.node("Div", np.float32(2))


def _clipped(file: File, low: float = 0, high: float = 1) -> None:
    file.node("Clip", np.float32(low), np.float32(high))


def _twice(file: File) -> None:
    file.node("Mul", np.float32(2))
    file.node("Sub", np.float32(1))


ROUNDED: dict[str, Callable[[File], Any]] = {
    "round": lambda f: (_scaled(f), _clipped(f), f.node("Round"), _twice(f)),
    "floor": lambda f: (_scaled(f), _clipped(f), f.node("Floor"), _twice(f)),
    "ceil": lambda f: (_scaled(f), _clipped(f), f.node("Ceil"), _twice(f)),
    "clip first": lambda f: (_clipped(f, -1), _scaled(f), f.node("Round"), _twice(f)),
    "turned": lambda f: (_scaled(f), f.node("Neg"), _clipped(f, -1, 0), f.node("Round"), _twice(f)),
    "1 or 2": lambda f: (f.node("Add", np.float32(1)), _scaled(f), _clipped(f, 1, 2), f.node("Round")),
    "Max and Min": lambda f: (
        _scaled(f),
        f.node("Max", np.float32(0)),
        f.node("Min", np.float32(1)),
        f.node("Round"),
    ),
    "pool behind the clip": lambda f: (
        _scaled(f),
        _clipped(f),
        f.node("MaxPool", kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1]),
        f.node("Round"),
    ),
    "hard sigmoid": lambda f: (f.node("HardSigmoid", alpha=0.25), f.node("Round"), f.node("Round"), _twice(f)),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_values_of_a_clip_are_bits(name: str, tmp_path: Path) -> None:
    """Sums are whole numbers, 0 among them, where rounding to even decides."""
    rng = np.random.default_rng(0)
    file, first = File(("N", 2, 6, 6)), ""
    for channels, given in ((4, 2), (6, 4)):
        sums = file.node("Conv", np.where(rng.normal(size=(channels, given, 3, 3)) < 0, -1.0, 1.0).astype(np.float32))
        ROUNDED[name](file)
        first = sums if given == 2 else first
    file.node("Flatten")
    file.node("MatMul", np.where(rng.normal(size=(24, 3)) < 0, -1.0, 1.0).astype(np.float32))
    path = file.save(tmp_path / "net.onnx")
    _, program = imported(path, input="bits")
    raw = rng.integers(0, 2, (100, 2, 6, 6)).astype(np.uint8)
    x = 2 * raw.astype(np.float32) - 1
    expected, file.at = ran(file.model(), x), first
    assert (ran(file.model(), x) == 0).any() and len(np.unique(expected)) > 5
    assert (scores(program, raw) == expected).all()


def test_pixels_that_a_file_rounds_are_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 40))
    file.node("Round")
    file.node("MatMul", np.where(rng.normal(size=(40, 3)) < 0, -1.0, 1.0).astype(np.float32))
    found, program = imported(file.save(tmp_path / "net.onnx"), input="pixels")
    assert found.encoding.is_binary
    raw = rng.integers(0, 256, (100, 40)).astype(np.uint8)
    assert (scores(program, raw) == ran(file.model(), raw.astype(np.float32) / np.float32(255))).all()


@pytest.mark.parametrize("bounds", [None, (0, 2), (0.6, 1), (-1, 1)])
def test_what_rounds_to_other_than_two_numbers_is_refused(bounds: tuple[float, float] | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = File(("N", 8))
    file.node("MatMul", np.where(rng.normal(size=(8, 8)) < 0, -1.0, 1.0).astype(np.float32))
    if bounds is not None:
        _clipped(file, *bounds)
    file.node("Round")
    file.node("MatMul", np.where(rng.normal(size=(8, 3)) < 0, -1.0, 1.0).astype(np.float32))
    with pytest.raises(BlrcError, match=r"Round_\d.*it rounds values that no clip before it keeps between two"):
        blrc.import_onnx(file.save(tmp_path / "net.onnx"), input="int8")


def test_a_shortcut_and_other_differences_are_branches(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    square = np.where(rng.normal(size=(8, 8)) < 0, -1.0, 1.0).astype(np.float32)
    for kind in ("layer", "other", "half"):
        file = File(("N", 8))
        x = file.node("MatMul", square)
        s = sign_of(file, x)
        if kind == "layer":  # x + (W s - x): not computed value by value
            s = file.alone("MatMul", [s, file.constant(square)])
        taken = file.alone("Mul", [x, file.constant(0.5)]) if kind == "half" else x
        file.at = file.alone("Add", [x, file.alone("Sub", [s, taken if kind != "other" else s])])
        file.node("MatMul", square)
        with pytest.raises(BlrcError, match="branches"):
            blrc.import_onnx(file.save(tmp_path / "net.onnx"), input="int8")


def test_a_number_in_common_does_not_make_an_estimator(tmp_path: Path) -> None:
    """The sign of one score for all features and the features have no tensor in common but the number 1."""
    rng = np.random.default_rng(0)
    weights = [np.where(rng.normal(size=shape) < 0, -1.0, 1.0).astype(np.float32) for shape in ((8, 8), (8, 1), (8, 3))]
    file = File(("N", 8))
    x, one = file.node("MatMul", weights[0]), file.constant(1.0)
    alone = file.alone("MatMul", ["x", file.constant(weights[1])])
    s = file.alone("Where", [file.alone("Less", [alone, file.constant(0.0)]), one, file.constant(-1.0)])
    scaled = file.alone("Mul", [x, one])
    file.at = file.alone("Add", [scaled, file.alone("Sub", [s, scaled])])
    file.node("MatMul", weights[2])
    with pytest.raises(BlrcError, match=r"which .* reads as well|branches"):
        blrc.import_onnx(file.save(tmp_path / "net.onnx"), input="int8")


def binary(x: torch.Tensor) -> torch.Tensor:
    return x + (torch.where(x >= 0, 1.0, -1.0) - x).detach()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(12, 9), nn.BatchNorm1d(9), nn.Linear(9, 3)
        self.first.weight.data = torch.where(torch.randn(9, 12) >= 0, 1.0, -1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(binary(self.norm(self.first(x))))
        return result


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_torch_exports_gives_the_modules_labels(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, path = Net().eval(), tmp_path / "net.onnx"
    torch.onnx.export(net, (torch.zeros(1, 12),), path, dynamo=False, opset_version=17)
    found, program = imported(path, input="bits")
    raw = np.random.default_rng(1).integers(0, 2, (200, *found.encoding.shape)).astype(np.uint8)
    with torch.no_grad():
        wanted = net(torch.from_numpy(2 * raw.reshape(200, 12).astype(np.float32) - 1)).numpy()
    assert np.abs(scores(program, raw) - wanted).max() < 0.05  # real weights of the last layer become 8 bits
    clear = np.diff(np.sort(wanted, axis=1), axis=1)[:, -1] > 0.1
    assert clear.sum() > 100 and (scores(program, raw).argmax(1) == wanted.argmax(1))[clear].all()

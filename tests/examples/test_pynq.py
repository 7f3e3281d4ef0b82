"""Networks of BNN-PYNQ get in by their integers: `examples/imported/pynq.py` on folders that a loop writes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

import blrc

SCRIPT = Path(__file__).parents[2] / "examples" / "imported" / "pynq.py"
Decide = Callable[[NDArray[np.uint8]], list[int]]


@pytest.fixture(scope="module")
def pynq() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pynq_example", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write_layer(
    folder: Path, number: int, shape: object, bits: NDArray[np.int64], thresholds: NDArray[np.int64]
) -> None:
    """Write a layer word by word: row r lies in element r % E, as its (r // E)-th row, lanes from bit 0 on."""
    rows, columns, elements, lanes = (getattr(shape, key) for key in ("rows", "columns", "elements", "lanes"))
    for element in range(elements):
        words = []
        for row in range(element, rows, elements):
            for group in range(columns // lanes):
                word = 0
                for lane in range(lanes):
                    column = group * lanes + lane
                    padding = row >= len(bits) or column >= bits.shape[1]
                    word |= (1 if padding else int(bits[row, column])) << lane
                words.append(word)
        (folder / f"{number}-{element}-weights.bin").write_bytes(np.array(words, dtype="<u8").tobytes())
        each = [thresholds[row] if row < len(bits) else 2**15 - 1 for row in range(element, rows, elements)]
        (folder / f"{number}-{element}-thres.bin").write_bytes(np.array(each, dtype="<i8").tobytes())


def write_network(folder: Path, shapes: tuple[object, ...], classes: int, seed: int) -> list[NDArray[np.int64]]:
    """Write random layers and return their bits and thresholds, in turn."""
    folder.mkdir()
    (folder / "classes.txt").write_text("\n".join(map(str, range(classes))))
    rng = np.random.default_rng(seed)
    written = []
    for number, shape in enumerate(shapes):
        outputs = classes if number == len(shapes) - 1 else shape.rows  # type: ignore[attr-defined]
        inputs = shape.inputs  # type: ignore[attr-defined]
        bits = rng.integers(0, 2, (outputs, inputs))
        first = number == 0 and shape.kernel  # type: ignore[attr-defined]
        about = rng.integers(-9, 10, outputs)
        thresholds = about * 256 if first else inputs // 2 + about // 4
        write_layer(folder, number, shape, bits, thresholds)
        written += [bits, thresholds]
    return written


def labels_of(pynq: ModuleType, folder: Path, images: NDArray[np.uint8], tmp_path: Path) -> NDArray[np.int64]:
    """Return what the compiled C answers."""
    model, encoding = pynq.build(pynq.read(folder))
    blrc.save(model, path=tmp_path / "net.pt", input=encoding)
    with blrc.compile(tmp_path / "net.pt") as net:
        return net(images.reshape(len(images), *encoding.shape), order="NCHW")


def test_dense_network_answers_as_counts_of_equal_bits_do(
    pynq: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = (
        pynq.Shape(16, 832, 4, 64, 784),
        pynq.Shape(24, 16, 8, 4, 16),
        pynq.Shape(16, 24, 16, 8, 24),  # 10 classes, padded to 16
    )
    monkeypatch.setattr(pynq, "LFC", shapes)
    folder = tmp_path / "lfcW1A1"
    written = write_network(folder, shapes, classes=10, seed=1)
    images = np.random.default_rng(2).integers(0, 256, (200, 1, 28, 28), dtype=np.uint8)
    wanted = []
    for image in images.reshape(len(images), -1):
        x = (image >= 128).astype(int)
        for bits, thresholds in zip(written[::2], written[1::2], strict=True):
            x = np.array([int((row == x).sum() > t) for row, t in zip(bits, thresholds, strict=True)])
        wanted.append(int(np.argmax(x)))
    assert len(set(wanted)) > 3
    np.testing.assert_array_equal(pynq.accelerator(pynq.read(folder), images).argmax(1), wanted)
    np.testing.assert_array_equal(labels_of(pynq, folder, images, tmp_path), wanted)


def test_convolutional_network_answers_as_its_accelerator_does(
    pynq: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = (
        pynq.Shape(8, 27, 4, 3, 27, kernel=3),
        pynq.Shape(12, 72, 2, 8, 72, kernel=3, pool=True),
        pynq.Shape(8, 12, 4, 1, 12, counts=True),  # 5 classes, padded to 8
    )
    monkeypatch.setattr(pynq, "CNV", shapes)
    folder = tmp_path / "cnvW1A1"
    (bits0, limits0, bits1, limits1, bits2, _) = write_network(folder, shapes, classes=5, seed=3)
    images = np.random.default_rng(4).integers(0, 256, (60, 3, 6, 6), dtype=np.uint8)
    codes = np.clip(np.floor((2 * images.astype(np.float64) / 255 - 1) * 128 + 0.5), -128, 127).astype(int)
    wanted = []
    for image in codes.transpose(0, 2, 3, 1):  # row, column, channel
        a = np.zeros((4, 4, 8), dtype=int)
        b = np.zeros((2, 2, 12), dtype=int)
        for y in range(4):
            for x in range(4):
                window = image[y : y + 3, x : x + 3].reshape(-1)
                a[y, x] = [2 * int((2 * row - 1) @ window) > t for row, t in zip(bits0, limits0, strict=True)]
        for y in range(2):
            for x in range(2):
                window = a[y : y + 3, x : x + 3].reshape(-1)
                b[y, x] = [int((row == window).sum()) > t for row, t in zip(bits1, limits1, strict=True)]
        pooled = b.max(axis=(0, 1))
        wanted.append(int(np.argmax([(row == pooled).sum() for row in bits2])))
    assert len(set(wanted)) > 2
    np.testing.assert_array_equal(pynq.accelerator(pynq.read(folder), images).argmax(1), wanted)
    monkeypatch.setattr(blrc, "pixel_codes", _of_side(6))
    np.testing.assert_array_equal(labels_of(pynq, folder, images, tmp_path), wanted)


def _of_side(side: int) -> Callable[..., blrc.InputEncoding]:
    """Return `blrc.pixel_codes` for images of another size than CNV's, which its script has for granted."""
    real = blrc.pixel_codes

    def pixel_codes(shape: tuple[int, ...], *, table: NDArray[np.int8]) -> blrc.InputEncoding:
        return real((shape[0], side, side), table=table)

    return pixel_codes


def test_codes_of_pixels_are_rounded_half_up_and_saturated(pynq: ModuleType) -> None:
    exact = [min((2 * (2 * x - 255) * 128 + 255) // (2 * 255), 127) for x in range(256)]
    assert pynq.codes().tolist() == exact
    assert (exact[0], exact[255]) == (-128, 127)

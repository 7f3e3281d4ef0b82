"""Numbers that a file puts around maps: bits around bits, and -inf before max pooling; ONNX Runtime is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_chains import BREVITAS, File, imported, ran, scores, signs

import blrc
from blrc.errors import BlrcError
from blrc.importing.declared import Declared
from blrc.net.encoding import device_layout
from blrc.verification.original.compare import compare_original
from blrc.verification.original.file import open_file

SHAPE = (2, 6, 7)
LOWEST = float(np.finfo(np.float32).min)


def pad(file: File, *sides: int, value: float) -> None:
    """Pad (top, left, bottom, right)."""
    file.node("Pad", file.constant([0, 0, *sides[:2], 0, 0, *sides[2:]], np.int64), np.float32(value))


def signed(file: File) -> None:
    file.node("BipolarQuant", np.float32(1), domain=BREVITAS)


def step(file: File) -> None:
    file.node("Greater", np.float32(0))
    file.node("Cast", to=1)


def normed(file: File, rng: np.random.Generator, channels: int) -> None:
    rows = [rng.normal(size=channels).astype(np.float32) for _ in range(3)]
    file.node("BatchNormalization", *rows, rng.uniform(2, 5, channels).astype(np.float32))


def conv(file: File, rng: np.random.Generator, inputs: int, outputs: int = 6, **options: Any) -> None:
    file.node("Conv", signs(rng, outputs, inputs, 3, 3), **options)


FILLED: dict[str, Callable[[File, np.random.Generator], Any]] = {
    "+1": lambda f, r: (signed(f), pad(f, 1, 2, 0, 1, value=1), conv(f, r, 5)),
    "-1": lambda f, r: (signed(f), pad(f, 1, 1, 1, 1, value=-1), conv(f, r, 5, strides=[2, 2])),
    "-1 and the convolution's zeros": lambda f, r: (
        signed(f),
        pad(f, 0, 0, 1, 1, value=-1),
        conv(f, r, 5, pads=[1, 1, 1, 1]),
    ),
    "0 of 0 and 1": lambda f, r: (step(f), pad(f, 1, 1, 1, 1, value=0), conv(f, r, 5)),
    "1 of 0 and 1, twice": lambda f, r: (
        step(f),
        pad(f, 1, 0, 0, 1, value=1),
        pad(f, 0, 1, 0, 1, value=1),
        conv(f, r, 5),
    ),
    "the convolution's own zeros of 0 and 1": lambda f, r: (step(f), conv(f, r, 5, auto_pad="SAME_UPPER")),
    "a factor behind it": lambda f, r: (
        signed(f),
        pad(f, 1, 1, 1, 1, value=-1),
        f.node("Mul", np.float32(-3)),
        conv(f, r, 5),
    ),
    "in groups": lambda f, r: (
        signed(f),
        pad(f, 1, 1, 1, 1, value=1),
        f.node("Conv", signs(r, 10, 1, 3, 3), group=5),
    ),
}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", FILLED)
def test_bits_around_bits(name: str, first: bool, tmp_path: Path) -> None:
    """Pad the bits of a sign, whose norm has negative factors, or those of the input."""
    rng = np.random.default_rng(0)
    file = File(("N", 5 if first else 2, 6, 7))
    if not first:
        conv(file, rng, 2, 5, pads=[1, 1, 1, 1])
        normed(file, rng, 5)
    FILLED[name](file, rng)
    normed(file, rng, 10 if name == "in groups" else 6)
    signed(file)
    file.node("Flatten")
    shape = file.shape[1:]
    file.node("MatMul", signs(rng, ran(file.model(), np.zeros((1, *shape), np.float32)).size, 3))
    path, given = file.save(tmp_path / "net.onnx"), {} if first else {"input": "int8"}
    _, program = imported(path, **given)
    if first:
        raw = rng.integers(0, 2, (60, *shape)).astype(np.uint8)
        x = 2 * raw.astype(np.float32) - 1
    else:
        raw = rng.integers(-128, 128, (60, *shape)).astype(np.int8)
        x = raw.astype(np.float32)
    expected = ran(file.model(), x)
    assert len(np.unique(expected)) > 10 and (scores(program, raw) == expected).all()
    original = open_file(path, None if first else Declared("int8"), "exact")
    found = compare_original(program, original, [(device_layout(raw), None)], lambda what, done, total: None)
    assert not found.problems and found.same_labels == found.labels
    assert sum(layer.bits for layer in found.layers.values()) > 1000 and found.decisions >= 100


POOLED: dict[str, Callable[[File], Any]] = {
    "-inf around sums": lambda f: (pad(f, 1, 1, 0, 1, value=-np.inf), _pool(f), signed(f)),
    "the lowest float around sums": lambda f: (pad(f, 1, 0, 1, 0, value=LOWEST), _pool(f), signed(f)),
    "-inf around bits": lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=-np.inf), _pool(f)),
    "-9 around bits": lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=-9), _pool(f)),
    "0 behind a ReLU": lambda f: (
        f.node("Relu"),
        pad(f, 1, 1, 1, 1, value=0),
        _pool(f),
        f.node("Sub", np.float32(0.5)),
        signed(f),
    ),
    "-2 behind a clip": lambda f: (
        f.node("Clip", np.float32(-2), np.float32(2)),
        pad(f, 1, 1, 1, 1, value=-2),
        _pool(f),
        f.node("Add", np.float32(1.5)),
        signed(f),
    ),
    "-inf beside the pool's own": lambda f: (pad(f, 0, 0, 1, 1, value=-np.inf), _pool(f, pads=[1, 1, 0, 0]), signed(f)),
}


def _pool(file: File, **options: Any) -> None:
    file.node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], **options)


def _net(middle: Callable[[File], Any], rng: np.random.Generator) -> File:
    file = File(("N", *SHAPE))
    conv(file, rng, 2, 5)
    file.node("Add", rng.normal(size=(5, 1, 1)))
    middle(file)
    file.node("Flatten")
    file.node("MatMul", signs(rng, ran(file.model(), np.zeros((1, *SHAPE), np.float32)).size, 3))
    return file


@pytest.mark.parametrize("name", POOLED)
def test_what_never_wins_a_pool(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    file = _net(POOLED[name], rng)
    _, program = imported(file.save(tmp_path / "net.onnx"), input="bits")
    raw = rng.integers(0, 2, (100, *SHAPE)).astype(np.uint8)
    expected = ran(file.model(), 2 * raw.astype(np.float32) - 1)
    assert len(np.unique(expected)) > 4 and (scores(program, raw) == expected).all()


LOST: dict[str, tuple[Callable[[File], Any], str]] = {
    "half around bits": (
        lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=0.5), _pool(f)),
        r"it pads with 0\.5, and only zeros .*one of the two values of bits, and -inf before max pooling",
    ),
    "-9 around sums": (lambda f: (pad(f, 1, 1, 1, 1, value=-9), _pool(f), signed(f)), "it pads with -9, and only"),
    "-inf turned round": (
        lambda f: (pad(f, 1, 1, 1, 1, value=-np.inf), f.node("Neg"), _pool(f), signed(f)),
        r"\(Neg\): -inf was padded around its input; pad directly before",
    ),
    "a norm behind it": (
        lambda f: (pad(f, 1, 1, 1, 1, value=-np.inf), normed(f, np.random.default_rng(0), 5), _pool(f), signed(f)),
        r"\(BatchNormalization\): -inf was padded around its input",
    ),
    "-inf before a convolution": (
        lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=-np.inf), conv(f, np.random.default_rng(0), 5), signed(f)),
        r"\(Conv\): it reads -1 or 1 that were padded with -inf; pad with 0 or",
    ),
    "0 around -1 and +1 before a pool": (
        lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=0), _pool(f)),
        r"\(MaxPool\): zeros were padded around its input; use the pool's own padding, or pad with -inf",
    ),
    "two numbers": (
        lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=0), pad(f, 1, 1, 1, 1, value=1), _pool(f)),
        "it pads with another number than the Pad before it",
    ),
    "NaN": (lambda f: (signed(f), pad(f, 1, 1, 1, 1, value=np.nan), _pool(f)), "its value is NaN; pad with a number"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_no_layer_can_take_over_is_refused(name: str, tmp_path: Path) -> None:
    middle, words = LOST[name]
    with pytest.raises(BlrcError, match=words):
        blrc.import_onnx(_net(middle, np.random.default_rng(2)).save(tmp_path / "net.onnx"), input="bits")

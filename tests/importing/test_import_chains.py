"""Imported networks give what ONNX Runtime gives for the file itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_chains import File, imported, ran, random_file, scores

SAMPLES = 64


def inputs(kind: str, shape: tuple[int, ...], seed: int) -> tuple[NDArray[np.generic], NDArray[np.float32]]:
    """Return raw samples, and what the file's input is for them."""
    rng = np.random.default_rng(seed)
    if kind == "bits":
        bits = rng.integers(0, 2, (SAMPLES, *shape), dtype=np.uint8)
        return bits, bits.astype(np.float32)
    codes = rng.integers(-128, 128, (SAMPLES, *shape)).astype(np.int8)
    return codes, codes.astype(np.float32) / 32


def expect_equal(file: File, path: Path, kind: str, shape: tuple[int, ...], seed: int = 1) -> None:
    raw, x = inputs(kind, shape, seed)
    options = {"input": "int8", "scale": 32.0} if kind == "int8" else {}
    _, program = imported(file.save(path), **options)
    if tuple(file.shape[1:]) != shape:  # channels last
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    parts = np.split(x, len(x) // 2) if file.shape[0] == 2 else [x]
    model = file.model()
    expected = np.concatenate([ran(model, part) for part in parts]).reshape(len(x), -1)
    found = scores(program, raw)
    step = np.abs(expected).max() * 0.02 + 4 * program.score_scale
    assert np.abs(found - expected).max() <= step
    top = np.sort(expected, axis=1)
    clear = top[:, -1] - top[:, -2] > 2 * step
    assert (found.argmax(axis=1) == expected.argmax(axis=1))[clear].all()


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, tmp_path: Path) -> None:
    file, kind, shape = random_file(seed)
    if file.shape[0] == 6:
        file.shape = (2, *file.shape[1:])
    expect_equal(file, tmp_path / "net.onnx", kind, shape)

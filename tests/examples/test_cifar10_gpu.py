"""The script for GPUs, at full width, for two steps on the CPU."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from blrc.datasets.cifar import cifar10
from blrc.frontend import checkpoint

ROOT = Path(__file__).parents[2]
IMAGES = 24  # 20 of training, 4 of test


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A file of JPEG images, and their pixels as decoded, channels first."""
    rng = np.random.default_rng(0)
    streams, pixels = [], []
    for _ in range(IMAGES):
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(out, "JPEG")
        streams.append(out.getvalue())
        pixels.append(np.asarray(Image.open(out).convert("RGB")).transpose(2, 0, 1))
    path = tmp_path_factory.mktemp("packed") / "data.npz"
    ends = np.cumsum([0, *map(len, streams)])
    labels, test = rng.integers(0, 10, IMAGES).astype(np.uint8), (np.arange(IMAGES) >= 20).astype(np.uint8)
    np.savez(path, jpeg=np.frombuffer(b"".join(streams), np.uint8), offsets=ends, labels=labels, is_test=test)
    return path, np.stack(pixels)


@pytest.mark.nightly
def test_two_steps_at_full_width_in_two_pieces(packed: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    script = ROOT / "examples" / "cifar10" / "gpu.py"
    command = [sys.executable, script, "--data", packed[0], "--work", tmp_path / "work", "--out", tmp_path / "out",
               "--epochs", 1, "--pretrain-epochs", 1, "--batch", 8, "--validation", 4, "--calibration", 16]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    statuses = []
    for minutes in ("0.0001", "9"):
        done = subprocess.run(
            [*map(str, command), "--minutes", minutes], env=environment, capture_output=True, text=True
        )
        statuses.append(done.returncode)
        assert "Traceback" not in done.stderr, done.stderr
        assert (tmp_path / "out" / "cifar10.csv").exists()
    assert statuses == [75, 0]
    training, test = cifar10(tmp_path / "work"), cifar10(tmp_path / "work", train=False)
    assert np.array_equal(np.concatenate([training.images, test.images]), packed[1])
    held = checkpoint.load(tmp_path / "out" / "cifar10.pt")
    assert held.tensors["conv6.weight.logits"].shape == (512, 512, 3, 3)
    assert held.tensors["dense.weight.logits"].shape == (1024, 8192)
    assert held.tensors["dense.weight.logits"].dtype == np.int8
    assert (tmp_path / "out" / "cifar10.csv").read_text().count("\n") == 3  # a header, an epoch each

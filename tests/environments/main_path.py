"""Walk the main path in the interpreter that runs this file: train, save, export to C and ONNX, verify, compile.

`make oldest` runs it with the oldest versions that pyproject.toml promises. It needs nothing but blrc and what blrc
depends on. Each step prints one line; the last line counts them.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT), str(ROOT / "tests" / "training")]

import small_mnist

import blrc

IMAGES = 7_560  # the fewest that are taken: 5,000 validate, norms are re-estimated on the other 2,560
SHOWN = ("numpy", "torch", "onnx", "onnxruntime", "click", "tqdm")


def blrc_command(*arguments: object) -> str:
    """Run `blrc` with these arguments and return what it prints; a status other than 0 ends this script."""
    command = [sys.executable, "-m", "blrc", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def train(folder: Path) -> None:
    small_mnist.write_images(folder, IMAGES)
    options = ("--epochs", 2, "--pretrain-epochs", 1)
    blrc_command("train", "mnist", "--data", folder, "-o", folder / "trained.pt", *options)
    left = sorted(path.name for path in folder.iterdir() if path.name.startswith("trained"))
    assert left == ["trained.pt"], left


def save(folder: Path) -> None:
    encoding = blrc.pixels((1, 28, 28), mean=(0.1307,), std=(0.3081,))
    raw = np.random.default_rng(0).integers(0, 256, (40, 1, 28, 28)).astype(np.uint8)
    blrc.save(small_mnist.small_mnist(), path=folder / "small.pt", input=encoding, calibration=raw)
    assert blrc.load(folder / "small.pt").encoding == encoding


def export(folder: Path) -> None:
    for options in (("--members", "map"), ("--members", 2, "--sample", "conv", "--onnx-weights", "bits")):
        out = folder / f"out-{options[1]}"
        blrc_command("export", folder / "small.pt", "--target", "c", "--target", "onnx", "-o", out, *options)


def verify(folder: Path) -> None:
    for members in ("map", 2):
        said = blrc_command("verify", folder / f"out-{members}", "--random", 100)
        assert said.rstrip().endswith("bit-exact: yes"), said


def verify_the_checkpoint(folder: Path) -> None:
    checkpoint = ("--checkpoint", folder / "small.pt")
    assert "bit-exact: yes" in blrc_command("verify", folder / "out-map", "--random", 50, *checkpoint)


def compile(folder: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (64, 28, 28, 1)).astype(np.uint8)
    exported, again = blrc.compile(folder / "out-map"), blrc.compile(folder / "small.pt")
    assert np.array_equal(exported.scores(images), again.scores(images))
    assert exported(images).shape == (64,)


def inspect(folder: Path) -> None:
    assert "flash" in blrc_command("inspect", folder / "trained.pt")


STEPS: tuple[Callable[[Path], None], ...] = (train, save, export, verify, verify_the_checkpoint, compile, inspect)


def main() -> None:
    warnings.simplefilter("error")
    print(f"Python {sys.version.split()[0]}", *(f"{name} {importlib.metadata.version(name)}" for name in SHOWN))
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            step(Path(folder))
            print(f"{step.__name__.replace('_', ' ')}: done", flush=True)
    print(f"{len(STEPS)} passed, 0 failed")


if __name__ == "__main__":
    main()

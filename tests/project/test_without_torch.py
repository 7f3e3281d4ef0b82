"""The main path in an environment of what "pip install blrc" brings: no torch, no onnx, no ONNX Runtime."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import blrc
from blrc.datasets import labelled
from blrc.program import program_file

ROOT = Path(__file__).parents[2]
MNIST = ROOT / "examples" / "mnist"
TINY = ROOT / "tests" / "golden" / "tiny.pt"
COMPILE = """
import sys
import numpy as np
import blrc
checkpoint, folder = sys.argv[1:]
source = blrc.load(checkpoint)
images = source.samples()[:50]
ours = blrc.compile(folder)(images, order="NCHW")
assert np.array_equal(ours, blrc.compile(checkpoint)(images, order="NCHW"))
print(len(ours), "torch" in sys.modules)
"""

pytestmark = pytest.mark.slow("runs whole commands with another interpreter")


def run(python: Path, *arguments: object) -> str:
    """Standard output of that interpreter, with blrc from this tree."""
    done = subprocess.run(
        [str(python), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def same(ours: Path, theirs: Path) -> None:
    files = sorted(path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(ours) for path in ours.rglob("*") if path.is_file())
    for file in files:
        assert (ours / file).read_bytes() == (theirs / file).read_bytes(), file


def test_the_environment_has_no_extras(notorch_python: Path) -> None:
    code = (
        "from importlib.util import find_spec\n"
        "print([name for name in ('torch', 'onnx', 'onnxruntime', 'PIL', 'matplotlib', 'wasmtime') if find_spec(name)])"
    )
    assert run(notorch_python, "-c", code) == "[]\n"


@pytest.mark.nightly
def test_export_verify_bench_and_compile(notorch_python: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert "certainty" in run(notorch_python, "-m", "blrc", "inspect", MNIST / "mnist.pt")
    run(notorch_python, "-m", "blrc", "export", MNIST / "mnist.pt", "--target", "c", "-o", ours)
    blrc.export(MNIST / "mnist.pt", folder=theirs, targets="c")
    same(ours, theirs)
    program = program_file.load(theirs / "mnist.program.npz")
    test = labelled.load(MNIST / "data", program.input, program.classes)
    np.savez(tmp_path / "test.npz", images=test.raw[:300].transpose(0, 3, 1, 2), labels=test.labels[:300])
    data = ("--data", tmp_path / "test.npz", "--random", "100")
    report = json.loads(
        run(notorch_python, "-m", "blrc", "verify", ours, *data, "--checkpoint", MNIST / "mnist.pt", "--json")
    )
    assert report["equal"] is True
    assert report["accuracy"] > 98
    timed = run(notorch_python, "-m", "blrc", "bench", ours, "--rounds", "2", "--no-others")
    assert "network" in timed
    assert "ort float32: onnx, onnxruntime not installed: pip install 'blrc[onnx]'" in timed
    assert run(notorch_python, "-c", COMPILE, MNIST / "mnist.pt", ours) == "50 False\n"


@pytest.mark.parametrize(
    "model", [TINY, pytest.param(MNIST / "mnist.pt", marks=pytest.mark.nightly)], ids=["tiny", "mnist"]
)
def test_members_without_torch_are_the_same_bytes(model: Path, notorch_python: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    options = ("--target", "c", "--members", "2", "--sample", "conv")
    run(notorch_python, "-m", "blrc", "export", model, *options, "-o", ours)
    blrc.export(model, folder=theirs, targets="c", members="2", sample="conv")
    same(ours, theirs)

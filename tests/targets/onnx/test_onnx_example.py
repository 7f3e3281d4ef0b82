"""`examples/onnx_runtime` runs as its text says, in the newest and in the oldest runtime."""

from __future__ import annotations

import gzip
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx_agreement import emitted
from random_programs import random_inputs, random_program

from blrc.program import reference

SCRIPT = Path(__file__).parents[3] / "examples" / "onnx_runtime" / "classify.py"


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("runtime", ["newest", "oldest"])
def test_the_example_classifies(runtime: str, members: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    python = Path(sys.executable) if runtime == "newest" else request.getfixturevalue("ort117_python")
    program = random_program(0, "uint8", (28, 28, 1), members=members)
    images = random_inputs(program, 30)
    answer = reference.answer(program, images)
    truth = answer.label.astype(np.uint8)
    truth[:3] = (truth[:3] + 1) % program.classes
    (tmp_path / "mnist.onnx").write_bytes(emitted(program))
    for name, header, array in (("images-idx3", 16, images), ("labels-idx1", 8, truth)):
        content = gzip.compress(bytes(header) + array.tobytes())
        (tmp_path / f"t10k-{name}-ubyte.gz").write_bytes(content)
    command = [str(python), str(SCRIPT), str(tmp_path / "mnist.onnx"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rank = answer.variance if members > 1 else -answer.mean
    sure = np.argsort(rank, kind="stable")[:15]
    probability, deviation = answer.mean[0] / 2**16, math.sqrt(answer.variance[0] / 2**32)
    assert done.stdout.splitlines() == [
        f"members: {members}",
        f"first image: {answer.label[0]}, probability {probability:.3f} +- {deviation:.3f}",
        "accuracy: 90.00 %",
        f"accuracy on the surer half: {100 * float(np.mean(sure >= 3)):.2f} %",
    ]

"""The ONNX file on older x86 processors, emulated: runtimes have other kernels there, which add in 16 bits."""

from __future__ import annotations

import platform
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx_agreement import emitted, one_layer
from random_programs import random_inputs, random_program

from blrc.net.bits import pack_signs
from blrc.program import reference
from blrc.program.program import Program, Value, Window
from blrc.targets.onnx.session import OnnxRun

pytestmark = [
    pytest.mark.needs("qemu-x86_64"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates older processors of the host's own kind"),
]


@pytest.fixture(
    params=[
        pytest.param("Haswell", marks=pytest.mark.nightly, id="AVX2 without VNNI"),
        pytest.param("Nehalem", id="SSE4"),
    ]
)
def old_python(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """This interpreter on another processor."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec qemu-x86_64 -cpu {request.param} {shlex.quote(sys.executable)} "$@"\n')
    script.chmod(0o755)
    return script


def extreme(size: int) -> tuple[Program, np.ndarray]:  # type: ignore[type-arg]
    """The largest products of one sign, side by side: a convolution if `size` is over 3, else a dense layer."""
    window = Window((3, 3))
    n = 9 * 33
    signs = np.ones((8, 3, 3, 33), np.int8)
    signs[1::2] = -1
    thresholds = np.array([127 * n, 127 * n, 127 * n + 1, 128 * n, 128 * n + 1, -127 * n, 0, 1], np.int32)
    program = one_layer(Value("input", "int8", (size, size, 33)), window, pack_signs(signs), thresholds)
    return program, np.stack([np.full((size, size, 33), code, np.int8) for code in (127, -128, -127, 0)])


@pytest.mark.parametrize(
    "size", [pytest.param(6, id="convolution"), pytest.param(3, marks=pytest.mark.nightly, id="dense")]
)
def test_sums_do_not_saturate(size: int, old_python: Path) -> None:
    program, raw = extreme(size)
    got, want = OnnxRun(emitted(program), program, python=old_python).run(raw), reference.run(program, raw)
    assert all(np.array_equal(got[name], values) for name, values in want.items())


@pytest.mark.nightly
def test_a_random_program_agrees(old_python: Path) -> None:
    program = random_program(2, "uint8", (7, 6, 5), layers=4)
    raw = random_inputs(program, 5)
    got, want = OnnxRun(emitted(program), program, python=old_python).run(raw), reference.run(program, raw)
    assert all(np.array_equal(got[name], values) for name, values in want.items())

"""The paper's CIFAR-10 network at full width (13 million random weights): C and ONNX equal the reference everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from random_networks import checkpoint_of, raw_samples

import blrc
from blrc.net.encoding import device_layout
from blrc.nn import models
from blrc.program import program_file, reference
from blrc.targets.c.build.host import HostBuild
from blrc.targets.onnx.session import OnnxRun


@pytest.mark.needs("cc")
@pytest.mark.nightly
def test_full_width_is_equal_everywhere(tmp_path: Path) -> None:
    torch.manual_seed(0)
    checkpoint = checkpoint_of(models.cifar10(), "uint8", (3, 32, 32), samples=16)
    blrc.export(checkpoint, folder=tmp_path / "out", name="cifar")
    program = program_file.load(tmp_path / "out" / "cifar.program.npz")
    raw = device_layout(raw_samples(checkpoint.encoding, 4, 1))
    expected = reference.run(program, raw)
    # Live maps: neither constant over samples nor over channels.
    assert all(0.02 < expected[op.y.name].mean() < 0.98 for op in program.ops if op.y.dtype == "bits")
    runtime = OnnxRun((tmp_path / "out" / "cifar.onnx").read_bytes(), program)
    onnx = {**runtime.run(raw), "label": runtime.classify(raw)[0].label}
    with HostBuild(tmp_path / "out", "cifar") as build:
        c = build.run(raw)
        assert build.ram == 6912  # convolutions in row strips
        assert "equal" in build.selftest()
    compared = 0
    for found in (onnx, c):
        for op in program.ops:
            if op.y.name in found:
                assert np.array_equal(found[op.y.name], expected[op.y.name]), op.name
                compared += 1
        assert np.array_equal(found["label"], reference.labels(expected[program.output.name][:, 0, 0, :]))
    assert compared == 2 * len(program.ops) - 1  # the C looks codes up where it reads them
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    assert sizes["cifar.onnx"] < 13.2e6

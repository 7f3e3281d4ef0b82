"""`blrc verify` on an ensemble: every layer of every member, and what they say together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_networks import checkpoint_of, deep_network

import blrc
from blrc.net.encoding import device_layout
from blrc.program import program_file, reference


@pytest.mark.needs("cc", "size")
@pytest.mark.slow("three members in three engines")
@pytest.mark.parametrize("kind", ["uint8", pytest.param("bits", marks=pytest.mark.nightly)])
def test_an_ensemble_is_equal_everywhere(kind: str, tmp_path: Path) -> None:
    model, shape = deep_network(1)
    checkpoint = checkpoint_of(model, kind, shape, 5)
    blrc.save(model, path=tmp_path / "net.pt", input=checkpoint.encoding, calibration=checkpoint.calibration)
    blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", members="3", seed=11)
    program = program_file.load(tmp_path / "out" / "net.program.npz")
    assert program.members == ("sample 11:0", "sample 11:1", "sample 11:2")
    assert checkpoint.calibration is not None
    raw = device_layout(checkpoint.calibration)
    labels = reference.answer(program, raw.astype(bool) if kind == "bits" else raw).label
    np.savez(tmp_path / "data.npz", images=checkpoint.calibration, labels=labels)
    report = blrc.verify(tmp_path / "out", data=tmp_path / "data.npz", model=tmp_path / "net.pt", random=5)
    assert report.equal, (report.difference, report.problems)
    assert report.accuracy == 100.0
    assert report.agreement is not None
    inputs = sum(counts["onnxruntime"] for counts in report.inputs.values())
    assert report.layers["answer"] == 3 * inputs * (program.classes + 3)
    scores = program.ops[-1]
    # Three members in each of three engines, and the shipped ONNX file's scores.
    assert report.layers[scores.name] > (3 + 1) * 3 * inputs * program.classes

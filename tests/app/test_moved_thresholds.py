"""Exports and verifications say how far thresholds moved when norms were estimated anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import Exported
from blrc.errors import BlrcError
from blrc.program import reference
from blrc.verification.inputs.stimuli import adversarial_inputs, random_inputs

FEATURES, HIDDEN = 12, 5


def saved(path: Path, mean: float) -> Path:
    """Save a network whose norm believes that its sums have a mean; the samples have that of -1 and +1 alike."""
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(HIDDEN)
    norm.running_mean.fill_(mean)
    norm.running_var.fill_(float(FEATURES))
    model = nn.Sequential(bnn.SteLinear(FEATURES, HIDDEN), norm, bnn.SteSign(), bnn.SoftmaxLinear(HIDDEN, 3))
    samples = np.random.default_rng(0).integers(0, 2, (256, FEATURES), dtype=np.uint8)
    blrc.save(model.eval(), path=path, input=blrc.bits((FEATURES,)), calibration=samples)
    return path


def vectors(done: Exported) -> Any:
    return np.load(done.folder / f"{done.manifest.name}.vectors.npz")["inputs"]


def test_estimated_norms_say_how_far_thresholds_moved(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pt", mean=6.0)
    given = blrc.export(path, folder=tmp_path / "given", targets="onnx", norms="given")
    done = blrc.export(path, folder=tmp_path / "out", targets="onnx", norms="estimated")
    tables = [each.program.constant(f"{each.program.ops[0].name}.thresholds") for each in (given, done)]
    far = np.abs(tables[0] - tables[1])
    assert given.moved is None and "moved" not in str(given)
    assert done.moved is not None and far.min() >= 4
    assert (done.moved.thresholds, done.moved.moved, done.moved.most) == (HIDDEN, HIDDEN, far.max())
    assert f"moved 5 of 5 thresholds, by {far.max()} at most, against the network as it was saved" in str(done)
    assert done.to_plain()["moved_thresholds"] == {"thresholds": 5, "moved": 5, "most": far.max()}
    report = blrc.verify(done.folder, model=path, random=200)
    assert report.equal and report.moved == done.moved
    x = random_inputs(done.program.input, 200, 0)
    raw = np.concatenate([vectors(done), adversarial_inputs(done.program.input), x])
    labels = [reference.labels(reference.scores(each.program, raw)) for each in (given, done)]
    other = int((labels[0] != labels[1]).sum())
    assert other > 0 and report.saved_labels == len(raw) - other
    assert f"moved 5 of 5 thresholds, by {far.max()} at most, against the network as it was saved, and " in str(report)
    assert f"changed {other} of {len(raw)} labels" in str(report)
    assert blrc.verify(given.folder, model=path, random=50).moved is None


def test_statistics_that_fit_the_samples_move_little(tmp_path: Path) -> None:
    done = blrc.export(
        saved(tmp_path / "net.pt", mean=0.25), folder=tmp_path / "out", targets="onnx", norms="estimated"
    )
    assert done.moved is not None and done.moved.most <= 1


def test_norms_that_were_never_trained_are_not_compared_with(tmp_path: Path) -> None:
    model = nn.Sequential(
        bnn.SteLinear(FEATURES, HIDDEN), nn.BatchNorm1d(HIDDEN), bnn.SteSign(), bnn.SoftmaxLinear(HIDDEN, 3)
    )
    samples = np.random.default_rng(0).integers(0, 2, (64, FEATURES), dtype=np.uint8)
    blrc.save(model.eval(), path=tmp_path / "net.pt", input=blrc.bits((FEATURES,)), calibration=samples)
    done = blrc.export(tmp_path / "net.pt", folder=tmp_path / "out", targets="onnx", norms="estimated")
    assert done.moved is None


def test_float32_is_refused_for_estimated_norms(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pt", mean=1.0)
    blrc.export(path, folder=tmp_path / "given", targets="onnx", norms="given", rounding="float32")
    with pytest.raises(BlrcError, match="--rounding float32 means the network as it was saved"):
        blrc.export(path, folder=tmp_path / "out", targets="onnx", norms="estimated", rounding="float32")

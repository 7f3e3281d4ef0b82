"""`blrc eval` of networks that give values: errors in stated units, as torch and the exported program have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from head_networks import stochastic
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.cli.main import main
from blrc.errors import BlrcError
from blrc.evaluation import values
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP, Member
from blrc.frontend.saving import from_model, write
from blrc.net.encoding import device_layout
from blrc.program import reference

SHAPE = (2, 7, 6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Checkpoint]:
    torch.manual_seed(0)
    model = nn.Sequential(*stochastic({"a": 1}).trunk, bnn.SoftmaxLinear(36, 2))
    encoding = encoding_of("uint8", SHAPE)
    outputs = blrc.values(scale=12.5, offset=-3.0)
    found = from_model(randomise(model, 0), encoding, raw_samples(encoding, 40, 0), source="net.pt", outputs=outputs)
    path = tmp_path_factory.mktemp("values") / "net.pt"
    write(found, path)
    return path, found


@pytest.fixture(scope="module")
def data(saved: tuple[Path, Checkpoint]) -> tuple[Path, Any, Any]:
    raw = raw_samples(saved[1].encoding, 60, 5)
    targets = np.random.default_rng(0).normal(-3.0, 40.0, (60, 2))
    path = saved[0].with_name("data.npz")
    np.savez(path, images=raw, values=targets)
    return path, raw, targets


def test_errors_are_those_of_the_exported_program(saved: tuple[Path, Checkpoint], data: tuple[Path, Any, Any]) -> None:
    path, raw, targets = data
    found = blrc.evaluate(saved[0], data=path, members="map,2", repeats=2, seed=3)
    device = device_layout(raw)

    def mean_of(*members: Member) -> Any:
        program, _ = build(saved[1], list(members))
        return program.real(reference.answer(program, device).log_p / len(members))

    real = mean_of(MAP)
    assert found["members"]["map"]["mae_mean"] == pytest.approx(np.abs(real - targets).mean())
    assert found["members"]["map"]["rmse_mean"] == pytest.approx(np.sqrt(((real - targets) ** 2).mean()))
    two = [mean_of(Member(seed, 0), Member(seed, 1)) for seed in (3, 4)]
    off = [np.sqrt(((each - targets) ** 2).mean()) for each in two]
    assert found["members"]["2"]["rmse_mean"] == pytest.approx(np.mean(off))
    assert found["members"]["2"]["rmse_std"] == pytest.approx(np.std(off, ddof=1))
    assert "root mean squared error" in str(found) and "root mean squared error" in repr(found)


def test_r2_is_that_of_its_definition() -> None:
    """Also for outputs with other means, of which the best constant for each explains nothing."""
    targets = np.random.default_rng(1).normal((0, 100), 2, (50, 2))
    assert values.errors(targets, targets) == {"mae": 0.0, "rmse": 0.0, "r2": 1.0}
    constant = np.broadcast_to(targets.mean(axis=0), targets.shape)
    assert values.errors(constant, targets)["r2"] == pytest.approx(0.0)
    assert values.errors(targets, np.ones((50, 2)))["r2"] is None


def test_the_command_measures_every_entry(saved: tuple[Path, Checkpoint], data: tuple[Path, Any, Any]) -> None:
    done = CliRunner().invoke(main, ["eval", str(saved[0]), "--data", str(data[0]), "--members", "stochastic,map,2"])
    assert done.exit_code == 0, done.output
    assert all(word in done.output for word in ("mean absolute error", "R^2", "stochastic", "2 members"))
    done = CliRunner().invoke(main, ["eval", str(saved[0]), "--data", str(data[0]), "--members", "map", "--json"])
    assert json.loads(done.stdout)["outputs"] == "values"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cheap": True, "members": "2"}, "gives values, and --cheap is about labels"),
        ({"baselines": ["other.pt"]}, "--baseline is about labels"),
        ({"plots": "figures"}, "--plots is about labels"),
        ({"validation": True}, "--validation is about labels"),
        ({"data": "."}, "give an .npz file with the arrays images and values"),
        ({"head": "a"}, "has no head 'a'"),
    ],
)
def test_options_about_labels_are_refused(
    saved: tuple[Path, Checkpoint], data: tuple[Path, Any, Any], options: Any, message: str
) -> None:
    pytest.importorskip("matplotlib") if "plots" in options else None
    with pytest.raises(BlrcError, match=message):
        blrc.evaluate(saved[0], **{"data": data[0], "members": "map", **options})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": np.zeros(60, np.int64)}, "values are missing"),
        ({"values": np.zeros((60, 3))}, r"values are float64 \(60, 3\); expected real numbers \(60, 2\)"),
        ({"values": np.zeros((2, 60))}, "expected real numbers"),
        ({"values": np.zeros(())}, "expected real numbers"),
        ({"values": np.full((60, 2), np.nan)}, "value of sample 0 is NaN or infinite"),
        ({"values": np.zeros((60, 2), np.complex128)}, "only numbers are read"),
        ({"values": np.zeros((60, 2)), "images": np.zeros((60, 2, 7, 5), np.uint8)}, "images are"),
        ({"values": np.zeros((60, 2)), "images": np.zeros((), np.uint8)}, "holds no images"),
        ({"values": np.zeros((60, 2)), "images": np.zeros((0, 2, 7, 6), np.uint8)}, "holds no images"),
    ],
)
def test_hostile_data_is_refused(
    saved: tuple[Path, Checkpoint], data: tuple[Path, Any, Any], tmp_path: Path, arrays: Any, message: str
) -> None:
    np.savez(tmp_path / "data.npz", **{"images": data[1], **arrays})
    with pytest.raises(BlrcError, match=message):
        blrc.evaluate(saved[0], data=tmp_path / "data.npz", members="map")


def test_what_needs_labels_refuses_values(saved: tuple[Path, Checkpoint], data: tuple[Path, Any, Any]) -> None:
    with pytest.raises(BlrcError, match="gives values, and anytime is for networks that give labels"):
        blrc.anytime(saved[1], raw=data[1])
    with pytest.raises(BlrcError, match=r"gives values, and pruning by accuracy \(--data\) is for networks"):
        blrc.prune(saved[0], output=None, data=data[0])


def test_a_share_of_the_channels_is_pruned_and_values_stay_values(saved: tuple[Path, Checkpoint]) -> None:
    output = saved[0].with_name("small.pt")
    blrc.prune(saved[0], output=output, share="30%")
    assert blrc.load(output).values == saved[1].values


def test_verify_takes_images_with_or_without_values(
    saved: tuple[Path, Checkpoint], data: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    blrc.export(saved[0], folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(tmp_path / "out", data=data[0], random=5)
    assert report.equal and report.inputs["test set"] == {"onnxruntime": 60} and report.accuracy is None
    with pytest.raises(BlrcError, match="gives values, and --original compares labels"):
        blrc.verify(tmp_path / "out", original=stochastic())


def test_inspect_says_what_the_integers_stand_for(saved: tuple[Path, Checkpoint]) -> None:
    found = blrc.inspect(saved[0])
    program, _ = build(saved[1], [MAP])
    assert found.units == ((program.units[0].scale, -3.0),)
    assert "values = " in str(found) and "x int32 -3" in str(found)

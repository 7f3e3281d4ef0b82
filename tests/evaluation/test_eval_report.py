"""What `blrc eval` prints and draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from random_networks import checkpoint_of, deep_network
from torch import nn

from blrc import nn as bnn
from blrc.app.export import build
from blrc.cli.main import main
from blrc.datasets import idx
from blrc.evaluation import figures as plots
from blrc.evaluation.report import to_text
from blrc.frontend import checkpoint, full_precision, saving
from blrc.frontend.sample import MAP
from blrc.net.encoding import device_layout
from blrc.nn import models
from blrc.program import reference
from blrc.training.mnist import ENCODING

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a small network that takes MNIST's images."""
    conv = (bnn.BinaryConv2d(1, 8, 5), bnn.StochasticBatchNorm2d(8), bnn.StochasticMaxPool2d(4), bnn.StochasticSign())
    dense = (bnn.BinaryLinear(8 * 6 * 6, 16), bnn.StochasticBatchNorm1d(16), bnn.StochasticSign())
    network = nn.Sequential(*conv, nn.Flatten(), *dense, bnn.SoftmaxLinear(16, 10))
    made = checkpoint_of(network, "uint8", (1, 28, 28), 3)
    path = tmp_path_factory.mktemp("model") / "mnist.pt"
    saving.save(made.model(), path=path, input=ENCODING, calibration=made.calibration, compact=True)
    return path


@pytest.fixture(scope="module")
def data(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the first 200 test images, with the labels that the likeliest weights give them."""
    images = idx.mnist(EXAMPLE / "data", train=False).images[:200]
    program, _ = build(checkpoint.load(model), [MAP])
    path = tmp_path_factory.mktemp("data") / "test.npz"
    np.savez(path, images=images, labels=reference.labels(reference.scores(program, device_layout(images))))
    return path


def evaluate(model: Path, *options: object) -> Result:
    return CliRunner().invoke(main, ["eval", str(model), *map(str, options)])


@pytest.fixture(scope="module")
def plain(model: Path, data: Path) -> dict[str, Any]:
    result = evaluate(model, "--data", data, "--members", "stochastic,map,2", "--repeats", 2, "--cheap", "--json")
    assert result.exit_code == 0, result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


def test_the_json_has_what_it_promises(plain: dict[str, Any]) -> None:
    assert set(plain["members"]) == {"stochastic", "map", "2"} and plain["samples"] == 200
    for row in plain["members"].values():
        for metric in ("accuracy", "nll", "brier", "ece", "coverage_area"):
            assert {f"{metric}_mean", f"{metric}_std", f"{metric}_mean_running", f"{metric}_std_running"} <= set(row)
        assert 10 < row["accuracy_mean"] <= 100
    assert plain["members"]["map"]["accuracy_mean"] == 100 and plain["members"]["map"]["accuracy_std"] == 0
    curve = plain["curves"]["error_coverage"]["map"]
    assert len(curve["coverage"]) == len(curve["error"]) == 200
    assert curve["error"][-1] == pytest.approx(100 - plain["members"]["map"]["accuracy_mean"])
    assert {row["options"] for row in plain["cheap"]} >= {"--members map", "--members 2 --sample conv --gate 0.99"}


def test_the_table_shows_every_row(plain: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = to_text(plain)
    for name in ("stochastic", "map", "2 members", "--members 2 --freeze 0.1"):
        assert any(line.startswith(name) for line in text.splitlines()), name
    assert f"{plain['members']['map']['accuracy_mean']:.2f}" in text
    table = [line for line in text.splitlines() if str(tmp_path_factory.getbasetemp()) not in line]  # how long that is
    assert max(map(len, table)) <= 130


@pytest.mark.nightly
def test_figures_are_the_same_bytes_every_time(plain: dict[str, Any], model: Path, data: Path, tmp_path: Path) -> None:
    figures = plots.figures(plain)
    assert set(figures) == {"error-coverage.svg", "reliability.svg", "weights.svg"}
    assert plots.figures(plain) == figures
    result = evaluate(model, "--data", data, "--members", "map,2", "--plots", tmp_path / "new" / "figures")
    assert result.exit_code == 0, result.output
    written = sorted(path.name for path in (tmp_path / "new" / "figures").iterdir())
    assert written == ["error-coverage.svg", "reestimation.svg", "reliability.svg", "weights.svg"]
    content = (tmp_path / "new" / "figures" / "error-coverage.svg").read_bytes()
    assert content.startswith(b"<?xml") and b"<dc:date>" not in content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--members", "map", "--cheap"],
            "--cheap is about ensembles; name one of 2 or more in --members, for example map,16",
        ),
        (["--members", "some"], "'some' is not map, stochastic"),
        (["--members", "map", "--validation"], "--validation is for folders"),
        (["--members", "2", "--sample", "nothing"], "nothing"),
        (["--members", "map,1", "--cheap"], "--cheap is about ensembles; name one of 2 or more in --members"),
        (["--members", "map", "--baseline", EXAMPLE / "data"], "data: cannot read"),
        (
            ["--members", "map", "--baseline", "16.pt"],
            "--baseline 16.pt: a file's name is its row's, and '16' is",
        ),
        (["--members", "map", "--plots", "/dev/null/figures"], "/dev/null/figures: cannot write"),
    ],
)
def test_mistakes(options: list[object], message: str, model: Path, data: Path) -> None:
    result = evaluate(model, "--data", data, *options)
    assert result.exit_code == 2 and message in result.output and "Traceback" not in result.output


def test_progress_is_lines_in_a_log(model: Path, data: Path) -> None:
    result = evaluate(model, "--data", data, "--members", "map")
    assert result.stderr.splitlines() == ["start: 0 of 1", "map: 1 of 1"]


def test_baselines_of_all_kinds_stand_beside_it(model: Path, data: Path, tmp_path: Path) -> None:
    real = models.mnist("fp").eval()
    full_precision.save_real(real, tmp_path / "FPNet.pt")
    (tmp_path / "again.pt").write_bytes(model.read_bytes())
    files = [option for name in ("FPNet", "again") for option in ("--baseline", tmp_path / f"{name}.pt")]
    result = evaluate(model, "--data", data, "--members", "map", "--json", *files)
    assert result.exit_code == 0, result.output
    plain = json.loads(result.stdout)
    assert plain["baselines"]["again"] == plain["members"]["map"]
    with np.load(data) as test:
        with torch.no_grad():
            scores = real(torch.from_numpy(ENCODING.real(test["images"])))
        expected = 100 * float((scores.argmax(1).numpy() == test["labels"]).mean())
    assert plain["baselines"]["FPNet"]["accuracy_mean"] == pytest.approx(expected)


def test_a_baseline_for_other_data_is_refused(model: Path, data: Path, tmp_path: Path) -> None:
    network, shape = deep_network(4)
    other = checkpoint_of(network, "uint8", shape, 4)
    path = tmp_path / "other.pt"
    saving.save(other.model(), path=path, input=other.encoding, calibration=other.calibration)
    result = evaluate(model, "--data", data, "--members", "map", "--baseline", path)
    assert result.exit_code == 2 and f"--baseline {path}: takes uint8" in result.output

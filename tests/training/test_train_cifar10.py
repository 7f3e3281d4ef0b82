"""CIFAR-10's run end to end on a small data set and a narrow network: what is its own, beside MNIST's tests."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import blrc
from blrc.app.compile import compile as compile_native
from blrc.datasets import whitening
from blrc.datasets.cifar import SHAPE, cifar10
from blrc.datasets.whitening import Whitening
from blrc.errors import BlrcError
from blrc.frontend import checkpoint, full_precision
from blrc.training import loop
from blrc.training.data import CIFAR10, prepare
from blrc.training.loop import OutOfTimeError
from blrc.training.recipe import RECIPES, Recipe
from blrc.training.run import Trained, run
from blrc.training.stages import networks

TINY = Recipe(**{**RECIPES["cifar10"]["plain"], "width": 1 / 32, "epochs": 2, "pretrain_epochs": 1, "batch": 32,
                 "validation": 40, "calibration": 40})  # fmt: skip


def changed(**options: Any) -> Recipe:
    return Recipe(**{**TINY.__dict__, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 training and 40 test images of ten kinds: a bright row in one colour, on noise."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        records = rng.integers(60, 120, (40, 3073), dtype=np.uint8)
        records[:, 0] = rng.integers(0, 10, 40)
        for record in records:
            record[1:].reshape(SHAPE)[record[0] % 3, 3 * record[0] : 3 * record[0] + 3] = 255
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


@pytest.fixture(scope="module", autouse=True)
def _quick_whitening() -> Iterator[None]:
    """A stand-in for the fit, whose eigenvectors of 3,072 values take ten seconds: codes are half the pixels' offsets
    from 90."""

    def fit(images: np.ndarray) -> Whitening:
        size = int(np.prod(SHAPE))
        matrix = np.eye(size, dtype=np.int16)
        return Whitening(SHAPE, 16.0, matrix, np.full(size, 90, np.uint8), np.zeros(size, np.int64), 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whitening, "fit", fit)
        yield


def train(folder: Path, output: Path, recipe: Recipe = TINY, resume: bool = False, log: Any = None) -> Trained:
    return run(output, folder, recipe, resume, io.StringIO(), log=log)


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Path]:
    output = tmp_path_factory.mktemp("plain") / "cifar10.pt"
    return train(folder, output, log=output.with_suffix(".csv")), output


@pytest.mark.slow("trains, exports and verifies")
def test_the_checkpoint_exports_and_verifies(plain: tuple[Trained, Path], folder: Path, tmp_path: Path) -> None:
    trained, output = plain
    held = checkpoint.load(output)
    assert held.encoding == CIFAR10 and held.whitening is None and held.calibration is not None
    assert held.calibration.shape == (40, 3, 32, 32)
    exported = blrc.export(output, folder=tmp_path / "out", targets="onnx")
    report = blrc.verify(exported.folder, data=folder, random=2)
    assert report.equal and report.difference is None
    rows = list(csv.DictReader(io.StringIO(output.with_suffix(".csv").read_text())))
    assert [row["stage"] for row in rows] == ["fp", "blrnet", "blrnet"]
    assert [float(row["validation"]) for row in rows] == [*trained.accuracies["fp"], *trained.accuracies["blrnet"]]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"schedule": "plateau", "hard": False},
        {"model": "bnn"},
        {"whiten": True},
    ],
)
def test_a_stopped_run_ends_in_the_same_bytes(
    options: dict[str, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = changed(**options)
    train(folder, tmp_path / "whole.pt", recipe)
    real, calls = loop.run_epoch, []

    def stopping(*args: Any, **options: Any) -> float:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "run_epoch", stopping)
        with pytest.raises(KeyboardInterrupt):
            train(folder, tmp_path / "stopped.pt", recipe)
    train(folder, tmp_path / "stopped.pt", recipe, resume=True)
    assert (tmp_path / "whole.pt").read_bytes() == (tmp_path / "stopped.pt").read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize("model", ["blrnet", "lrnet", "bnn", "fp"])
def test_each_model_learns(model: str, folder: Path, tmp_path: Path) -> None:
    options = {"epochs": 5, "pretrain_epochs": 3, "batch": 16, "width": 1 / 16, "translate": 0, "flip": False}
    trained = train(folder, tmp_path / "x.pt", changed(model=model, bits=2 if model == "lrnet" else None, **options))
    assert max(trained.accuracies[model]) > 0.4  # chance: 0.1


@pytest.mark.nightly
def test_a_white_network_takes_codes_and_holds_the_map(folder: Path, tmp_path: Path) -> None:
    train(folder, tmp_path / "white.pt", changed(whiten=True))
    held = checkpoint.load(tmp_path / "white.pt")
    assert held.encoding.kind == "int8" and held.encoding.scale == 16.0 and held.whitening is not None
    images = cifar10(folder).images
    whitened = held.whitening.codes(images)
    assert np.array_equal(whitened, (images.astype(int) - 90 + 1) >> 1)
    assert held.calibration is not None
    assert {one.tobytes() for one in held.calibration} <= {one.tobytes() for one in whitened[:160]}


@pytest.mark.nightly
def test_white_networks_are_evaluated_and_verified_on_the_files(folder: Path, tmp_path: Path) -> None:
    for name, options in (("white", {}), ("fp", {"model": "fp"})):
        train(folder, tmp_path / f"{name}.pt", changed(whiten=True, **options))
    train(folder, tmp_path / "pixels.pt", changed(model="fp"))
    plain = blrc.evaluate(tmp_path / "white.pt", data=folder, members="map", baselines=[tmp_path / "fp.pt"])
    test = cifar10(folder, train=False)
    held = checkpoint.load(tmp_path / "white.pt")
    assert held.whitening is not None
    codes = held.whitening.codes(test.images)
    real = networks.named(changed(), "fp")
    real.load_state_dict(full_precision.load_real(tmp_path / "fp.pt"))
    with torch.no_grad():
        labels = real.eval()(torch.from_numpy(codes.astype(np.float32) / 16)).argmax(1).numpy()
    assert plain["baselines"]["fp"]["accuracy_mean"] == pytest.approx(100 * (labels == test.labels).mean())
    with pytest.raises(BlrcError, match=r"pixels.pt: takes uint8 \(32, 32, 3\) .* evaluated network int8"):
        blrc.evaluate(tmp_path / "white.pt", data=folder, members="map", baselines=[tmp_path / "pixels.pt"])
    out = blrc.export(tmp_path / "white.pt", folder=tmp_path / "out", targets="onnx").folder
    with pytest.raises(BlrcError, match=r"takes int8 \(32, 32, 3\); give an .npz .* or the checkpoint too"):
        blrc.verify(out, data=folder, random=5)
    net = compile_native(held, whitening=held.whitening)
    for images, order in ((test.images, "NCHW"), (test.images.transpose(0, 2, 3, 1), "NHWC")):
        assert np.array_equal(net.scores(images, order=order), net.scores(codes, order="NCHW"))
    with pytest.raises(BlrcError, match=r"whitening: takes uint8 images \(N, 3, 32, 32\)"):
        net(test.images)
    with pytest.raises(BlrcError, match=r"takes int8 \(N, 32, 32, 3\), got uint8"):
        compile_native(held)(test.images.transpose(0, 2, 3, 1))
    report = blrc.verify(out, data=folder, model=tmp_path / "white.pt", random=5)
    assert report.equal and report.accuracy == plain["members"]["map"]["accuracy_mean"]


def test_whitening_is_fitted_on_the_training_images_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, stand_in = [], whitening.fit

    def fit(images: np.ndarray) -> Whitening:
        seen.append(images)
        return stand_in(images)

    monkeypatch.setattr(whitening, "fit", fit)
    prepared = prepare(changed(whiten=True), folder)
    assert np.array_equal(seen[0], cifar10(folder).images[:160])
    assert prepared.training.images.dtype == prepared.validation.images.dtype == np.int8
    assert prepared.digest == prepare(TINY, folder).digest


def test_width_is_a_factor_on_all_hidden_layers(plain: tuple[Trained, Path]) -> None:
    shapes = {name: tuple(value.shape) for name, value in plain[0].model.state_dict().items() if "logits" in name}
    assert shapes["conv1.weight.logits"] == (4, 3, 3, 3) and shapes["dense.weight.logits"] == (32, 16 * 16)


@pytest.mark.nightly
def test_the_plateau_lowers_the_rates_of_later_epochs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates, real = [], loop.run_epoch

    def spy(stage: Any, epoch: int, model: Any, loss_of: Any, adam: Any, *rest: Any, **options: Any) -> float:
        loss = real(stage, epoch, model, loss_of, adam, *rest, **options)
        rates.append((stage.name, adam.param_groups[0]["lr"]))
        return loss

    monkeypatch.setattr(loop, "run_epoch", spy)
    monkeypatch.setattr("blrc.training.stages.registry.accuracy", lambda *_: 0.25)  # no epoch is better than the first
    train(folder, tmp_path / "x.pt", changed(schedule="plateau", epochs=6, weight_lr=0.5))
    assert [rate for name, rate in rates if name == "blrnet"] == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.05, 0.05])
    assert torch.isfinite(torch.tensor([rate for _, rate in rates])).all()


def test_a_run_in_pieces_ends_in_the_same_bytes(plain: tuple[Trained, Path], folder: Path, tmp_path: Path) -> None:
    """Every piece is out of time after its first epoch; the last one ends the run."""
    output, pieces = tmp_path / "x.pt", 0
    with pytest.raises(BlrcError, match=r"minutes 0: must be positive"):
        run(output, folder, TINY, minutes=0)
    while not output.exists():
        pieces += 1
        try:
            run(output, folder, TINY, True, io.StringIO(), minutes=1e-6)
        except OutOfTimeError as error:
            assert str(error).startswith(f"{output}.training: out of time; the same command with --resume")
    assert pieces == 3 and output.read_bytes() == plain[1].read_bytes()

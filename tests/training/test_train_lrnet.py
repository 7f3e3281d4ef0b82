"""An LR-net's run end to end on a small data set: what is its own, beside the tests of binary networks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from small_mnist import small_mnist, write_images

from blrc.datasets.idx import Dataset
from blrc.errors import BlrcError
from blrc.frontend import checkpoint
from blrc.frontend.sample import Member, sample
from blrc.net import net
from blrc.nn import GaussianSample, SteLevels, deterministic, models, reestimate
from blrc.training import loop
from blrc.training.mnist import ENCODING, train_mnist
from blrc.training.recipe import Recipe
from blrc.training.run import Trained, last_file
from blrc.training.stages.registry import stages_of
from blrc.training.stages.stage import accuracy, log_likelihood

TINY = Recipe(model="lrnet", bits=2, epochs=2, pretrain_epochs=1, batch=32, validation=40, calibration=16)
LEVELS = ("levels1", "levels2", "levels3")


def changed(**options: Any) -> Recipe:
    return Recipe(**{**TINY.__dict__, **options})


@pytest.fixture(scope="module", autouse=True)
def _small_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "mnist", small_mnist)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_images(folder)
    return folder


def run(folder: Path, output: Path, recipe: Recipe = TINY, resume: bool = False, log: Path | None = None) -> Trained:
    return train_mnist(output, folder, recipe, resume, io.StringIO(), log=log)


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Path]:
    output = tmp_path_factory.mktemp("reference") / "lrnet.pt"
    return run(folder, output, log=output.with_suffix(".csv")), output


def test_the_checkpoint_is_the_network_that_was_trained(trained: tuple[Trained, Path]) -> None:
    result, output = trained
    held = checkpoint.load(output)
    assert {node.kind for node in held.nodes} == {
        "binary_conv2d", "gaussian_sample", "plain_norm2d", "plain_pool2d", "ste_levels", "flatten", "binary_linear",
        "plain_norm1d", "softmax",
    }  # fmt: skip
    steps = [float(result.model.get_submodule(name).step) for name in LEVELS]
    assert len({*steps, 1.0}) == 4 and all(step > 0 for step in steps)
    assert [float(held.tensors[f"{name}.step"]) for name in LEVELS] == steps
    layers = {layer.name: layer for layer in sample(held, Member(1, 0)).layers}
    assert "sample1" not in layers and layers["norm1"].x == "conv1"
    found = [layer for layer in layers.values() if isinstance(layer, net.Levels)]
    assert [(layer.name, layer.bits, layer.step) for layer in found] == [
        (name, 2, step) for name, step in zip(LEVELS, steps, strict=True)
    ]
    x = torch.randn(5, 1, 28, 28)
    again = held.model()
    for one, other in ((result.model, again), (again, checkpoint.load(output).model())):
        pair = [reestimate(deterministic(model), x)(x) for model in (one, other)]
        assert torch.equal(*pair)  # MAP weights, and steps


def test_steps_are_those_of_the_pretrained_network(folder: Path, trained: tuple[Trained, Path], tmp_path: Path) -> None:
    """They do not change in training, and with more bits they are finer."""
    longer = run(folder, tmp_path / "x.pt", changed(epochs=3))
    finer = run(folder, tmp_path / "y.pt", changed(bits=4))
    for name in LEVELS:
        step = [float(each.model.get_submodule(name).step) for each in (trained[0], longer, finer)]
        assert step[0] == step[1] > 2 * step[2] > 0


def test_the_log_has_the_likelihood(trained: tuple[Trained, Path]) -> None:
    rows = list(csv.DictReader(io.StringIO(trained[1].with_suffix(".csv").read_text())))
    assert [(row["stage"], row["epoch"]) for row in rows] == [("fp", "1"), ("lrnet", "1"), ("lrnet", "2")]
    assert [row["log_likelihood"] == "" for row in rows] == [True, False, False]
    assert all(float(row["log_likelihood"]) < 0 for row in rows[1:])


@pytest.mark.parametrize("stop", first(1, [2, 1]))
def test_an_interrupted_run_ends_in_the_same_bytes(
    stop: int, folder: Path, trained: tuple[Trained, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, real, done = tmp_path / "lrnet.pt", loop.save_state, []

    def stopping(state: Any, path: Path) -> None:
        real(state, path)
        done.append(1)
        if len(done) == stop:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_state", stopping)
        with pytest.raises(KeyboardInterrupt):
            run(folder, output)
    assert not output.exists()
    run(folder, output, resume=True)
    for mine, reference in ((output, trained[1]), (last_file(output), last_file(trained[1]))):
        assert mine.read_bytes() == reference.read_bytes()


def test_the_epoch_of_the_highest_likelihood_is_kept_and_the_last_beside_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracy would choose the first epoch; of equal likelihoods the later one counts."""
    import blrc.training.stages.registry as module

    likelihoods, accuracies = iter([-0.5, -0.2, -0.2, -0.3]), iter([0.1, 0.9, 0.8, 0.7, 0.6])
    seen: list[float] = []

    def likelihood(network: torch.nn.Module, *_: object) -> float:
        seen.append(float(network.state_dict()["scores.weight"].sum()))
        return next(likelihoods)

    monkeypatch.setattr(module, "log_likelihood", likelihood)
    monkeypatch.setattr(module, "accuracy", lambda *_: next(accuracies))
    result = run(folder, tmp_path / "x.v1.pt", changed(epochs=4))
    assert result.accuracy == 0.7 and result.accuracies["lrnet"] == [0.9, 0.8, 0.7, 0.6]
    assert float(result.model.scores.weight.detach().sum()) == seen[2]
    last = checkpoint.load(tmp_path / "x.v1-last.pt").tensors["scores.weight"]
    assert float(torch.from_numpy(last).sum()) == seen[3] != seen[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.v1-last.pt", "x.v1.pt"]


def test_a_restart_restrains_the_variance_and_keeps_the_steps(
    folder: Path, trained: tuple[Trained, Path], tmp_path: Path
) -> None:
    result = run(folder, tmp_path / "x.pt", changed(restart_epochs=2, distillation=0.5))
    assert list(result.accuracies) == ["fp", "lrnet", "restart"]
    assert all("log_likelihood" in row for row in result.history if row["stage"] != "fp")
    for name in LEVELS:
        assert float(result.model.get_submodule(name).step) == float(trained[0].model.get_submodule(name).step)


def test_it_learns(folder: Path, tmp_path: Path) -> None:
    result = run(folder, tmp_path / "x.pt", changed(epochs=8, pretrain_epochs=4, batch=16))
    assert result.accuracies["fp"][-1] > 0.9
    assert result.accuracy > 0.8


def test_training_steps_round_samples_and_reuse_noise(folder: Path) -> None:
    data = Dataset(np.zeros((64, 1, 28, 28), np.uint8), np.zeros(64, np.uint8))
    first = stages_of(TINY, data, data, ENCODING)[0].build({})
    model = stages_of(TINY, data, data, ENCODING)[1].build({"fp": first.state_dict()})
    seen: dict[str, torch.Tensor] = {}
    for name in ("sample1", *LEVELS):
        model.get_submodule(name).register_forward_hook(lambda _, __, out, name=name: seen.update({name: out}))
    x = torch.randn(8, 1, 28, 28)
    model(x)
    before = seen["sample1"]
    model(x)
    assert not torch.equal(before, seen["sample1"])
    for name in LEVELS:
        codes = seen[name] / model.get_submodule(name).step
        assert torch.equal(codes, codes.round()) and set(codes.unique().tolist()) <= {0.0, 1.0, 2.0, 3.0}
    assert all(module.noise.reuse for module in model.modules() if isinstance(module, GaussianSample))
    assert sum(isinstance(module, SteLevels) for module in model.modules()) == 3


def test_the_likelihood_is_the_mean_log_probability_of_the_labels() -> None:
    rng = np.random.default_rng(0)
    data = Dataset(rng.integers(0, 256, (701, 1, 28, 28)).astype(np.uint8), rng.integers(0, 10, 701).astype(np.uint8))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    with torch.no_grad():
        scores = network(torch.from_numpy(ENCODING.real(data.images))).double().numpy()
    odds = np.exp(scores)
    expected = np.mean([math.log(odd[label] / odd.sum()) for odd, label in zip(odds, data.labels, strict=True)])
    assert log_likelihood(network, data, ENCODING) == pytest.approx(expected, rel=1e-5)
    assert accuracy(network, data, ENCODING) == np.mean(scores.argmax(1) == data.labels)


def test_a_step_that_is_no_positive_number_is_refused_by_layer(trained: tuple[Trained, Path]) -> None:
    held = checkpoint.load(trained[1])
    for step in (0.0, -1.0, 1e-30):
        bad = {**held.tensors, "levels2.step": np.float32(step).reshape(())}
        with pytest.raises(BlrcError, match=r"layer 'levels2': step .*give a positive number"):
            sample(checkpoint.Checkpoint(held.nodes, bad, held.encoding, None, "x.pt"))


def test_a_run_that_diverges_ends_in_one_line(folder: Path, tmp_path: Path) -> None:
    """Its likelihood, NaN, was below nothing, so that no epoch was kept and a KeyError ended the run."""
    with pytest.raises(BlrcError, match="the training diverged"):
        run(folder, tmp_path / "wild.pt", changed(lr=1e30, weight_lr=1e30))
    assert not (tmp_path / "wild.pt").exists()


def test_both_checkpoints_that_will_be_replaced_are_named(
    folder: Path, trained: tuple[Trained, Path], tmp_path: Path
) -> None:
    output, said = tmp_path / "lrnet.pt", io.StringIO()
    for path in (output, last_file(output)):
        path.write_bytes(b"")
    train_mnist(output, folder, changed(epochs=1), False, said)
    for path in (output, last_file(output)):
        assert f"{path}: is there, and will be replaced when this run ends" in said.getvalue()

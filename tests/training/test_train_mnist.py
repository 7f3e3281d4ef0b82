"""The recipe end to end on a small data set: what it writes, and that an interrupted run ends in the same bytes."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_night import first, where
from small_mnist import small_mnist, write_images

from blrc.datasets import idx
from blrc.errors import BlrcError
from blrc.frontend import checkpoint, full_precision
from blrc.frontend.sample import sample
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import lower
from blrc.nn import SteConv2d, SteLinear, distributions, models
from blrc.store import steps
from blrc.training import loop
from blrc.training.mnist import ENCODING, train_mnist
from blrc.training.recipe import RECIPES, Recipe
from blrc.training.run import Trained
from blrc.training.stages.losses import distillation
from blrc.training.stages.networks import binary_groups, restrain_at, straight_through_groups
from blrc.training.stages.registry import REESTIMATION, best_stage, stages_of
from blrc.training.state import TrainingState, run_alone, state_file

TINY = Recipe(epochs=2, pretrain_epochs=2, batch=32, validation=40, calibration=16)


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


def run(folder: Path, output: Path, recipe: Recipe = TINY, resume: bool = False, log: Any = None) -> Trained:
    return train_mnist(output, folder, recipe, resume, log or io.StringIO())


@pytest.fixture(scope="module")
def uninterrupted(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Trained, str]:
    output, log = tmp_path_factory.mktemp("reference") / "mnist.pt", io.StringIO()
    trained = run(folder, output, log=log)
    assert not state_file(output).exists()
    return output.read_bytes(), trained, log.getvalue()


def same_tensors(one: Trained, other: Trained) -> bool:
    a, b = one.model.state_dict(), other.model.state_dict()
    return a.keys() == b.keys() and all(a[k].numpy().tobytes() == b[k].numpy().tobytes() for k in a)


def test_the_log_has_a_line_an_epoch(uninterrupted: tuple[bytes, Trained, str]) -> None:
    lines = uninterrupted[2].splitlines()
    titles = ["fp epoch 1/2", "fp epoch 2/2", "blrnet epoch 1/2", "blrnet epoch 2/2"]
    assert [line.partition(":")[0] for line in lines] == titles
    assert all("loss" in line and "validation" in line and "best" in line for line in lines)


def test_the_checkpoint_has_what_an_export_needs(folder: Path, uninterrupted: Any, tmp_path: Path) -> None:
    content, trained, _ = uninterrupted
    (tmp_path / "mnist.pt").write_bytes(content)
    held = checkpoint.load(tmp_path / "mnist.pt")
    assert held.encoding == ENCODING
    training = idx.split(idx.mnist(folder), TINY.validation)[0]
    known = {image.tobytes() for image in training.images}
    assert held.calibration is not None and held.calibration.shape == (16, 1, 28, 28)
    assert {image.tobytes() for image in held.calibration} <= known  # of the training part, each once
    assert len({image.tobytes() for image in held.calibration}) == 16
    assert held.tensors["conv1.weight.logits"].dtype == np.int8  # compact
    for mine, theirs in zip(distributions(trained.model), distributions(held.model()), strict=True):
        assert torch.equal(mine.map(), theirs.map())


def test_it_learns(folder: Path, tmp_path: Path) -> None:
    trained = run(
        folder, tmp_path / "x.pt", Recipe(epochs=12, pretrain_epochs=4, batch=16, validation=40, calibration=16)
    )
    assert trained.accuracies["fp"][-1] > 0.9
    assert max(trained.accuracies["blrnet"]) > 0.8


def test_the_seed_decides(folder: Path, tmp_path: Path, uninterrupted: Any) -> None:
    state = torch.get_rng_state()
    torch.manual_seed(99)  # what the caller's generator holds must not matter, nor be changed
    before = torch.get_rng_state()
    again = run(folder, tmp_path / "same.pt")
    assert torch.equal(torch.get_rng_state(), before)
    torch.set_rng_state(state)
    assert same_tensors(again, uninterrupted[1])
    assert (tmp_path / "same.pt").read_bytes() == uninterrupted[0]
    other = run(folder, tmp_path / "other.pt", Recipe(**{**TINY.__dict__, "seed": 1}))
    assert not same_tensors(other, uninterrupted[1])


class Stop(BaseException):
    """As KeyboardInterrupt: nothing may catch it."""


def in_epoch(number: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Stop in the middle of an epoch, counted over both stages."""

    def install(patch: pytest.MonkeyPatch) -> None:
        calls, real = [], loop.run_epoch

        def interrupted(*args: Any, **options: Any) -> float:
            calls.append(1)

            def report(step: int, loss: float) -> None:
                if len(calls) == number and step == 3:
                    raise Stop

            return real(*args[:-1], report, **options)

        patch.setattr(loop, "run_epoch", interrupted)

    return install


def in_write(number: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Stop while a state is being written (the first is written before any epoch)."""

    def install(patch: pytest.MonkeyPatch) -> None:
        calls, real = [], steps.sync

        def interrupted(file: int, path: Path) -> None:
            calls.append(1)
            if len(calls) == number:
                os.ftruncate(file, 1000)
                raise Stop
            real(file, path)

        patch.setattr(steps, "sync", interrupted)

    return install


BY_DAY = ("epoch 2", "epoch 3", "write 1", "write 4", "checkpoint")
POINTS = {
    **{f"epoch {n}": in_epoch(n) for n in (1, 2, 3, 4)},
    **{f"write {n}": in_write(n) for n in (1, 2, 3, 4, 5)},
    "checkpoint": in_write(6),
}


@pytest.mark.parametrize("point", where(BY_DAY.__contains__, POINTS))
def test_an_interrupted_run_ends_in_the_same_bytes(
    point: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: Any
) -> None:
    output = tmp_path / "mnist.pt"
    with monkeypatch.context() as patch:
        POINTS[point](patch)
        with pytest.raises(Stop):
            run(folder, output)
    assert not output.exists()
    log = io.StringIO()
    assert same_tensors(run(folder, output, resume=True, log=log), uninterrupted[1])
    assert output.read_bytes() == uninterrupted[0]
    done = {"epoch 1": 0, "epoch 2": 1, "epoch 3": 2, "epoch 4": 3, "write 1": 0, "write 2": 0, "write 3": 1,
            "write 4": 2, "write 5": 3, "checkpoint": 4}[point]  # fmt: skip
    assert log.getvalue().count("validation") == 4 - done  # epochs that were finished are not run again
    assert [path.name for path in tmp_path.iterdir()] == ["mnist.pt"]


@pytest.mark.nightly
def test_a_killed_process_goes_on(folder: Path, tmp_path: Path, uninterrupted: Any) -> None:
    output = tmp_path / "mnist.pt"
    program = (
        "import sys, torch\nfrom blrc.nn import models\n"
        "from blrc.training.mnist import train_mnist\nfrom blrc.training.recipe import *\n"
        "models.mnist = lambda flavour='blrnet', norm=True, weights='binary': "
        "models._network(flavour, 1, 28, ((6,), (8,)), (32,), norm)\n"
        f"torch.set_num_threads({torch.get_num_threads()})\n"
        f"train_mnist({str(output)!r}, {str(folder)!r}, {TINY!r}, stream=sys.stdout)"
    )
    with subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("fp epoch 1/2"):  # another run of the same output is refused as long as this one lives
                for resume in (False, True):
                    with pytest.raises(BlrcError, match="another blrc train that writes it is running"):
                        run(folder, output, resume=resume)
            if line.startswith("fp epoch 2/2"):
                process.send_signal(signal.SIGKILL)  # about when its state is being written
                break
    assert process.returncode == -signal.SIGKILL and not output.exists()
    assert same_tensors(run(folder, output, resume=True), uninterrupted[1])
    assert output.read_bytes() == uninterrupted[0]


def test_a_second_run_is_refused_at_once_and_changes_nothing(folder: Path, stopped: Path, tmp_path: Path) -> None:
    """Two `train --resume` on one state both went on from it, and wrote it in turns."""
    state = state_file(stopped).read_bytes()
    with run_alone(stopped):
        for resume in (False, True):
            with pytest.raises(BlrcError, match=r"mnist\.pt: another blrc train that writes it is running") as refused:
                run(folder, stopped, resume=resume)
            assert "\n" not in str(refused.value)
        with pytest.raises(BlrcError, match="another blrc train"):  # before the data are looked at
            run(tmp_path / "nowhere", stopped, resume=True)
        with run_alone(tmp_path / "other.pt"):
            pass
    assert state_file(stopped).read_bytes() == state
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mnist.pt.training"]


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_planted_in_the_place_of_the_lock_is_refused(kind: str, tmp_path: Path) -> None:
    lock = tmp_path / ".x.pt.blrc-lock"
    (tmp_path / "victim").write_bytes(b"victim")
    {"link": lambda: lock.symlink_to("victim"), "fifo": lambda: os.mkfifo(lock), "folder": lock.mkdir}[kind]()
    with pytest.raises(BlrcError, match=r"\.x\.pt\.blrc-lock: is in the way of a lock"), run_alone(tmp_path / "x.pt"):
        pass
    assert os.path.lexists(lock) and (tmp_path / "victim").read_bytes() == b"victim"


def test_resume_without_a_state_starts_anew_and_says_so(folder: Path, tmp_path: Path, uninterrupted: Any) -> None:
    log = io.StringIO()
    assert same_tensors(run(folder, tmp_path / "new.pt", resume=True, log=log), uninterrupted[1])
    assert log.getvalue().startswith(f"{tmp_path / 'new.pt.training'}: no unfinished run; starting a new one\n")


@pytest.fixture(scope="module")
def stopped_state(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a run left that stopped in its second epoch."""
    output = tmp_path_factory.mktemp("stopped") / "mnist.pt"
    with pytest.MonkeyPatch.context() as patch:
        in_epoch(2)(patch)
        with pytest.raises(Stop):
            run(folder, output)
    return state_file(output).read_bytes()


@pytest.fixture
def stopped(stopped_state: bytes, tmp_path: Path) -> Path:
    """The output of that run."""
    state_file(tmp_path / "mnist.pt").write_bytes(stopped_state)
    return tmp_path / "mnist.pt"


def test_an_unfinished_run_is_not_overwritten(folder: Path, stopped: Path) -> None:
    with pytest.raises(BlrcError, match=r"mnist.pt.training: an unfinished run; go on with --resume, or delete"):
        run(folder, stopped)


def test_other_options_are_named(folder: Path, stopped: Path) -> None:
    with pytest.raises(BlrcError, match=r"other options \(epochs 2, now 5; seed 0, now 3\)"):
        run(folder, stopped, Recipe(**{**TINY.__dict__, "seed": 3, "epochs": 5}), resume=True)


def test_other_data_are_refused(folder: Path, stopped: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:-1] + b"\x07")
    with pytest.raises(BlrcError, match=r"other options \(data "):
        run(tmp_path, stopped, resume=True)


def test_another_number_of_threads_is_said(folder: Path, stopped: Path) -> None:
    log, threads = io.StringIO(), torch.get_num_threads()
    train_mnist(stopped, folder, TINY, True, log, threads=threads + 1)
    assert torch.get_num_threads() == threads
    assert f"the run had {threads} threads on cpu, now {threads + 1} on cpu: last bits may differ" in log.getvalue()


@pytest.mark.parametrize("damage", ["truncated", "text", "empty", "other"])
def test_a_damaged_state_is_refused(damage: str, folder: Path, stopped: Path) -> None:
    path = state_file(stopped)
    if damage == "other":
        torch.save({"weights": torch.ones(2)}, path)
    else:
        path.write_bytes({"truncated": path.read_bytes()[:5000], "text": b"hello", "empty": b""}[damage])
    with pytest.raises(BlrcError, match="not a training state, or damaged"):
        run(folder, stopped, resume=True)


def test_a_state_of_another_version_is_refused(folder: Path, stopped: Path) -> None:
    content = torch.load(state_file(stopped), weights_only=True)
    torch.save({**content, "format": content["format"] + 1}, state_file(stopped))
    with pytest.raises(BlrcError, match="another version"):
        run(folder, stopped, resume=True)


def test_a_malicious_state_is_not_executed(folder: Path, stopped: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    torch.save({"format": 1, "options": Evil()}, state_file(stopped))
    with pytest.raises(BlrcError, match="not a training state"):
        run(folder, stopped, resume=True)
    assert not (tmp_path / "executed").exists()


def test_a_folder_that_cannot_be_written_is_found_before_training(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = io.StringIO()
    with pytest.raises(BlrcError, match="cannot write"):
        run(folder, tmp_path / "file" / "mnist.pt", log=log)
    assert not log.getvalue()


def test_the_best_epoch_is_kept(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is that of the epoch with the highest validation accuracy, the later one of equals."""
    import blrc.training.stages.registry as module

    # A stochastic network is measured twice: its MAP network, which chooses, and itself.
    accuracies = iter([0.5, 0.4, 0.9, 0.1, 0.9, 0.2, 0.3, 1.0])
    seen: list[dict[str, torch.Tensor]] = []

    def accuracy(network: torch.nn.Module, *_: object) -> float:
        seen.append({key: value.clone() for key, value in network.state_dict().items()})
        return next(accuracies)

    monkeypatch.setattr(module, "accuracy", accuracy)
    trained = run(folder, tmp_path / "x.pt", Recipe(**{**TINY.__dict__, "epochs": 3, "pretrain_epochs": 2}))
    assert trained.accuracies == {"fp": [0.5, 0.4], "blrnet": [0.9, 0.9, 0.3]}
    assert torch.equal(trained.model.scores.weight, seen[4]["scores.weight"])
    assert not torch.equal(trained.model.scores.weight, seen[6]["scores.weight"])
    assert [row.get("stochastic") for row in trained.history] == [None, None, 0.1, 0.2, 1.0]


CHANGES = (
    {"objective": "bound"},
    {"hard": False},
    {"shifts": 1},
    {"distillation": 0.5},
    {"precision": "bfloat16"},
    {"pretrain_epochs": 0},
    {"tau": 0.5},
    {"variance_penalty": 0.1},
    {"rotation": 5.0},
    {"zoom": 0.1},
    {"dropout": 0.5},
    {"pretrain_decay": 1.0},
    {"init": "xavier"},
    {"restart_epochs": 3},
)


@pytest.mark.parametrize("change", first(5, CHANGES))
def test_each_option_has_an_effect(change: dict[str, Any], folder: Path, tmp_path: Path, uninterrupted: Any) -> None:
    trained = run(folder, tmp_path / "x.pt", Recipe(**{**TINY.__dict__, **change}))
    assert not same_tensors(trained, uninterrupted[1])


@pytest.mark.nightly
def test_the_distilled_recipe_resumes_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shifts, dropout and soft labels draw from the epoch's seed, and the teacher is the pretraining's result."""
    recipe = Recipe(**{**TINY.__dict__, **RECIPES["mnist"]["distilled"], "epochs": 2, "pretrain_epochs": 2})
    whole = run(folder, tmp_path / "whole.pt", recipe)
    with monkeypatch.context() as patch:
        in_epoch(4)(patch)
        with pytest.raises(Stop):
            run(folder, tmp_path / "x.pt", recipe)
    assert same_tensors(run(folder, tmp_path / "x.pt", recipe, resume=True), whole)


def test_the_distillation_loss_by_hand() -> None:
    recipe = Recipe(distillation=0.7, temperature=3.0)
    student, teacher, labels = torch.randn(5, 10), torch.randn(5, 10), torch.arange(5)
    loss = distillation(recipe, lambda _: teacher)(lambda _: student, torch.zeros(5), labels)
    s, t = (np.exp(x.double().numpy() / 3) for x in (student, teacher))
    s, t = s / s.sum(1, keepdims=True), t / t.sum(1, keepdims=True)
    hard = np.exp(student.double().numpy())
    cross = -np.log((hard / hard.sum(1, keepdims=True))[np.arange(5), np.arange(5)]).mean()
    divergence = (t * np.log(t / s)).sum(1).mean()
    assert loss.item() == pytest.approx(0.3 * cross + 0.7 * 9 * divergence, rel=1e-5)


def test_groups_are_complete_and_apart(uninterrupted: Any) -> None:
    model = uninterrupted[1].model
    logits, softmax, rest = binary_groups(model, weight_lr=0.5, lr=0.25, weight_decay=0.125)
    named = {id(p): name for name, p in model.named_parameters()}
    assert [named[id(p)] for p in logits["params"]] == [f"{n}.weight.logits" for n in ("conv1", "conv2", "dense")]
    assert [named[id(p)] for p in softmax["params"]] == ["scores.weight", "scores.bias"]
    assert [named[id(p)] for p in rest["params"]] == [f"norm{i}.{n}" for i in (1, 2, 3) for n in ("weight", "bias")]
    assert (logits["lr"], softmax["lr"], rest["lr"], softmax["weight_decay"]) == (0.5, 0.25, 0.25, 0.125)
    assert "weight_decay" not in logits and "weight_decay" not in rest


def test_calibration_larger_than_the_data(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match="only 160 training samples"):
        run(folder, tmp_path / "x.pt", Recipe(validation=40, calibration=161))
    assert REESTIMATION > 160  # and fewer than the re-estimation wants is no error


RESTART = Recipe(**{**TINY.__dict__, "restart_epochs": 3})


@pytest.mark.nightly
def test_a_restart_resumes_and_the_better_stage_is_the_result(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(folder, tmp_path / "whole.pt", RESTART)
    assert list(whole.accuracies) == ["fp", "blrnet", "restart"]
    with monkeypatch.context() as patch:
        in_epoch(6)(patch)
        with pytest.raises(Stop):
            run(folder, tmp_path / "x.pt", RESTART)
    assert same_tensors(run(folder, tmp_path / "x.pt", RESTART, resume=True), whole)
    assert (tmp_path / "x.pt").read_bytes() == (tmp_path / "whole.pt").read_bytes()


@pytest.mark.parametrize(
    ("accuracies", "best"),
    [
        ({"fp": [1.0], "blrnet": [0.5, 0.9], "restart": [0.8, 0.7]}, "blrnet"),
        ({"fp": [1.0], "blrnet": [0.5, 0.9], "restart": [0.9, 0.7]}, "restart"),
        ({"fp": [1.0], "blrnet": [0.5]}, "blrnet"),
    ],
)
def test_the_stage_with_the_best_epoch_is_the_result(accuracies: dict[str, list[float]], best: str) -> None:
    assert best_stage(Recipe(), accuracies) == best


def test_the_restart_restrains_the_variance_in_training_only() -> None:
    model = models.mnist("blrnet")
    recipe = Recipe(tau=2.0, restart_spread=0.25)
    for progress, kappa in ((0.0, 1.0), (0.3, 1.0), (0.6, 0.5), (0.9, 0.25), (1.0, 0.25)):
        restrain_at(model, recipe, progress)
        assert model.sign1.tau == pytest.approx(2.0 * kappa**-0.5)
        for weight in distributions(model.train()):
            assert torch.allclose(weight.moments()[1], kappa * weight.variance(), rtol=1e-5)
        for weight in distributions(model.eval()):
            assert torch.allclose(weight.moments()[1], weight.variance(), rtol=1e-5)


def test_the_log_is_a_csv_file(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    trained = train_mnist(tmp_path / "x.pt", folder, TINY, stream=io.StringIO(), log=log)
    rows = list(csv.DictReader(io.StringIO(log.read_text(encoding="utf-8"))))
    assert [(row["stage"], row["epoch"]) for row in rows] == [
        ("fp", "1"),
        ("fp", "2"),
        ("blrnet", "1"),
        ("blrnet", "2"),
    ]
    assert [float(row["validation"]) for row in rows] == trained.accuracies["fp"] + trained.accuracies["blrnet"]
    assert [row["stochastic"] == "" for row in rows] == [True, True, False, False]
    assert all(float(row["loss"]) > 0 and float(row["cpu_seconds"]) >= 0 for row in rows)


def test_without_norms_it_still_exports(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "x.pt", Recipe(**{**TINY.__dict__, "norm": False}))
    held = checkpoint.load(tmp_path / "x.pt")
    assert "conv1.bias" in held.tensors and not [node for node in held.nodes if node.kind.startswith("batch_norm")]
    lower([calibrate(sample(held), held.calibration)])


def test_a_full_precision_network_is_kept_but_not_compiled(folder: Path, tmp_path: Path) -> None:
    trained = run(folder, tmp_path / "fp.pt", Recipe(**{**TINY.__dict__, "model": "fp", "epochs": 3}))
    assert list(trained.accuracies) == ["fp"] and len(trained.accuracies["fp"]) == 3
    held = full_precision.load_real(tmp_path / "fp.pt")
    assert all(torch.equal(held[key], value) for key, value in trained.model.state_dict().items())
    with pytest.raises(BlrcError, match=r"fp.pt: a full-precision network, which cannot be compiled"):
        checkpoint.load(tmp_path / "fp.pt")
    run(folder, tmp_path / "blrnet.pt")
    with pytest.raises(BlrcError, match=r"blrnet.pt: not a full-precision network"):
        full_precision.load_real(tmp_path / "blrnet.pt")


def test_the_binarized_networks_rates_are_hubaras() -> None:
    model = models.mnist("bnn")
    groups = straight_through_groups(model, 0.5)
    layers = [module for module in model.modules() if isinstance(module, SteConv2d | SteLinear)]
    assert [group["params"] for group in groups[:-1]] == [[layer.weight] for layer in layers]
    taps = [(9 * 1, 9 * 6), (9 * 6, 9 * 8), (7 * 7 * 8, 32), (32, 10)]
    assert [group["lr"] for group in groups[:-1]] == pytest.approx([0.5 / (1.5 / sum(fans)) ** 0.5 for fans in taps])
    assert groups[-1]["lr"] == 0.5
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_the_binarized_network_learns_and_stays_clipped(folder: Path, tmp_path: Path) -> None:
    recipe = Recipe(**{**TINY.__dict__, "model": "bnn", "epochs": 6, "batch": 16})
    training, validation = idx.split(idx.mnist(folder), recipe.validation)
    state = TrainingState({}, 1)
    stages = stages_of(recipe, training, validation, ENCODING)
    loop.run_stages(stages, state, tmp_path / "state", training, ENCODING, recipe.batch, 0, io.StringIO())
    assert [stage.name for stage in stages] == ["bnn"] and max(state.accuracies["bnn"]) > 0.8
    weights = [value for key, value in state.results["bnn"].items() if key.endswith("weight") and value.ndim > 1]
    assert len(weights) == 4 and max(float(weight.abs().max()) for weight in weights) <= 1


def test_regression_what_cannot_begin_leaves_no_state(folder: Path, tmp_path: Path) -> None:
    """A refused width left a state that the corrected command was refused for."""
    with pytest.raises(BlrcError, match=r"width 0\.0 leaves no channels"):
        run(folder, tmp_path / "x.pt", Recipe(task="cifar10", width=0.0))
    assert not list(tmp_path.glob("x.pt*"))


def test_regression_a_run_killed_in_its_first_epoch_is_not_finished(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the output of an earlier run is there, `--resume` took that for the result."""
    (tmp_path / "x.pt").write_bytes(b"of an earlier run")
    with monkeypatch.context() as patch:
        in_epoch(1)(patch)
        with pytest.raises(Stop):
            run(folder, tmp_path / "x.pt")
    with pytest.raises(BlrcError, match="an unfinished run"):
        run(folder, tmp_path / "x.pt")
    run(folder, tmp_path / "x.pt", resume=True)
    assert checkpoint.load(tmp_path / "x.pt") and not state_file(tmp_path / "x.pt").exists()


def test_what_will_be_replaced_is_named(folder: Path, tmp_path: Path) -> None:
    stream = io.StringIO()
    run(folder, tmp_path / "x.pt", log=stream)
    assert "replaced" not in stream.getvalue()
    run(folder, tmp_path / "x.pt", log=stream)
    assert f"{tmp_path / 'x.pt'}: is there, and will be replaced when this run ends\n" in stream.getvalue()

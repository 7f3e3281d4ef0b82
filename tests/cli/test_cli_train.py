"""``blrc train``: options reach the recipe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TextIO

import pytest
from click.testing import CliRunner
from torch import nn

from blrc.cli import train
from blrc.cli.main import main
from blrc.training.loop import OutOfTimeError
from blrc.training.recipe import RECIPES, Recipe
from blrc.training.run import Trained


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def run(*args: Any, stream: TextIO, threads: int, log: Path | None, device: str, minutes: float) -> Trained:
        assert device == "cpu" and minutes == math.inf
        calls.append((*args, threads, log))
        return Trained(nn.Sequential(), {"fp": [0.999], "blrnet": [0.97, 0.9912, 0.98]}, [], 0.9912)

    monkeypatch.setattr("blrc.training.run.run", run)
    return calls


def test_the_defaults_are_the_recipe_s(calls: list[tuple[Any, ...]]) -> None:
    result = CliRunner().invoke(train.train, ["mnist", "-o", "mnist.pt"])
    assert result.exit_code == 0 and result.output == "mnist.pt: MAP accuracy 99.12 % on the validation set\n"
    assert calls == [(Path("mnist.pt"), None, Recipe(), False, 1, None)]


def test_every_option_arrives(calls: list[tuple[Any, ...]]) -> None:
    options = "--data d --seed 3 --epochs 4 --pretrain-epochs 5 --batch 6 --lr 0.7 --weight-lr 0.8 --soft "
    options += "--tau 0.9 --threads 2 --shifts 1 --rotation 5 --zoom 0.1 --distillation 0.25 --restart-epochs 7 "
    options += "--no-norm --log l.csv --model blrnet --schedule plateau --precision bfloat16"
    CliRunner().invoke(train.train, ["mnist", "-o", "m.pt", *options.split(), "--objective", "bound", "--resume"])
    recipe = Recipe(
        seed=3, epochs=4, pretrain_epochs=5, batch=6, weight_lr=0.8, lr=0.7, objective="bound", hard=False, tau=0.9,
        shifts=1, rotation=5.0, zoom=0.1, distillation=0.25, restart_epochs=7, norm=False,
        schedule="plateau", precision="bfloat16",
    )  # fmt: skip
    assert calls == [(Path("m.pt"), Path("d"), recipe, True, 2, Path("l.csv"))]


def test_a_recipe_by_name_and_an_option_of_its_own(calls: list[tuple[Any, ...]]) -> None:
    CliRunner().invoke(train.train, ["mnist", "-o", "m.pt", "--recipe", "distilled", "--epochs", "4"])
    assert calls[0][2] == Recipe(**{**RECIPES["mnist"]["distilled"], "epochs": 4})
    assert calls[0][2].distillation > 0 and calls[0][2].shifts > 0


def test_cifar10_has_options_of_its_own(calls: list[tuple[Any, ...]]) -> None:
    for options in (
        "",
        "--width 0.25 --whiten --translate 2 --no-flip --recipe paper",
        "--model fp --recipe distilled",
    ):
        result = CliRunner().invoke(train.train, ["cifar10", "-o", "c.pt", *options.split()])
        assert (result.exit_code == 0) == ("distilled" not in options)
    recipes = RECIPES["cifar10"]
    assert [call[2] for call in calls] == [
        Recipe(**recipes["plain"]),
        Recipe(**{**recipes["paper"], "width": 0.25, "whiten": True, "translate": 2, "flip": False}),
    ]
    assert calls[0][2].task == "cifar10" and calls[0][2].translate == 4 and calls[0][2].flip
    assert calls[1][2].schedule == "plateau" and calls[1][2].weight_lr == calls[1][2].lr == 0.01


def test_output_is_required(calls: list[tuple[Any, ...]]) -> None:
    result = CliRunner().invoke(train.train, ["mnist"])
    assert result.exit_code == 2 and "--output" in result.output and not calls


@pytest.mark.parametrize(
    ("options", "recipe"),
    [
        (["--model", "fp"], Recipe(model="fp")),
        (["--init", "xavier"], Recipe(init="xavier")),
        (["--model", "lrnet", "--bits", "4"], Recipe(model="lrnet", bits=4)),
        (
            ["--model", "lrnet", "--bits", "1", "--recipe", "distilled"],
            Recipe(**{**RECIPES["mnist"]["distilled"], "model": "lrnet", "bits": 1}),
        ),
    ],
)
def test_baselines_and_ablations(options: list[str], recipe: Recipe, calls: list[tuple[Any, ...]]) -> None:
    CliRunner().invoke(train.train, ["mnist", "-o", "m.pt", *options])
    assert calls[0][2] == recipe


def test_the_help_names_the_defaults_of_every_recipe() -> None:
    text = " ".join(CliRunner().invoke(train.train, ["mnist", "--help"]).output.split())
    assert "[plain: 13, distilled: 20]" in text and "[plain: 128]" in text


def test_an_interrupted_run_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> Trained:
        raise KeyboardInterrupt

    monkeypatch.setattr("blrc.training.run.run", run)
    result = CliRunner().invoke(main, ["train", "mnist", "-o", "m.pt"])
    assert result.exit_code == 2
    assert "the same command with --resume goes on after the last finished epoch (m.pt.training)" in result.output


def test_a_run_that_is_out_of_time_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, minutes: float, **__: Any) -> Trained:
        assert minutes == 9.5
        raise OutOfTimeError("m.pt.training: out of time")

    monkeypatch.setattr("blrc.training.run.run", run)
    result = CliRunner().invoke(main, ["train", "mnist", "-o", "m.pt", "--minutes", "9.5"])
    assert result.exit_code == 75 and result.stderr == "m.pt.training: out of time\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--model fp --lr 0.1 --soft", "--model fp: has no use for --lr, --soft"),
        ("--model lrnet --bits 2 --soft --tau 2", "--model lrnet: has no use for --soft, --tau"),
        ("--model lrnet --bits 2 --compile", "--model lrnet: has no use for --compile"),
        ("--model lrnet --bits 0", "model lrnet: bits 0: give a whole number from 1 to 8"),
        ("--model lrnet --bits 9", "model lrnet: bits 9: give a whole number from 1 to 8"),
        ("--model lrnet", "model lrnet: give the bits of its activations"),
        ("--bits 2", "bits 2: only activations of model lrnet have bits; model is blrnet"),
        ("--model fp --calibration 9", "--model fp: has no use for --calibration"),
        ("--model fp --recipe paper", "--model fp: has no use for --recipe paper"),
        ("--model bnn --weight-lr 0.1", "--model bnn: has no use for --weight-lr"),
        ("--model bnn --pretrain-lr 0.1", "--model bnn: has no use for --pretrain-lr"),
        ("--pretrain-epochs 0 --pretrain-lr 0.1", "--pretrain-epochs 0: has no use for --pretrain-lr"),
        ("--init xavier --pretrain-epochs 2", "--init xavier: has no use for --pretrain-epochs"),
        ("--init xavier --pretrain-lr 0.1", "--init xavier: has no use for --pretrain-lr"),
    ],
)
def test_options_without_effect_are_refused(options: str, complaint: str, calls: list[tuple[Any, ...]]) -> None:
    result = CliRunner().invoke(main, ["train", "mnist", "-o", "m.pt", *options.split()])
    assert result.exit_code == 2 and complaint in result.output and not calls


def test_a_finished_run_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--resume in a loop (`until ...; do`) must not begin again, or destroy what is there."""
    (tmp_path / "m.pt").write_bytes(b"a network")
    result = CliRunner().invoke(main, ["train", "mnist", "-o", str(tmp_path / "m.pt"), "--resume"])
    assert result.exit_code == 0 and "m.pt: this run is finished; without --resume" in result.output
    assert [file.name for file in tmp_path.iterdir()] == ["m.pt"]
    assert (tmp_path / "m.pt").read_bytes() == b"a network"


def test_a_baseline_takes_the_options_that_it_uses(calls: list[tuple[Any, ...]]) -> None:
    CliRunner().invoke(main, ["train", "mnist", "-o", "m.pt", "--model", "bnn", "--lr", "0.1", "--epochs", "2"])
    CliRunner().invoke(main, ["train", "mnist", "-o", "m.pt", "--model", "fp", "--pretrain-lr", "0.1", "--shifts", "1"])
    assert [call[2] for call in calls] == [
        Recipe(model="bnn", lr=0.1, epochs=2),
        Recipe(model="fp", pretrain_lr=0.1, shifts=1),
    ]

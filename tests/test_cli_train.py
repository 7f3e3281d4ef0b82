"""``blrc train``: options reach the recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch import nn

from blrc import cli_train
from blrc.train import RECIPES, Recipe, Trained


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def train_mnist(*args: Any, threads: int) -> Trained:
        calls.append((*args, threads))
        return Trained(nn.Sequential(), {"fp": [0.999], "blrnet": [0.97, 0.9912, 0.98]})

    monkeypatch.setattr(cli_train, "train_mnist", train_mnist)
    return calls


def test_the_defaults_are_the_recipe_s(calls: list[tuple[Any, ...]]) -> None:
    result = CliRunner().invoke(cli_train.train, ["mnist", "-o", "mnist.pt"])
    assert result.exit_code == 0 and result.output == "mnist.pt: MAP accuracy 99.12 % on the validation set\n"
    assert calls == [(Path("mnist.pt"), None, Recipe(), False, 1)]


def test_every_option_arrives(calls: list[tuple[Any, ...]]) -> None:
    options = "--data d --seed 3 --epochs 4 --pretrain-epochs 5 --batch 6 --lr 0.7 --weight-lr 0.8 --soft "
    options += "--tau 0.9 --threads 2 --shifts 1 --distillation 0.25"
    CliRunner().invoke(cli_train.train, ["mnist", "-o", "m.pt", *options.split(), "--objective", "bound", "--resume"])
    recipe = Recipe(
        3, 4, 5, 6, weight_lr=0.8, lr=0.7, objective="bound", hard=False, tau=0.9, shifts=1, distillation=0.25
    )
    assert calls == [(Path("m.pt"), Path("d"), recipe, True, 2)]


def test_a_recipe_by_name_and_an_option_of_its_own(calls: list[tuple[Any, ...]]) -> None:
    CliRunner().invoke(cli_train.train, ["mnist", "-o", "m.pt", "--recipe", "distilled", "--epochs", "4"])
    assert calls[0][2] == Recipe(**{**RECIPES["distilled"], "epochs": 4})
    assert calls[0][2].distillation > 0 and calls[0][2].shifts > 0


def test_output_is_required(calls: list[tuple[Any, ...]]) -> None:
    result = CliRunner().invoke(cli_train.train, ["mnist"])
    assert result.exit_code == 2 and "--output" in result.output and not calls

"""Options and schedules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blrc.errors import BlrcError
from blrc.training.recipe import RECIPES, Recipe, cosine, one_cycle, plateau


@given(st.floats(0, 1), st.floats(0, 1))
def test_cosine_falls_from_one_to_zero(a: float, b: float) -> None:
    assert cosine(0) == 1 and cosine(1) == pytest.approx(0, abs=1e-15) and cosine(0.5) == pytest.approx(0.5)
    low, high = sorted((a, b))
    assert cosine(low) >= cosine(high)


@given(st.floats(0, 1), st.floats(0, 1))
def test_one_cycle_rises_then_falls(a: float, b: float) -> None:
    assert one_cycle(0) == pytest.approx(1 / 25) and one_cycle(0.3) == 1 and one_cycle(1) == pytest.approx(0, abs=1e-15)
    assert one_cycle(0.3 - 1e-9) == pytest.approx(1, abs=1e-6)
    low, high = sorted((a, b))
    if high <= 0.3:
        assert one_cycle(low) <= one_cycle(high)
    elif low >= 0.3:
        assert one_cycle(low) >= one_cycle(high)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs 0: must be at least 1"),
        ({"pretrain_epochs": -1}, "pretrain_epochs -1"),
        ({"seed": -1}, "seed -1"),
        ({"batch": 1}, "batch 1: must be at least 2"),
        ({"validation": 0}, "validation 0"),
        ({"calibration": 1}, "calibration 1"),
        ({"lr": float("nan")}, "lr nan: must be finite"),
        ({"weight_lr": -0.1}, "weight_lr -0.1"),
        ({"variance_penalty": float("inf")}, "variance_penalty inf"),
        ({"objective": "elbo"}, "objective 'elbo': 'penalty' or 'bound'"),
        ({"tau": 0.0}, "tau 0.0"),
        ({"temperature": 0.0}, "temperature 0.0"),
        ({"shifts": -1}, "shifts -1"),
        ({"rotation": -1.0}, "rotation -1.0"),
        ({"zoom": 1.0}, "zoom 1.0"),
        ({"distillation": 1.5}, "distillation 1.5"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"distillation": 0.5, "pretrain_epochs": 0}, "needs a pretrained network"),
        ({"translate": -1}, "translate -1"),
        ({"schedule": "step"}, "schedule 'step': 'cosine' or 'plateau'"),
        ({"precision": "int8"}, "precision 'int8': 'float32' or 'bfloat16'"),
        ({"task": "svhn"}, "task 'svhn': 'mnist' or 'cifar10'"),
        ({"width": 0.5}, "width and whiten are CIFAR-10's"),
        ({"whiten": True}, "width and whiten are CIFAR-10's"),
        ({"task": "cifar10", "whiten": True, "zoom": 0.1}, "not whitened images"),
        ({"model": "qnn"}, "model 'qnn': 'blrnet' or 'lrnet' or 'bnn' or 'fp'"),
        ({"model": "lrnet"}, "model lrnet: give the bits of its activations, from 1 to 8"),
        ({"model": "lrnet", "bits": 0}, "model lrnet: bits 0: give a whole number from 1 to 8"),
        ({"model": "lrnet", "bits": 9}, "model lrnet: bits 9: give a whole number from 1 to 8"),
        ({"model": "blrnet", "bits": 2}, "bits 2: only activations of model lrnet have bits; model is blrnet"),
        ({"model": "bnn", "bits": 2}, "bits 2: only activations of model lrnet have bits; model is bnn"),
        ({"model": "lrnet", "bits": 2, "norm": False}, "steps .* leave out --no-norm"),
        ({"model": "lrnet", "bits": 2, "init": "xavier"}, "steps .* leave out --init xavier"),
        ({"model": "lrnet", "bits": 2, "pretrain_epochs": 0}, "steps .* leave out --pretrain-epochs 0"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        Recipe(**options)


@pytest.mark.parametrize(
    ("accuracies", "share"),
    [
        ([], 1.0),
        ([0.5, 0.4, 0.4], 1.0),
        ([0.5, 0.4, 0.5, 0.4], 0.1),  # equal is not better
        ([0.5, 0.4, 0.4, 0.6, 0.5, 0.5], 1.0),
        ([0.5, 0.4, 0.4, 0.4, 0.4, 0.4], 0.1),
        ([0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4], 0.01),
        ([0.5, 0.4, 0.4, 0.4, 0.6, 0.5, 0.5, 0.5], 0.01),
    ],
)
def test_a_plateau_of_three_epochs_lowers_the_rate(accuracies: list[float], share: float) -> None:
    assert plateau(accuracies) == pytest.approx(share)


def test_every_recipe_is_a_legal_one_of_its_task() -> None:
    assert {(task, name) for task, named in RECIPES.items() for name in named} == {
        (task, name) for task in ("mnist", "cifar10") for name in ("plain", "paper", "distilled")
    }
    assert all(Recipe(**own).task == task for task, named in RECIPES.items() for own in named.values())

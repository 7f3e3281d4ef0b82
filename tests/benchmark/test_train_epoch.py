"""The benchmark of training divides what it measured by the steps that it measured."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from blrc.datasets.idx import Dataset
from blrc.training.recipe import Recipe

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import train_epoch


@pytest.mark.parametrize("turn", [1, 3])
def test_a_step_costs_what_one_step_costs(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that counts the optimiser's steps, and 100 for the noise of each epoch."""
    count = (turn + 1) * train_epoch.BATCH
    data = Dataset(np.zeros((count, 1, 28, 28), np.uint8), np.zeros(count, np.uint8))
    each = train_epoch.trainee(Recipe(model="fp"), data)

    def steps() -> float:
        return max((float(state["step"]) for state in each.adam.state.values()), default=0.0)

    def counted(work: Callable[[], object]) -> tuple[float, float, int]:
        before = steps()
        work()
        return steps() - before + 100, 2 * (steps() - before), 0

    monkeypatch.setattr(train_epoch, "measured", counted)
    assert train_epoch.step(each, data) == (1.0, 2.0, 0.0)

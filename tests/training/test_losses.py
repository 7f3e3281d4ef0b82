"""The loss of a stochastic network, and what it leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from blrc.nn import BinaryLinear, StochasticSign, distributions
from blrc.training.recipe import Recipe
from blrc.training.stages.losses import stochastic_losses


@pytest.mark.parametrize("objective", ["penalty", "bound"])
def test_no_moments_stay_in_memory_after_a_step(objective: Any) -> None:
    model = nn.Sequential(BinaryLinear(4, 6), StochasticSign(1.0, True), nn.Linear(6, 3)).train()
    loss = stochastic_losses(Recipe(objective=objective, pretrain_epochs=0), {}, 10)
    loss(model, torch.randn(5, 4), torch.arange(5) % 3).backward()
    (weight,) = distributions(model)
    assert weight.logits.grad is not None and weight.logits.grad.abs().min() > 0
    assert [value for value in vars(weight).values() if isinstance(value, tuple | torch.Tensor)] == []

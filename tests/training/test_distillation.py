import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import models
from blrc.training.recipe import RECIPES, Recipe
from blrc.training.stages.losses import distillation
from blrc.training.stages.networks import real


class Fixed(nn.Module):
    def __init__(self, logits: list[list[float]]) -> None:
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, _: torch.Tensor) -> torch.Tensor:
        return self.logits


def softmax(row: list[float], temperature: float) -> list[float]:
    powers = [math.exp(x / temperature) for x in row]
    return [p / sum(powers) for p in powers]


def test_loss_is_the_formula() -> None:
    student, teacher, labels = [[1.0, -0.5, 2.0], [0.3, 0.2, 0.1]], [[2.0, 0.0, 1.0], [-1.0, 4.0, 0.0]], [2, 1]
    recipe = Recipe(distillation=0.7, temperature=3.0)
    expected = 0.0
    for s, t, label in zip(student, teacher, labels, strict=True):
        soft = softmax(t, 3.0)
        divergence = sum(p * math.log(p / q) for p, q in zip(soft, softmax(s, 3.0), strict=True))
        expected += (0.3 * -math.log(softmax(s, 1.0)[label]) + 0.7 * 9 * divergence) / 2
    loss = distillation(recipe, Fixed(teacher))(Fixed(student), torch.zeros(2, 1), torch.tensor(labels))
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_dropout_leaves_the_names_of_tensors() -> None:
    plain, dropped = models.mnist("fp"), real(Recipe(dropout=0.2))
    assert plain.state_dict().keys() == dropped.state_dict().keys()
    assert sum(isinstance(m, nn.Dropout) for m in dropped) == 2
    assert not any(isinstance(m, nn.Dropout) for m in real(Recipe()))


def test_recipes_are_legal_and_plain_is_the_default() -> None:
    built = {name: Recipe(**changes) for name, changes in RECIPES["mnist"].items()}
    assert built["plain"] == Recipe()
    assert built["distilled"].distillation > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distillation": 1.5}, "at most 1"),
        ({"distillation": 0.5, "pretrain_epochs": 0}, "needs a pretrained network"),
        ({"dropout": 1.0}, "below 1"),
        ({"temperature": 0.0}, "must be positive"),
        ({"shifts": -1}, "at least 0"),
    ],
)
def test_bad_options(change: dict[str, float], message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        replace(Recipe(), **change)

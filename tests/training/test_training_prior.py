"""Priors as a user writes them, and in the objective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import blrc
from blrc.errors import BlrcError
from blrc.frontend.weights.prior import parse_prior, prior_of
from blrc.nn import BinaryLinear, StochasticSign, divergence
from blrc.training.recipe import Recipe
from blrc.training.stages.losses import stochastic_losses


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("0.3", 0.3),
        (0.25, 0.25),
        ("conv1=0.3, dense=1e-3", {"conv1": 0.3, "dense": 1e-3}),
        ({"conv1": "0.3"}, {"conv1": 0.3}),
        ("a=b=0.5", {"a=b": 0.5}),
    ],
)
def test_priors_are_read(given: Any, found: Any) -> None:
    assert parse_prior(given) == found


@pytest.mark.parametrize(
    "bad", ["0", "1", "-0.5", "nan", "x", "", "a=1", "a=", "=0.5", "a=0.5,0.5", "a=0.1,a=0.2", None, True, 2]
)
def test_other_priors_are_refused_in_one_line(bad: Any) -> None:
    with pytest.raises(BlrcError, match=r"^prior") as caught:
        parse_prior(bad)
    assert "\n" not in str(caught.value)


def test_layers_have_the_prior_of_their_name() -> None:
    assert prior_of({"b": 0.2}, ["a", "b"]) == {"a": 0.5, "b": 0.2}
    assert prior_of(0.3, ["a", "b"]) == {"a": 0.3, "b": 0.3}
    with pytest.raises(BlrcError, match=r"net\.pt: prior: no layer 'c' has binary weights; those that have are a, b"):
        prior_of({"c": 0.2}, ["a", "b"], "net.pt: prior")


def test_the_bound_is_the_fit_and_the_divergence() -> None:
    model = nn.Sequential(BinaryLinear(4, 6), StochasticSign(1.0, True), nn.Linear(6, 3)).eval()
    x, labels = torch.randn(5, 4), torch.arange(5) % 3
    recipe = Recipe(objective="bound", prior={"0": 0.2}, pretrain_epochs=0)
    torch.manual_seed(3)
    found = stochastic_losses(recipe, {}, 10)(model, x, labels)
    torch.manual_seed(3)
    wanted = F.cross_entropy(model(x), labels) + divergence(model, {"0": 0.2}) / 10
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_a_prior_without_the_bound_has_no_effect_and_is_refused() -> None:
    assert Recipe().idle["prior"] == "objective" and "prior" not in Recipe(objective="bound").idle
    assert Recipe(model="bnn").idle["prior"] == "model"
    with pytest.raises(BlrcError, match="prior 1: the probability"):
        Recipe(prior=1)


def test_a_prior_of_no_layer_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(
        BlrcError, match="prior: no layer 'conv9' has random weights; those that have are conv1, conv2, dense"
    ):
        blrc.train("mnist", output=tmp_path / "m.pt", data=tmp_path / "none", objective="bound", prior="conv9=0.3")
    assert not list(tmp_path.glob("*.pt*"))

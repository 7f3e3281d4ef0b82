"""Build the networks of a recipe, new or from earlier stages, and their parameter groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import nn

from blrc.nn import (
    SoftmaxLinear,
    SteConv2d,
    SteLinear,
    StochasticSign,
    WeightDistribution,
    glorot_scale,
    models,
    restrain,
)
from blrc.training.recipe import Recipe
from blrc.training.stages.stage import Tensors


def new(recipe: Recipe) -> nn.Sequential:
    """Return a new network of the recipe's flavour, in the form that its checkpoint holds."""
    return stochastic(recipe) if recipe.stochastic else named(recipe, recipe.model)


def named(recipe: Recipe, flavour: models.Flavour) -> nn.Sequential:
    """Return a new network of the recipe's task in the given flavour."""
    options: dict[str, Any] = {"norm": recipe.norm, **({"bits": recipe.bits} if flavour == "lrnet" else {})}
    options |= {"weights": recipe.weights} if flavour in ("blrnet", "lrnet") else {}
    if recipe.task == "mnist":
        return models.mnist(flavour, **options)
    return models.cifar10(flavour, width=recipe.width, **options)


def stochastic(recipe: Recipe) -> nn.Sequential:
    """Return a new stochastic network with the recipe's activations; an LR-net has yet to get its steps."""
    model = named(recipe, recipe.model)
    for name, module in model.named_children():
        if isinstance(module, StochasticSign):
            setattr(model, name, StochasticSign(recipe.tau, recipe.hard))
    return model


def real(recipe: Recipe) -> nn.Sequential:
    """Return a new full-precision network with the recipe's dropout before its dense layers.

    The names of its tensors are the same as without dropout.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, module in named(recipe, "fp").named_children():
        if isinstance(module, nn.Linear) and recipe.dropout:
            layers[f"dropout_{name}"] = nn.Dropout(recipe.dropout)
        layers[name] = module
    return nn.Sequential(layers)


def pretrained(recipe: Recipe, results: Mapping[str, Tensors]) -> nn.Sequential:
    """Return the full-precision network of an earlier stage, in evaluation mode and without gradients."""
    model = named(recipe, "fp")
    model.load_state_dict(results["fp"])
    return model.eval().requires_grad_(False)


def binary_groups(model: nn.Module, weight_lr: float, lr: float, weight_decay: float) -> list[dict[str, Any]]:
    """Return a stochastic network's parameter groups: weights' logits, softmax layers (with weight decay), the rest."""
    logits = [p for m in model.modules() if isinstance(m, WeightDistribution) for p in m.parameters()]
    softmax = [p for m in model.modules() if isinstance(m, SoftmaxLinear) for p in m.parameters()]
    taken = set(map(id, logits + softmax))
    rest = [p for p in model.parameters() if id(p) not in taken]
    return [
        {"params": logits, "lr": weight_lr},
        {"params": softmax, "lr": lr, "weight_decay": weight_decay},
        {"params": rest, "lr": lr},
    ]


def straight_through_groups(model: nn.Module, lr: float) -> list[dict[str, Any]]:
    """Return a Binarized NN's parameter groups: the shadow weights of each layer, and the rest.

    The learning rate of the shadow weights is divided by the layer's Glorot coefficient.

    Source: Hubara et al. (2016), section 2.4 and their code.
    """
    layers = [m for m in model.modules() if isinstance(m, SteConv2d | SteLinear)]
    taken = {id(layer.weight) for layer in layers}
    rest = [p for p in model.parameters() if id(p) not in taken]
    return [
        *({"params": [layer.weight], "lr": lr / glorot_scale(layer)} for layer in layers),
        {"params": rest, "lr": lr},
    ]


def restrain_at(model: nn.Module, recipe: Recipe, progress: float) -> None:
    """Set the variance of the weights and the temperature of the activations for a point of the restart stage.

    The variance is multiplied by kappa. It is 1 until 30 % of the stage, falls log-linearly until 90 %, and is then
    `recipe.restart_spread`. The temperature is the recipe's tau times kappa^(-1/2).

    Args:
        model: the network.
        recipe: options of the run.
        progress: share of the stage's steps that are done, in [0, 1].
    """
    kappa = recipe.restart_spread ** min(max((progress - 0.3) / 0.6, 0.0), 1.0)
    restrain(model, kappa)
    for module in model.modules():
        if isinstance(module, StochasticSign):
            module.tau = recipe.tau * kappa**-0.5

"""Define the objectives of training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from blrc.nn import divergence, shared_moments, squared_hinge, variance_regulariser
from blrc.training.recipe import Recipe
from blrc.training.stages import networks
from blrc.training.stages.stage import Loss, Tensors


def cross_entropy(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy in nats."""
    return F.cross_entropy(model(inputs), labels)


def squared_hinge_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of a Binarized NN, the squared hinge with targets +-1."""
    return squared_hinge(model(inputs), labels)


def stochastic_losses(
    recipe: Recipe, results: Mapping[str, Tensors], samples: int, device: torch.device | str = "cpu"
) -> Loss:
    """Return the loss of a stochastic network: the fit to the labels, and the variance of the weights or their KL.

    Args:
        recipe: options of the run.
        results: tensors of earlier stages by name. Distillation takes its soft labels from ``fp``.
        samples: N, the number of training samples. The variational bound divides the divergence by it.
        device: device of the network.

    Source: paper, sections 3 and 4.4.
    """
    fit: Loss = cross_entropy
    if recipe.distillation:
        fit = distillation(recipe, networks.pretrained(recipe, results).to(device))

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        if recipe.objective == "bound":
            return fit(model, inputs, labels) + divergence(model, recipe.prior) / samples
        with shared_moments(model):
            return fit(model, inputs, labels) + recipe.variance_penalty * variance_regulariser(model)

    return loss


def distillation(recipe: Recipe, teacher: nn.Module) -> Loss:
    """Return the loss ``(1 - d) cross entropy + d T^2 KL(teacher || network)``.

    The weight d is the recipe's `distillation`, and the divergence is that of the outputs softened by temperature T.
    """
    share, temperature = recipe.distillation, recipe.temperature

    def loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        logits = model(inputs)
        with torch.no_grad():
            soft = F.log_softmax(teacher(inputs) / temperature, 1)
        divergence = F.kl_div(F.log_softmax(logits / temperature, 1), soft, reduction="batchmean", log_target=True)
        return (1 - share) * F.cross_entropy(logits, labels) + share * temperature**2 * divergence

    return loss

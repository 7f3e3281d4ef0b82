"""Build the stages of a recipe: full-precision pretraining, the binary network and its restart; or a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from blrc.datasets.idx import Dataset
from blrc.net.encoding import InputEncoding
from blrc.nn import choose_steps_, clip_, deterministic, multiply_signs_in, reestimate, reuse_noise, transfer_, xavier_
from blrc.training.recipe import Recipe, constant, cosine, one_cycle, plateau, warm_cosine
from blrc.training.seeds import derived_seed
from blrc.training.stages import networks
from blrc.training.stages.augment import augmentation
from blrc.training.stages.losses import cross_entropy, squared_hinge_loss, stochastic_losses
from blrc.training.stages.stage import LIKELIHOOD, Stage, Tensors, accuracy, log_likelihood

REESTIMATION = 1_280  # samples for the norm statistics in validation: ten batches, although five would do
CALIBRATION_STREAM = 1_000  # "stage" numbers of seeds that no stage uses


def best_stage(recipe: Recipe, merits: Mapping[str, Sequence[float]]) -> str:
    """Return the stage whose best epoch on the validation set is the run's result. Ties go to the later stage.

    Args:
        recipe: options of the run.
        merits: what the best epoch has most of, for every epoch, by stage: accuracy, or likelihood.
    """
    candidates = [recipe.model, *(["restart"] if "restart" in merits else [])]
    return max(reversed(candidates), key=lambda name: max(merits[name]))


def stages_of(
    recipe: Recipe,
    training: Dataset,
    validation: Dataset,
    encoding: InputEncoding,
    device: torch.device | str = "cpu",
) -> list[Stage]:
    """Return the stages of a recipe.

    They are ``fp`` alone, ``bnn`` alone, or ``fp`` (where the recipe pretrains), ``blrnet`` or ``lrnet``, and
    ``restart`` (where it has restart epochs).
    """
    augment = augmentation(recipe, encoding)
    subset = training.images[choice(len(training), min(REESTIMATION, len(training)), recipe.seed)]
    statistics = torch.from_numpy(encoding.real(subset)).to(device)
    schedule, decay = (cosine, lambda _: 1.0) if recipe.schedule == "cosine" else (constant, plateau)

    def validate_real(model: nn.Module) -> float:
        return accuracy(model.eval(), validation, encoding)

    def validate_map(model: nn.Module) -> float:
        return accuracy(reestimate(deterministic(model.eval()), statistics), validation, encoding)

    def validate_likelihood(model: nn.Module) -> float:
        return log_likelihood(reestimate(deterministic(model.eval()), statistics), validation, encoding)

    def build_stochastic(results: Mapping[str, Tensors]) -> nn.Module:
        model = networks.stochastic(recipe)
        if recipe.init == "xavier":
            xavier_(model)
        elif "fp" in results:
            source = networks.pretrained(recipe, results)
            transfer_(model, source)
            if recipe.model == "lrnet":
                choose_steps_(model, source, statistics.to("cpu"))
        reuse_noise(model)
        return _ready(recipe, model)

    def build_restart(results: Mapping[str, Tensors]) -> nn.Module:
        model = networks.stochastic(recipe)
        model.load_state_dict(results[recipe.model])
        reuse_noise(model)
        return _ready(recipe, model)

    pretraining = Stage(
        "fp",
        recipe.epochs if recipe.model == "fp" else recipe.pretrain_epochs,
        lambda _: _channels_last(networks.real(recipe)),
        lambda model: [
            {"params": list(model.parameters()), "lr": recipe.pretrain_lr, "weight_decay": recipe.pretrain_decay}
        ],
        one_cycle,
        lambda _: cross_entropy,
        validate_real,
        augment,
        decoupled=True,
        compile=recipe.compile and recipe.model == "fp",  # on CPUs it costs more than it saves
    )
    if recipe.model == "fp":
        return [pretraining]
    if recipe.model == "bnn":
        return [
            Stage(
                "bnn",
                recipe.epochs,
                lambda _: _ready(recipe, networks.new(recipe)),
                lambda model: networks.straight_through_groups(model, recipe.lr),
                schedule,
                lambda _: squared_hinge_loss,
                validate_map,
                augment,
                decay=decay,
                finish=clip_,
                compile=recipe.compile,
            )
        ]
    levels = recipe.model == "lrnet"
    binary = Stage(
        recipe.model,
        recipe.epochs,
        build_stochastic,
        lambda model: networks.binary_groups(model, recipe.weight_lr, recipe.lr, recipe.weight_decay),
        schedule,
        lambda results: stochastic_losses(recipe, results, len(training), device),
        validate_map,
        augment,
        decay=decay,
        # An LR-net's accuracies are so close to each other that the best one comes from anywhere in the schedule.
        also={LIKELIHOOD: validate_likelihood} if levels else {"stochastic": validate_real},
        merit=LIKELIHOOD if levels else "validation",
        keep_last=levels,
        compile=recipe.compile,
    )
    restart = replace(
        binary,
        name="restart",
        epochs=recipe.restart_epochs,
        build=build_restart,
        groups=lambda model: networks.binary_groups(
            model, recipe.restart_weight_lr, recipe.restart_lr, recipe.weight_decay
        ),
        schedule=warm_cosine,
        decay=lambda _: 1.0,
        prepare=lambda model, progress: networks.restrain_at(model, recipe, progress),
    )
    return [*([pretraining] if recipe.pretrains else []), binary, *([restart] if recipe.restart_epochs else [])]


def _ready(recipe: Recipe, model: nn.Module) -> nn.Module:
    multiply_signs_in(model, torch.bfloat16 if recipe.precision == "bfloat16" else None)
    return _channels_last(model)


def _channels_last(model: nn.Module) -> nn.Module:
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return, unused-ignore]


def choice(samples: int, count: int, seed: int) -> Any:
    """Return the sorted indices of `count` random samples, which are the same for the same seed."""
    generator = np.random.default_rng(derived_seed(seed, CALIBRATION_STREAM, 0))
    return np.sort(generator.choice(samples, count, replace=False))

"""Define the command `blrc train`: parse, call, print."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from blrc.cli.ends import show
from blrc.cli.progress import Progress, spoken, warn
from blrc.cli.types import OUTPUT, PATH, PRIOR
from blrc.errors import BlrcError
from blrc.extras import require
from blrc.training.recipe import MODELS, RECIPES, WEIGHTS, Recipe

_DEFAULT = Recipe()
AGAIN = 75  # EX_TEMPFAIL of sysexits.h: run the same command again
Command = Callable[..., None]
Decorator = Callable[[Command], Command]


def _option(task: str, flag: str, name: str, kind: Any, text: str) -> Decorator:
    """Return an option of the recipe; a switch has no `kind`. If it is not given, the value of --recipe is kept."""
    return click.option(flag, name, type=kind, default=None, help=f"{text} {_defaults(task, name)}")


def _defaults(task: str, name: str) -> str:
    """Return the default of an option: plain's value, and the value of every recipe that has another."""
    values = {base: own.get(name, getattr(_DEFAULT, name)) for base, own in RECIPES[task].items()}
    others = {base: value for base, value in values.items() if base == "plain" or value != values["plain"]}
    return "[" + ", ".join(f"{base}: {value}" for base, value in others.items()) + "]"


def _options(task: str, files: str, *own: Decorator) -> Decorator:
    """Return a decorator that adds all options of a task's command."""

    def option(*args: Any) -> Decorator:
        return _option(task, *args)

    decorators: tuple[Decorator, ...] = (
        click.option("-o", "--output", type=OUTPUT, required=True, help="The checkpoint."),
        click.option("--data", type=PATH, help=f"Folder of {files}; by default downloaded to a cache."),
        click.option(
            "--recipe",
            "base",
            type=click.Choice(sorted(RECIPES[task])),
            default="plain",
            show_default=True,
            help="plain: nothing but the images; paper: with the paper's rates and soft samples; distilled: soft "
            "labels from a stronger network, a restart.",
        ),
        option(
            "--model",
            "model",
            click.Choice(MODELS),
            "blrnet: stochastic; lrnet: stochastic weights, activations of --bits; baselines: bnn, Binarized NN; fp, "
            "full precision.",
        ),
        click.option("--bits", type=int, help="Of the activations of --model lrnet, from 1 to 8; 2 suffice on MNIST."),
        option("--weights", "weights", click.Choice(WEIGHTS), "Random ones: binary, -1 and +1, or ternary, 0 as well."),
        option("--seed", "seed", int, "Of all randomness."),
        option("--epochs", "epochs", int, "Of the network."),
        option("--pretrain-epochs", "pretrain_epochs", int, "Of the full-precision network that it starts from."),
        option("--batch", "batch", int, "Samples a step."),
        option("--lr", "lr", float, "Peak learning rate of the binary network."),
        option("--pretrain-lr", "pretrain_lr", float, "Peak rate of full precision, pretraining or --model fp."),
        option("--weight-lr", "weight_lr", float, "Peak rate of the binary weights' logits."),
        option("--schedule", "schedule", click.Choice(["cosine", "plateau"]), "How the binary network's rates fall."),
        option("--restart-epochs", "restart_epochs", int, "Train on for so many epochs with ever less variance."),
        option(
            "--init", "init", click.Choice(["transfer", "xavier"]), "Start from the pretrained network, or at random."
        ),
        option("--norm/--no-norm", "norm", None, "Norms behind the binary layers."),
        option("--hard/--soft", "hard", None, "Activations in training: +-1, or between."),
        option("--tau", "tau", float, "Temperature of the activations."),
        option(
            "--precision",
            "precision",
            click.Choice(["float32", "bfloat16"]),
            "Of products with +-1; bfloat16 is faster on CPUs with avx512_bf16 or amx_bf16.",
        ),
        option(
            "--compile/--no-compile",
            "compile",
            None,
            "Steps of blrnet by torch.compile, a fifth to a third less CPU time; baselines whole. "
            "Wants a C++ compiler.",
        ),
        *own,
        option("--distillation", "distillation", float, "Share of the loss that soft labels have."),
        option(
            "--objective",
            "objective",
            click.Choice(["penalty", "bound"]),
            "Cross entropy with a penalty on the weights' variance, or the variational bound.",
        ),
        option(
            "--prior",
            "prior",
            PRIOR,
            "Probability of a weight of +1 that the bound expects, of all layers or by name: conv1=0.3,dense=0.6.",
        ),
        click.option(
            "--threads",
            type=int,
            default=1,
            show_default=True,
            help="More are faster on idle cores and cost more CPU time; the result's last bits depend on their number.",
        ),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda"]),
            default="cpu",
            show_default=True,
            help="auto: a GPU where there is one.",
        ),
        click.option(
            "--minutes",
            type=float,
            default=math.inf,
            help="Stop before so many are over, after an epoch, with status 75 (torchrun: 1); --resume goes on.",
        ),
        option("--validation", "validation", int, "How many of the last training images choose the best epoch."),
        option("--calibration", "calibration", int, "Training samples in the checkpoint, for the norms' statistics."),
        click.option("--log", type=OUTPUT, help="Write a CSV file with a line an epoch."),
        click.option(
            "--resume",
            is_flag=True,
            help="Go on after the last finished epoch of a run that was stopped; a finished one is left as it is.",
        ),
    )

    def decorate(command: Command) -> Command:
        command = spoken(command)
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


@click.group()
def train() -> None:
    """Train one of the paper's networks and write its checkpoint."""


@train.command("mnist")
@_options(
    "mnist",
    "IDX files",
    _option("mnist", "--shifts", "shifts", int, "Move training images at random by up to so many pixels."),
    _option("mnist", "--rotation", "rotation", float, "Turn them at random by up to so many degrees."),
    _option("mnist", "--zoom", "zoom", float, "Stretch them at random by up to this share of their size."),
)
def mnist(**options: Any) -> None:
    """Train the MNIST network: full-precision pretraining, weight transfer, binary network; the best epoch is kept.

    After every epoch the run's state is saved beside the output. A run that was stopped goes on with --resume and
    ends as if it had not been.
    """
    _train("mnist", **options)


@train.command("cifar10")
@_options(
    "cifar10",
    "cifar-10-batches-bin or -py",
    _option("cifar10", "--width", "width", float, "Factor on the channels of every hidden layer: 1.0, 0.5, 0.25."),
    _option(
        "cifar10",
        "--whiten/--no-whiten",
        "whiten",
        None,
        "ZCA: the network takes whitened codes, the checkpoint holds the map.",
    ),
    _option("cifar10", "--translate", "translate", int, "Move training images at random by up to so many pixels."),
    _option("cifar10", "--flip/--no-flip", "flip", None, "Turn half of the training images left to right."),
)
def cifar10(**options: Any) -> None:
    """Train the CIFAR-10 network: full-precision pretraining, weight transfer, binary network; the best epoch is kept.

    After every epoch the run's state is saved beside the output. A run that was stopped goes on with --resume and
    ends as if it had not been.
    """
    _train("cifar10", **options)


def _train(
    task: str,
    output: Path,
    data: Path | None,
    base: str,
    resume: bool,
    threads: int,
    log: Path | None,
    device: str,
    minutes: float,
    **options: Any,
) -> None:
    require("torch", "blrc train")
    from blrc.training.loop import OutOfTimeError
    from blrc.training.run import FinishedError, run
    from blrc.training.state import state_file

    given = {name: value for name, value in options.items() if value is not None}
    recipe = Recipe(**{**RECIPES[task][base], **given})
    _refuse_idle(recipe, base, given)
    first = os.environ.get("RANK", "0") == "0"  # of several processes (torchrun) the first one speaks
    try:
        trained = run(
            output,
            data,
            recipe,
            resume,
            stream=Progress().stream,
            threads=threads,
            log=log,
            device=device,
            minutes=minutes,
        )
    except FinishedError as error:
        if first:
            show(str(error))
        return
    except OutOfTimeError as error:
        if first:
            warn(str(error))
        sys.exit(AGAIN)
    except KeyboardInterrupt:
        raise BlrcError(
            f"stopped; the same command with --resume goes on after the last finished epoch ({state_file(output)})"
        ) from None
    if not first:
        return
    what = "MAP accuracy" if recipe.stochastic else "accuracy"
    show(f"{output}: {what} {100 * trained.accuracy:.2f} % on the validation set")


def _refuse_idle(recipe: Recipe, base: str, given: Mapping[str, Any]) -> None:
    """Refuse options that have no effect together with the others, named as they were typed."""
    idle = recipe.idle
    useless = {_flag(name, value): idle[name] for name, value in given.items() if name in idle}
    named = RECIPES[recipe.task]
    brings = [name for name, value in named[base].items() if named["plain"].get(name, getattr(_DEFAULT, name)) != value]
    if brings and idle.keys() >= set(brings):
        useless[f"--recipe {base}"] = idle[brings[0]]
    if useless:
        reason = min(useless.values())  # one at a time
        flags = ", ".join(sorted(flag for flag, because in useless.items() if because == reason))
        value = getattr(recipe, reason)
        raise BlrcError(f"{_flag(reason, value)} {value}: has no use for {flags}; leave that out")


def _flag(name: str, value: Any) -> str:
    """Return an option as it is typed for a value."""
    option = next(param for param in click.get_current_context().command.params if param.name == name)
    return (option.secondary_opts if value is False else option.opts)[0]

"""``blrc train``: parse, call, print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from blrc.errors import BlrcError
from blrc.train import RECIPES, Recipe, best_stage, train_mnist
from blrc.train.state import state_file

_DEFAULT = Recipe()
# Options that change nothing in a baseline: given, they are a mistake.
_STOCHASTIC = {"weight_lr", "tau", "hard", "objective", "init", "pretrain_epochs"}
_IDLE = {"blrnet": set[str](), "bnn": _STOCHASTIC | {"pretrain_lr"}, "fp": _STOCHASTIC | {"lr"}}
F = TypeVar("F", bound=Callable[..., Any])


def _option(flag: str, name: str, kind: Any, text: str) -> Callable[[F], F]:
    """An option of the recipe. Without a value of its own it keeps what --recipe says."""
    return click.option(flag, name, type=kind, default=None, help=f"{text} {_defaults(name)}")


def _defaults(name: str) -> str:
    """What an option is where it is not given: plain's value, and that of every recipe with another."""
    values = {"plain": getattr(_DEFAULT, name), **{base: own[name] for base, own in RECIPES.items() if name in own}}
    return "[" + ", ".join(f"{base}: {value}" for base, value in values.items()) + "]"


@click.group()
def train() -> None:
    """Train one of the paper's networks and write its checkpoint."""


@train.command("mnist")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The checkpoint.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of IDX files; by default downloaded to a cache.")
@click.option(
    "--recipe",
    "base",
    type=click.Choice(sorted(RECIPES)),
    default="plain",
    show_default=True,
    help="plain: nothing but the images; distilled: altered images, soft labels from a stronger network, a restart.",
)
@_option(
    "--model",
    "model",
    click.Choice(["blrnet", "bnn", "fp"]),
    "blrnet: stochastic; baselines: bnn, Binarized NN; fp, full precision.",
)
@_option("--seed", "seed", int, "Of all randomness.")
@_option("--epochs", "epochs", int, "Of the network.")
@_option("--pretrain-epochs", "pretrain_epochs", int, "Of the full-precision network that it starts from.")
@_option("--batch", "batch", int, "Samples a step.")
@_option("--lr", "lr", float, "Peak learning rate of the binary network.")
@_option("--pretrain-lr", "pretrain_lr", float, "Peak learning rate of full precision, pretraining or --model fp.")
@_option("--weight-lr", "weight_lr", float, "The same for the binary weights.")
@_option("--restart-epochs", "restart_epochs", int, "Train on for so many epochs with ever less variance.")
@_option("--init", "init", click.Choice(["transfer", "xavier"]), "Start from the pretrained network, or at random.")
@click.option("--norm/--no-norm", default=None, help="Batch norms behind the binary layers. [plain: norm]")
@click.option("--hard/--soft", default=None, help="Activations in training: +-1, or between. [plain: hard]")
@_option("--tau", "tau", float, "Temperature of the activations.")
@_option("--shifts", "shifts", int, "Move training images at random by up to so many pixels.")
@_option("--rotation", "rotation", float, "Turn them at random by up to so many degrees.")
@_option("--zoom", "zoom", float, "Stretch them at random by up to this share of their size.")
@_option("--distillation", "distillation", float, "Share of the loss that soft labels have.")
@_option(
    "--objective",
    "objective",
    click.Choice(["penalty", "bound"]),
    "Cross entropy with a penalty on the weights' variance, or the variational bound.",
)
@click.option(
    "--threads",
    type=int,
    default=1,
    show_default=True,
    help="More are faster on idle cores and cost more CPU time; the result's last bits depend on their number.",
)
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="Write a CSV file with a line an epoch.")
@click.option("--resume", is_flag=True, help="Go on after the last finished epoch of a run that was stopped.")
def mnist(
    output: Path, data: Path | None, base: str, resume: bool, threads: int, log: Path | None, **options: Any
) -> None:
    """Train the MNIST network: full-precision pretraining, weight transfer, binary network; the best epoch is kept.

    After every epoch the run's state is saved beside the output. A run that was stopped goes on with --resume and
    ends as if it had not been.
    """
    given = {name: value for name, value in options.items() if value is not None}
    idle = sorted(set(given) & _IDLE[given.get("model", _DEFAULT.model)])
    if idle:
        flags = ", ".join(name.replace("_", "-") for name in idle)
        raise BlrcError(f"--model {given['model']}: has no use for {flags}; leave that out")
    recipe = Recipe(**{**RECIPES[base], **given})
    try:
        trained = train_mnist(output, data, recipe, resume, threads=threads, log=log)
    except KeyboardInterrupt:
        raise BlrcError(
            f"stopped; the same command with --resume goes on after the last finished epoch ({state_file(output)})"
        ) from None
    best = max(trained.accuracies[best_stage(recipe, trained.accuracies)])
    what = "MAP accuracy" if recipe.model == "blrnet" else "accuracy"
    click.echo(f"{output}: {what} {100 * best:.2f} % on the validation set")

"""``blrc train``: parse, call, print."""

from __future__ import annotations

from pathlib import Path

import click

from blrc.train import Recipe, train_mnist

_DEFAULT = Recipe()


@click.group()
def train() -> None:
    """Train one of the paper's networks and write its checkpoint."""


@train.command("mnist")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The checkpoint.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of IDX files; by default downloaded to a cache.")
@click.option("--seed", type=int, default=_DEFAULT.seed, show_default=True)
@click.option("--epochs", type=int, default=_DEFAULT.epochs, show_default=True, help="Of the binary network.")
@click.option(
    "--pretrain-epochs",
    type=int,
    default=_DEFAULT.pretrain_epochs,
    show_default=True,
    help="Of the full-precision network that it starts from.",
)
@click.option("--batch", type=int, default=_DEFAULT.batch, show_default=True, help="Samples a step.")
@click.option("--lr", type=float, default=_DEFAULT.lr, show_default=True, help="Peak learning rate.")
@click.option(
    "--weight-lr", type=float, default=_DEFAULT.weight_lr, show_default=True, help="The same for the binary weights."
)
@click.option(
    "--hard/--soft", default=_DEFAULT.hard, show_default=True, help="Activations in training: +-1, or between."
)
@click.option("--tau", type=float, default=_DEFAULT.tau, show_default=True, help="Temperature of the activations.")
@click.option(
    "--objective",
    type=click.Choice(["penalty", "bound"]),
    default=_DEFAULT.objective,
    show_default=True,
    help="Cross entropy with a penalty on the weights' variance, or the variational bound.",
)
@click.option("--resume", is_flag=True, help="Go on after the last finished epoch of a run that was stopped.")
def mnist(output: Path, data: Path | None, resume: bool, **options: object) -> None:
    """Train the MNIST network: full-precision pretraining, weight transfer, binary network; the best epoch is kept.

    After every epoch the run's state is saved beside the output. A run that was stopped, however, goes on with --resume
    and ends as if it had not been.
    """
    trained = train_mnist(output, data, Recipe(**options), resume)  # type: ignore[arg-type]
    best = max(trained.accuracies["blrnet"])
    click.echo(f"{output}: MAP accuracy {100 * best:.2f} % on the validation set")

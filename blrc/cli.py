"""The command line: parse, call, print; no logic."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from blrc.cli_export import export
from blrc.cli_progress import Changes, Steps, share_cores
from blrc.errors import BlrcError
from blrc.version import VERSION


class Mistake(click.ClickException):
    """A user's mistake, as click prints it."""

    exit_code = 2  # 1 is for what was checked and differs


class Group(click.Group):
    """Prints a user's mistake as one line and exits with status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BlrcError as error:
            raise Mistake(str(error)) from None


class TrainGroup(click.Group):
    """Loads the training commands when they are used: they import torch, which takes seconds."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from blrc.cli_train import train

        return train.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from blrc.cli_train import train

        return train.get_command(ctx, cmd_name)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="blrc")
def main() -> None:
    """Train probabilistic binary neural networks and compile them to bit-exact ONNX and C."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder of MNIST or CIFAR-10, or an .npz of images and labels."
)
@click.option(
    "--checkpoint", "model", type=click.Path(path_type=Path), help="Lower it again and compare; measure torch."
)
@click.option(
    "--random", type=click.IntRange(min=0), help="Number of random inputs [default: 10,000, fewer for large nets]."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random inputs.")
@click.option("--on", help="Run the C on other machines in emulators: MACHINE,MACHINE, or all.")
@click.option(
    "--strict", is_flag=True, help="With --on: a machine that could not be checked (tools, room) is an error."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(
    folder: Path,
    data: Path | None,
    model: Path | None,
    random: int | None,
    seed: int,
    on: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Compare an export with the reference, at every layer; exit status 0 only if all is equal."""
    share_cores()
    from blrc import api
    from blrc.verification.report import to_plain, to_text

    report = api.verify(folder, data, model, random, seed, Changes(), on, strict)
    click.echo(json.dumps(to_plain(report), indent=2) if as_json else to_text(report))
    sys.exit(0 if report.equal else 1)


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(model: Path, as_json: bool) -> None:
    """Show what a checkpoint becomes: for each layer its shapes, certainty, bits, flash, RAM and operations."""
    from blrc import checkpoint
    from blrc.inspect_report import to_plain, to_text
    from blrc.inspection import inspect as inspect_all

    found = inspect_all(checkpoint.load(model))
    click.echo(json.dumps(to_plain(found), indent=2) if as_json else to_text(found))


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--on", help="Count instructions on other machines in emulators instead: MACHINE,MACHINE, or all.")
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Everything that is timed has its turn in each [default: 15]."
)
@click.option("--no-others", is_flag=True, help="Leave out what other choices of blrc export would have cost.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw them into this SVG file.")
def bench(
    model: Path, on: str | None, rounds: int | None, no_others: bool, json_file: Path | None, plot: Path | None
) -> None:
    """Time an exported folder or a checkpoint, layer by layer, beside ONNX Runtime and PyTorch."""
    share_cores()
    from blrc.bench.run import bench as measure
    from blrc.bench.text import to_text

    click.echo(to_text(measure(model, on, rounds, not no_others, json_file, plot, progress=Steps())))


@main.command("eval")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of MNIST or CIFAR-10, or an .npz of images and labels.",
)
@click.option(
    "--members",
    default="stochastic,map,2,5,16",
    show_default=True,
    help="What to evaluate: map, the stochastic network, numbers of members.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Draws of the members.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the first draw.")
@click.option("--sample", default="all", show_default=True, help="As for blrc export.")
@click.option("--freeze", default="0", show_default=True, help="As for blrc export.")
@click.option("--validation", is_flag=True, help="The last 5,000 training images of a folder, to choose by.")
@click.option("--cheap", is_flag=True, help="Cheap ensembles side by side: accuracy, tables, networks run.")
@click.option(
    "--baseline", "baselines", type=click.Path(path_type=Path), multiple=True, help="Another checkpoint, as map."
)
@click.option("--plots", type=click.Path(path_type=Path, file_okay=False), help="Write figures into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(model: Path, data: Path, as_json: bool, **options: Any) -> None:
    """Measure a checkpoint on labelled data: accuracy, likelihood, calibration, error against coverage."""
    share_cores()
    from blrc import api
    from blrc.eval_report import to_text

    plain = api.evaluate(model, data, progress=Steps(), **options)
    click.echo(json.dumps(plain, indent=2) if as_json else to_text(plain))


@main.group(cls=TrainGroup)
def train() -> None:
    """Train one of the paper's networks and write its checkpoint."""


main.add_command(export)

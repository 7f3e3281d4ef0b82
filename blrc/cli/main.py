"""The command line: parse, call, print; no logic."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from blrc.cli.ends import STATUSES, Group, show
from blrc.cli.export import export
from blrc.cli.paths import OUTPUT, PATH
from blrc.cli.progress import Changes, Steps, share_cores
from blrc.errors import DIFFERS, UNCHECKED, WELL
from blrc.version import VERSION


class TrainGroup(click.Group):
    """Loads the training commands when they are used: they import torch, which takes seconds."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from blrc.cli.train import train

        return train.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from blrc.cli.train import train

        return train.get_command(ctx, cmd_name)


def _of_folders(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that run what lies in an exported folder."""
    trust = "Compile and run the folder's own code, also that of another version of blrc."
    command = click.option("--trust-code", is_flag=True, help=trust)(command)
    return click.option("--digest", metavar="HEX", help="Accept only the program with this digest.")(command)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=STATUSES)
@click.version_option(VERSION, prog_name="blrc")
def main() -> None:
    """Train probabilistic binary neural networks and compile them to bit-exact ONNX and C."""


@main.command()
@click.argument("folder", type=PATH)
@click.option("--data", type=PATH, help="Folder of MNIST or CIFAR-10, or an .npz of images and labels.")
@click.option("--checkpoint", "model", type=PATH, help="Lower it again and compare; measure torch.")
@click.option(
    "--random", type=click.IntRange(min=0), help="Number of random inputs [default: 10,000, fewer for large nets]."
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True, help="Of the random inputs.")
@click.option("--on", help="Run the C on other machines in emulators: MACHINE,MACHINE, or all.")
@click.option(
    "--strict", is_flag=True, help="With --on: a machine that could not be checked (tools, room) is an error."
)
@_of_folders
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(
    folder: Path,
    data: Path | None,
    model: Path | None,
    random: int | None,
    seed: int,
    on: str | None,
    strict: bool,
    digest: str | None,
    trust_code: bool,
    as_json: bool,
) -> None:
    """Compare an export with the reference, at every layer.

    Exit status: 0 only if all is equal; 1 if something differs; 2 if nothing differs, but not everything could be
    checked (with --strict also where a machine's tools are missing, or it has no room for the test).
    """
    share_cores()
    from blrc.app import api
    from blrc.verification.report import to_plain, to_text

    report = api.verify(folder, data, model, random, seed, Changes(), on, strict, digest, trust_code)
    show(json.dumps(to_plain(report), indent=2) if as_json else to_text(report))
    sys.exit(WELL if report.equal else DIFFERS if report.differs else UNCHECKED)


@main.command()
@click.argument("model", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(model: Path, as_json: bool) -> None:
    """Show what a checkpoint becomes: for each layer its shapes, certainty, bits, flash, RAM and operations."""
    from blrc.frontend import checkpoint
    from blrc.inspection.inspection import inspect as inspect_all
    from blrc.inspection.report import to_plain, to_text

    found = inspect_all(checkpoint.load(model))
    show(json.dumps(to_plain(found), indent=2) if as_json else to_text(found))


@main.command()
@click.argument("model", type=PATH)
@click.option("--on", help="Count instructions on other machines in emulators instead: MACHINE,MACHINE, or all.")
@click.option(
    "--rounds", type=click.IntRange(1, 10_000), help="Everything that is timed has its turn in each [default: 15]."
)
@click.option("--no-others", is_flag=True, help="Leave out what other choices of blrc export would have cost.")
@click.option("--json", "json_file", type=OUTPUT, help="Write the figures here.")
@click.option("--plot", type=OUTPUT, help="Draw them into this SVG file.")
@_of_folders
def bench(model: Path, no_others: bool, **options: Any) -> None:
    """Time an exported folder or a checkpoint, layer by layer, beside ONNX Runtime and PyTorch."""
    share_cores()
    from blrc.benchmark.run import bench as measure
    from blrc.benchmark.show.text import to_text

    show(to_text(measure(model, others=not no_others, progress=Steps(), **options)))


@main.command("eval")
@click.argument("model", type=PATH)
@click.option(
    "--data",
    type=PATH,
    required=True,
    help="Folder of MNIST or CIFAR-10, or an .npz of images and labels.",
)
@click.option(
    "--members",
    default="stochastic,map,2,5,16",
    show_default=True,
    help="What to evaluate: map, the stochastic network, numbers of members.",
)
@click.option("--repeats", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Draws of the members.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the first draw.")
@click.option("--sample", default="all", show_default=True, help="As for blrc export.")
@click.option("--freeze", default="0", show_default=True, help="As for blrc export.")
@click.option("--validation", is_flag=True, help="The last 5,000 training images of a folder, to choose by.")
@click.option("--cheap", is_flag=True, help="Cheap ensembles side by side: accuracy, tables, networks run.")
@click.option("--baseline", "baselines", type=PATH, multiple=True, help="Another checkpoint, as map.")
@click.option("--plots", type=PATH, help="Write figures into this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(model: Path, data: Path, as_json: bool, **options: Any) -> None:
    """Measure a checkpoint on labelled data: accuracy, likelihood, calibration, error against coverage."""
    share_cores()
    from blrc.app import api

    plain = api.evaluate(model, data, progress=Steps(), **options)
    from blrc.evaluation.report import to_text  # it needs torch, and the line above says so where there is none

    show(json.dumps(plain, indent=2) if as_json else to_text(plain))


@main.group(cls=TrainGroup)
def train() -> None:
    """Train one of the paper's networks and write its checkpoint."""


main.add_command(export)

"""Define the command line: parse, call, print. No logic lives here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from blrc.cli.ends import STATUSES, Group, show
from blrc.cli.export import export
from blrc.cli.importing import import_
from blrc.cli.options import SEEDS, as_json, jobs, model_of, of_folders, raw_input, sampling
from blrc.cli.progress import Progress, coloured, share_cores, spoken
from blrc.cli.prune import prune
from blrc.cli.train import train
from blrc.cli.types import ENTRIES, MACHINES, MODEL, OUTPUT, PATH, PRIOR
from blrc.display import terminal_width
from blrc.errors import DIFFERS, UNCHECKED, WELL
from blrc.version import VERSION


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=STATUSES)
@click.version_option(VERSION, prog_name="blrc")
def main() -> None:
    """Train probabilistic binary neural networks and compile them to bit-exact ONNX and C."""


@main.command()
@click.argument("folder", type=PATH)
@click.option("--data", type=PATH, help="Folder of MNIST or CIFAR-10, or an .npz file of images and labels.")
@click.option("--checkpoint", "model", type=MODEL, help="Lower this checkpoint again and compare; measure torch.")
@click.option("--original", type=PATH, help="Run this ONNX file, which was imported, in ONNX Runtime and compare.")
@click.option(
    "--random", type=click.IntRange(min=0), help="Number of random inputs. [default: 10,000, fewer for large nets]"
)
@click.option("--seed", type=SEEDS, default=0, show_default=True, help="Random seed of the random inputs.")
@click.option("--on", type=MACHINES, help="Run the C on these machines in emulators, or on all.")
@click.option(
    "--strict", is_flag=True, help="Take a machine of --on that could not be checked (tools, room) for an error."
)
@of_folders
@jobs
@as_json
@spoken
def verify(folder: Path, as_json: bool, **options: Any) -> None:
    """Compare an export with the reference, at every layer.

    Exit status: 0 only if all is equal; 1 if something differs; 2 if nothing differs, but not everything could be
    checked (with --strict also where a machine's tools are missing, or it has no room for the test).
    """
    share_cores()
    import blrc
    from blrc.verification.report import to_plain

    report = blrc.verify(folder, progress=Progress(), **options)
    verdict = coloured(report.verdict, "green" if report.equal else "red", sys.stdout)
    show(json.dumps(to_plain(report), indent=2) if as_json else f"{str(report).removesuffix(report.verdict)}{verdict}")
    sys.exit(WELL if report.equal else DIFFERS if report.differs else UNCHECKED)


@main.command()
@click.argument("model", type=MODEL)
@click.option("--kl", is_flag=True, help="Show how far weights and channels are from their prior, too, at deciles.")
@click.option(
    "--prior", type=PRIOR, help="Probability of a weight of +1 for --kl, of all layers or by name. [default: 0.5]"
)
@raw_input
@as_json
@spoken
def inspect(model: Path, kl: bool, prior: Any, as_json: bool, **raw: Any) -> None:
    """Show what a checkpoint becomes: for each layer its shapes, certainty, bits, flash, RAM and operations.

    MODEL is the path of a checkpoint, or of an ONNX file to import, or - for standard input.
    """
    import blrc
    from blrc.inspection.report import to_plain, to_text

    found = blrc.inspect(model_of(model, **raw, say=Progress().say), kl=kl, prior=prior)
    show(json.dumps(to_plain(found), indent=2) if as_json else to_text(found, terminal_width()))


@main.command()
@click.argument("model", type=MODEL)
@click.option("--on", type=MACHINES, help="Count instructions on these machines in emulators, or on all, instead.")
@click.option(
    "--rounds",
    type=click.IntRange(1, 10_000),
    help="Number of rounds, in each of which everything that is timed has its turn. [default: 15]",
)
@click.option(
    "--others/--no-others", default=True, help="Measure what other choices of blrc export would have cost, or do not."
)
@click.option("--plot", type=OUTPUT, help="Draw the figures into this SVG file.")
@of_folders
@raw_input
@jobs
@as_json
@spoken
def bench(
    model: Path, as_json: bool, input: str | None, mean: Any, std: Any, scale: float | None, **options: Any
) -> None:
    """Time an exported folder, a checkpoint or an ONNX file, layer by layer, beside ONNX Runtime and PyTorch."""
    share_cores()
    import blrc
    from blrc.benchmark.show.text import to_text

    progress = Progress()
    found = blrc.bench(model_of(model, input, mean, std, scale, progress.say), progress=progress, **options)
    show(json.dumps(found, indent=2) if as_json else to_text(found, terminal_width()))


@main.command("eval")
@click.argument("model", type=MODEL)
@click.option(
    "--data", type=PATH, required=True, help="Folder of MNIST or CIFAR-10, or an .npz file of images and labels."
)
@click.option(
    "--members",
    type=ENTRIES,
    default="stochastic,map,2,5,16",
    show_default=True,
    help="What to evaluate: map, the stochastic network, and ensembles by their numbers of members.",
)
@click.option(
    "--repeats", type=click.IntRange(1, 10_000), default=1, show_default=True, help="How often the members are drawn."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Random seed of the first draw."
)
@sampling
@click.option("--validation", is_flag=True, help="Take the last 5,000 training images of a folder, to choose by.")
@click.option("--cheap", is_flag=True, help="Compare cheap ensembles: their accuracy, tables and networks run.")
@click.option("--baseline", "baselines", type=PATH, multiple=True, help="Evaluate another checkpoint too, as map.")
@click.option("--plots", type=PATH, help="Write figures into this folder.")
@click.option("--head", help="The head that the labels are for, of a network with several. [default: the first]")
@raw_input
@jobs
@as_json
@spoken
def evaluate(
    model: Path, as_json: bool, input: str | None, mean: Any, std: Any, scale: float | None, **options: Any
) -> None:
    """Measure a checkpoint on labelled data: accuracy, likelihood, calibration, error against coverage.

    MODEL is the path of a checkpoint, or of an ONNX file to import, or - for standard input.
    """
    share_cores()
    import blrc

    progress = Progress()
    found = blrc.evaluate(model_of(model, input, mean, std, scale, progress.say), progress=progress, **options)
    from blrc.evaluation.report import to_text  # it needs torch, and the line above says so where there is none

    show(json.dumps(found, indent=2) if as_json else to_text(found, terminal_width()))


main.add_command(export)
main.add_command(import_)
main.add_command(prune)
main.add_command(train)

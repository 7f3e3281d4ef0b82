"""The command line: parse, call, print; no logic."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from blrc.errors import BlrcError
from blrc.version import VERSION


class Group(click.Group):
    """Prints a user's mistake as one line and exits with status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BlrcError as error:
            raise click.ClickException(str(error)) from None


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
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--target", "targets", multiple=True, required=True, help="c, onnx or web; may be given several times.")
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option(
    "--package",
    "packages",
    multiple=True,
    help="The C as a library of cmake, arduino, platformio, zephyr or esp-idf, with an example; or none. "
    "May be given several times. [default: none]",
)
@click.option("--members", default="map", show_default=True, help="map: likeliest weights; or how many to sample.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of sampled members.")
@click.option(
    "--sample", default="all", show_default=True, help="all; conv: only convolutions; or LAYER,LAYER; others stay MAP."
)
@click.option("--freeze", default="0", show_default=True, help="Weights whose rarer sign is less likely stay MAP.")
@click.option("--gate", help="Run MAP first, and the members only where its top probability is below this.")
@click.option("--flash", help="Refuse C that takes more flash than this: bytes, or such as 256K.")
@click.option("--ram", help="Refuse C that takes more RAM, the caller's buffers and the stack included.")
@click.option(
    "--optimize",
    default="size",
    show_default=True,
    help="size; speed: more RAM and flash, at most --ram and --flash, for fewer instructions on CPUs that cannot count "
    "bits (Cortex-M; the M55 wants --cpu cortex-m55 too); or ram: more code for less RAM.",
)
@click.option(
    "--cpu",
    default="portable",
    show_default=True,
    help="portable; for hosts x86-64 (up to AVX-512) or aarch64 (NEON, sdot); or cortex-m55: vectors of 128 pixels "
    "with --optimize speed.",
)
@click.option(
    "--onnx-weights", default="bytes", show_default=True, help="bytes; or bits: a smaller file, unpacked when loaded."
)
@click.option("--name", help="Prefix of files and symbols [default: the checkpoint's file name].")
@click.option("--force", is_flag=True, help="Replace an earlier export in the folder.")
def export(
    model: Path,
    targets: tuple[str, ...],
    folder: Path,
    packages: tuple[str, ...],
    members: str,
    seed: int,
    sample: str,
    freeze: str,
    gate: str | None,
    flash: str | None,
    ram: str | None,
    optimize: str,
    cpu: str,
    onnx_weights: str,
    name: str | None,
    force: bool,
) -> None:
    """Compile a checkpoint to C, ONNX, or a page that runs it in a browser."""
    _share_cores()
    from blrc import api

    done = api.export(
        model,
        folder,
        targets,
        members,
        seed,
        name,
        force,
        _say,
        sample,
        freeze,
        gate,
        packages,
        flash,
        ram,
        optimize,
        cpu,
        onnx_weights,
    )
    click.echo(f"{folder}: {', '.join(done.manifest.targets)} of {model}, program {done.manifest.digest}")


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
    _share_cores()
    from blrc import api
    from blrc.verification.report import to_plain, to_text

    report = api.verify(folder, data, model, random, seed, _Changes(), on, strict)
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
    _share_cores()
    from blrc.bench.run import bench as measure
    from blrc.bench.text import to_text

    click.echo(to_text(measure(model, on, rounds, not no_others, json_file, plot, progress=_Steps())))


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
    _share_cores()
    from blrc import api
    from blrc.eval_report import to_text

    plain = api.evaluate(model, data, progress=_Steps(), **options)
    click.echo(json.dumps(plain, indent=2) if as_json else to_text(plain))


@main.group(cls=TrainGroup)
def train() -> None:
    """Train one of the paper's networks and write its checkpoint."""


def _share_cores() -> None:
    """Let threads that wait sleep (before torch is loaded): by default they spin, which on a machine that others use
    took 12 CPU seconds for an export that needs 5."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _say(what: str) -> None:
    click.echo(what, err=True)


class _Changes:
    """Progress of several tasks: in a log a line for the first and last of each, and where it says something new."""

    def __init__(self) -> None:
        self.said = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        _progress(what, done, total, every=what != self.said)
        self.said = what


class _Steps:
    """Progress of many steps: in a log a line for each tenth of them."""

    def __init__(self) -> None:
        self.said = -1

    def __call__(self, what: str, done: int, total: int) -> None:
        tenth = 10 * done // total
        if sys.stderr.isatty() or done == 0 or tenth != self.said:
            _progress(what, done, total, every=True)
        self.said = tenth


def _progress(what: str, done: int, total: int, every: bool = False) -> None:
    """Rewritten on a terminal; in a log the first and the last, or every one."""
    if sys.stderr.isatty():
        end = "\n" if done >= total else ""
        click.echo(f"\r\033[K{what}: {done:,} of {total:,}{end}", nl=False, err=True)
    elif every or done == 0 or done >= total:
        click.echo(f"{what}: {done:,} of {total:,}", err=True)

"""Define the command `blrc prune`: parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from blrc.cli.ends import show
from blrc.cli.options import as_json, jobs
from blrc.cli.progress import Progress, share_cores, spoken
from blrc.cli.types import BY, CHANNELS, MODEL, NAMES, OUTPUT, PATH, PRIOR
from blrc.display import terminal_width


@click.command()
@click.argument("model", type=MODEL)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The smaller checkpoint.")
@click.option(
    "--data",
    type=PATH,
    help="Validation images: the last 5,000 training images of a folder of MNIST or CIFAR-10, or an .npz file.",
)
@click.option("--loss", type=float, help="Points of accuracy that may be lost on them. [default: 0.2]")
@click.option(
    "--share", type=CHANNELS, help="Drop this share of each layer's channels instead, whatever it costs: 50%."
)
@click.option(
    "--by",
    type=BY,
    default="both",
    show_default=True,
    help="Weights that rank a channel: those that compute it, those that read it (columns of the next layer), or both.",
)
@click.option("--words", is_flag=True, help="Keep a multiple of 32 channels in each layer, which fill packed words.")
@click.option("--layers", type=NAMES, help="Layers whose channels may be dropped. [default: all]")
@click.option(
    "--prior",
    type=PRIOR,
    default="0.5",
    show_default=True,
    help="Probability of a weight of +1 that KL is measured from, of all layers or by name: conv1=0.3,dense=0.6.",
)
@click.option("--head", help="The head that the labels are for, of a network with several. [default: the first]")
@jobs
@as_json
@spoken
def prune(model: Path, as_json: bool, **options: Any) -> None:
    """Drop channels whose weights are close to their prior, and write a smaller, ordinary checkpoint.

    MODEL is the path of a checkpoint, or - for standard input. Norms are re-estimated; nothing is trained. A command
    that is stopped writes nothing.
    """
    share_cores()
    import blrc
    from blrc.pruning.report import to_plain, to_text

    found = blrc.prune(model, progress=Progress(), **options)
    show(json.dumps(to_plain(found), indent=2) if as_json else to_text(found, terminal_width()))

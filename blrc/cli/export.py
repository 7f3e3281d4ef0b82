"""Define the command `blrc export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import click

from blrc.cli.ends import show
from blrc.cli.options import as_json, jobs, model_of, raw_input, sampling
from blrc.cli.progress import Progress, share_cores, spoken
from blrc.cli.types import CPU, MEMBERS, MODEL, NORMS, OPTIMIZE, PACKAGE, PATH, ROUNDING, SHARE, SIZE, TARGET
from blrc.targets.requests import OnnxForm, OnnxOutputs, OnnxWeights


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--target",
    "targets",
    type=TARGET,
    multiple=True,
    required=True,
    help="What to write; may be given several times. onnx needs blrc[onnx], and web needs clang 19.",
)
@click.option("-o", "--output", "folder", type=PATH, required=True, help="Folder to write.")
@click.option(
    "--package",
    "packages",
    type=PACKAGE,
    multiple=True,
    help="Write the C as a library of this ecosystem as well, with an example; may be given several times. "
    "[default: none]",
)
@click.option(
    "--members",
    type=MEMBERS,
    default="map",
    show_default=True,
    help="map: one network with the likeliest weights; or the number of networks to sample for an ensemble.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed for sampling the members of an ensemble."
)
@sampling
@click.option(
    "--gate",
    type=SHARE,
    help="Run the network with the likeliest weights first, and the members only where its top probability is below "
    "this.",
)
@click.option(
    "--norms",
    type=NORMS,
    help="given: norms keep the statistics of training; estimated: they get those of the calibration samples. "
    "[default: given where no weight is random, else estimated]",
)
@click.option(
    "--rounding",
    type=ROUNDING,
    default="exact",
    show_default=True,
    help="What decides a bit where a value is almost 0: exact rational numbers, or float32, as frameworks compute.",
)
@click.option("--flash", type=SIZE, help="Refuse C that takes more flash than this: 262144, 256K or 0.5M.")
@click.option(
    "--ram", type=SIZE, help="Refuse C that takes more RAM than this, the caller's buffers and the stack included."
)
@click.option(
    "--optimize",
    type=OPTIMIZE,
    default="size",
    show_default=True,
    help="speed: take more RAM and flash, at most --ram and --flash, for fewer instructions on CPUs that cannot count "
    "bits (Cortex-M; the M55 wants --cpu cortex-m55 too); ram: take more code for less RAM.",
)
@click.option(
    "--cpu",
    type=CPU,
    default="portable",
    show_default=True,
    help="What the C is made for: any CPU; hosts with x86-64 (up to AVX-512) or aarch64 (NEON, sdot); cortex-m55, "
    "which computes 128 pixels at once with --optimize speed; or rv64gcv, whose vectors count bits.",
)
@click.option(
    "--onnx-weights",
    type=click.Choice(get_args(OnnxWeights)),
    default="bytes",
    show_default=True,
    help="How the ONNX file holds weights; bits make it smaller, and are unpacked when it is loaded.",
)
@click.option(
    "--onnx-outputs",
    type=click.Choice(get_args(OnnxOutputs)),
    help="Outputs of the ONNX file; scores leaves out the head and gives the scores of every member. "
    "[default: all; scores for the float form]",
)
@click.option(
    "--onnx-form",
    type=click.Choice(get_args(OnnxForm)),
    default="integer",
    show_default=True,
    help="float: use float32 for runtimes that lack integer operators (OpenCV, MNN), and give the scores only.",
)
@click.option("--name", help="Prefix of files and symbols. [default: the checkpoint's file name]")
@click.option("--license", help="Licence of the model, an SPDX expression. [default: unspecified]")
@click.option("--author", help="Author of the model. [default: unspecified]")
@click.option("--url", help="Web address of the model. [default: unspecified]")
@click.option(
    "--package-version", help="Version of the model, MAJOR.MINOR.PATCH. [default: 0.0.0 where packages need one]"
)
@click.option(
    "--force", is_flag=True, help="Replace an earlier export in the folder, or complete one that was interrupted."
)
@raw_input
@jobs
@as_json
@spoken
def export(
    model: Path, as_json: bool, input: str | None, mean: Any, std: Any, scale: float | None, **options: Any
) -> None:
    """Compile a checkpoint to C, ONNX, or a page that runs it in a browser.

    MODEL is the path of a checkpoint, or of an ONNX file to import, or - for standard input. At the end the sizes are
    shown.
    """
    share_cores()
    import blrc

    say = Progress().say
    done = blrc.export(model_of(model, input, mean, std, scale, say), say=say, **options)
    show(json.dumps(done.to_plain(), indent=2) if as_json else str(done))

"""The command `blrc export`."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from blrc.cli.ends import show
from blrc.cli.paths import PATH
from blrc.cli.progress import say, share_cores
from blrc.targets.onnx_options import OnnxForm, OnnxOutputs, OnnxWeights


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    help="c, onnx (needs blrc[onnx]) or web (needs clang 19); may be given several times.",
)
@click.option("-o", "--output", "folder", type=PATH, required=True, help="Folder to write.")
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
    "--onnx-weights",
    type=click.Choice(get_args(OnnxWeights)),
    default="bytes",
    show_default=True,
    help="bytes; or bits: a smaller file, unpacked when loaded.",
)
@click.option(
    "--onnx-outputs",
    type=click.Choice(get_args(OnnxOutputs)),
    help="all; or scores: without the head, of every member. [default: all; scores of the float form]",
)
@click.option(
    "--onnx-form",
    type=click.Choice(get_args(OnnxForm)),
    default="integer",
    show_default=True,
    help="integer; or float: float32, for runtimes that lack integer operators (OpenCV, MNN), the scores only.",
)
@click.option("--name", help="Prefix of files and symbols [default: the checkpoint's file name].")
@click.option(
    "--license", help="Of the model, for packages and the manifest: an SPDX expression. [default: unspecified]"
)
@click.option("--author", help="Of the model. [default: unspecified]")
@click.option("--url", help="Web address of the model. [default: unspecified]")
@click.option("--package-version", help="Of the model: MAJOR.MINOR.PATCH. [default: 0.0.0 where packages need one]")
@click.option(
    "--force", is_flag=True, help="Replace an earlier export in the folder, or complete one that was interrupted."
)
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
    license: str | None,
    author: str | None,
    url: str | None,
    package_version: str | None,
    onnx_outputs: str | None,
    onnx_form: str,
    name: str | None,
    force: bool,
) -> None:
    """Compile a checkpoint to C, ONNX, or a page that runs it in a browser."""
    share_cores()
    from blrc.app import api

    done = api.export(
        model,
        folder,
        targets,
        members,
        seed,
        name,
        force,
        say,
        sample,
        freeze,
        gate,
        packages,
        flash,
        ram,
        optimize,
        cpu,
        onnx_weights,
        license,
        author,
        url,
        package_version,
        onnx_outputs,
        onnx_form,
    )
    show(f"{folder}: {', '.join(done.manifest.targets)} of {model}, program {done.manifest.digest}")

"""Define the options that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blrc.cli.types import INPUT, NUMBERS, SHARE
from blrc.errors import BlrcError

if TYPE_CHECKING:
    from blrc.frontend.checkpoint import Checkpoint

Command = Callable[..., Any]
SEEDS = click.IntRange(0, 2**64 - 1)


def as_json(command: Command) -> Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


def raw_input(command: Command) -> Command:
    """Add the options that say what the raw input of an ONNX file is."""
    for option in reversed(
        (
            click.option("--input", type=INPUT, help="Raw input of an ONNX file that does not say it."),
            click.option("--mean", type=NUMBERS, help="Mean of pixels / 255, by channel or for all. [default: 0]"),
            click.option("--std", type=NUMBERS, help="Standard deviation of pixels / 255, likewise. [default: 1]"),
            click.option("--scale", type=float, help="Codes of int8 input per unit. [default: 1]"),
        )
    ):
        command = option(command)
    return command


def model_of(
    model: Path, input: str | None, mean: Any, std: Any, scale: float | None, say: Callable[[str], None]
) -> Path | Checkpoint:
    """Return the path of a checkpoint or a folder as it is, and import an ONNX file with the options of `raw_input`."""
    from blrc.app.import_onnx import SUFFIX, import_onnx

    if model.suffix == SUFFIX:
        return import_onnx(model, input=input, mean=mean, std=std, scale=scale, say=say)
    if any(value is not None for value in (input, mean, std, scale)):
        raise BlrcError(f"{model}: --input, --mean, --std, --scale are about ONNX files; a checkpoint knows")
    return model


def jobs(command: Command) -> Command:
    """Add --jobs, which holds for everything that the command does."""
    text = "Number of CPUs to share work among. [default: all that this process may use]"
    option = click.option(
        "--jobs", "-j", type=click.IntRange(1, 1024), expose_value=False, callback=_limit, metavar="N", help=text
    )
    return option(command)


def _limit(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        from blrc.workers import at_most

        ctx.with_resource(at_most(value))
        ctx.with_resource(_threads(value))


@contextmanager
def _threads(most: int) -> Iterator[None]:
    """Tell torch and ONNX Runtime, which are loaded later, how many threads to take."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, str(most)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def of_folders(command: Command) -> Command:
    """Add the options of commands that run what is in an exported folder."""
    trust = "Compile and run the folder's own code, even that of another version of blrc."
    command = click.option("--trust-code", is_flag=True, help=trust)(command)
    return click.option("--digest", metavar="HEX", help="Accept only the program with this digest.")(command)


def sampling(command: Command) -> Command:
    """Add the options that say what of a member is sampled."""
    freeze = "Keep a weight at its likeliest value where the others are less likely than this: 0 to 0.5."
    command = click.option("--freeze", type=SHARE, default="0", show_default=True, help=freeze)(command)
    return click.option(
        "--sample",
        metavar="all|conv|LAYER,...",
        default="all",
        show_default=True,
        help="Binary layers to sample: all of them, only the convolutions, or those that you name. The other layers "
        "keep their likeliest weights.",
    )(command)

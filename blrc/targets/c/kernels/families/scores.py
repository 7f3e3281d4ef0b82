"""Compute the scores of the last layer, with kernels that exist on every CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blrc.net.bits import words
from blrc.program.program import BinaryScores, Scores
from blrc.targets.c.kernels.kernel import (
    Arguments,
    Kernel,
    Laid,
    Number,
    Step,
    Task,
)
from blrc.targets.c.kernels.tables import plain


def _arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    size = (Number("pixels", height * width), Number("channels", channels), Number("classes", step.y.shape[2]))
    return [*size, "x", *tables, "y"]


def _of_weights(dtype: str) -> Kernel[Scores]:
    """Return the record of the kernel for weights of type `dtype`."""

    def lay(task: Task[Scores]) -> Laid:
        tables = plain(task.program, "weights", task.op.weights), plain(task.program, "bias", task.op.bias)
        return Laid(tables, f"{dtype} weights")

    return Kernel(
        f"scores_{dtype}",
        Scores,
        about="adds or subtracts weights, by the bits of the input",
        needs=f"scores with {dtype} weights",
        fits=lambda task: task.program.constants[task.op.weights].tables[0].dtype.name == dtype,
        cost=lambda task: task.op.macs,
        lay=lay,
        arguments=_arguments,
    )


def _lay_binary(task: Task[BinaryScores]) -> Laid:
    op = task.op
    names = ("weights", op.weights), ("multiplier", op.multiplier), ("bias", op.bias)
    tables = tuple(plain(task.program, role, name) for role, name in names)
    return Laid(tables, f"binary weights, {op.fan_in} inputs")


def _binary_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    op = step.op
    assert isinstance(op, BinaryScores)
    height, width, channels = op.x.shape
    run = (Number("inputs", op.fan_in), Number("words", height * width * words(channels)))
    return [*run, Number("classes", op.y.shape[2]), "x", *tables, "y"]


SCORES_BINARY = Kernel(
    "scores_binary",
    BinaryScores,
    about="counts bits, multiplies and adds for each class",
    needs="scores with binary weights",
    fits=lambda _: True,
    cost=lambda task: task.op.macs,
    lay=_lay_binary,
    arguments=_binary_arguments,
)
FAMILY: tuple[Kernel[Any], ...] = (_of_weights("int8"), _of_weights("int16"), SCORES_BINARY)

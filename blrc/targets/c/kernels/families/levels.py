"""Compute layers that write or read codes of several thresholds, with kernels that exist on every CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack
from blrc.program.ops.op import Value
from blrc.program.program import BinaryScores, Conv, Pool, Program, Scores
from blrc.targets.c.kernels import thresholds
from blrc.targets.c.kernels.families.codes import LOOKED_UP, code_rows, encoded, fused
from blrc.targets.c.kernels.families.words import ROWS, blocked, packed_words
from blrc.targets.c.kernels.kernel import Arguments, Kernel, Laid, Number, Step, Task, pixels
from blrc.targets.c.kernels.tables import mapped, paired, plain


def limit_bits(program: Program) -> int:
    """Return the bits (16 or 32) that hold every limit of the layers that write or read codes.

    A limit lies between the ends of twice the range of the sums. All layers have one width.
    """
    reach = [2 * program.bounds(op)[1] + 1 for op in program.ops if isinstance(op, Conv) and of_levels(op)]
    return 16 if all(most <= thresholds.INT16_MAX for most in reach) else 32


def of_levels(op: Conv) -> bool:
    """Return whether a convolution writes or reads codes of several thresholds."""
    return op.x.is_codes or op.y.is_codes


def bits_of(value: Value) -> int:
    """Return the bits of a value's codes; +-1 are written as codes of one bit."""
    return value.element.code_bits or 1


def _rows(op: Conv) -> int:
    """Return how many rows share a block of the weights: all rows of a group are in whole blocks."""
    return ROWS if op.groups == 1 or op.y.shape[2] // op.groups % ROWS == 0 else 1


def _planes(op: Conv) -> int:
    """Return how many runs of bits are counted for a sum: of +-1, the signs and those that are real."""
    return op.x.element.code_bits or 2


def _limits(task: Task[Conv], of_row: NDArray[np.int64], reached: NDArray[np.int32]) -> NDArray[Any]:
    """Return constant - threshold for each row and threshold."""
    table = of_row[:, None] - reached.reshape(len(reached), -1)
    return table.astype(np.int16 if limit_bits(task.program) == 16 else np.int32)


def _lay_planes(task: Task[Conv]) -> Laid:
    op, constants, rows = task.op, task.program.constants, _rows(task.op)

    def packed(table: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return blocked(pack(unpack(table, op.group_channels).reshape(len(table), -1)), rows)

    def limits(weights: NDArray[np.uint32], reached: NDArray[np.int32]) -> NDArray[Any]:
        ones = unpack(weights, op.group_channels).reshape(len(weights), -1).sum(1, dtype=np.int64)
        return _limits(task, ones * (op.x.element.high if op.x.is_codes else 1), reached)

    tables = (
        mapped("weights", constants[op.weights], packed),
        paired("limits", constants[op.weights], constants[op.thresholds], limits),
    )
    of = f"{bits_of(op.x)} planes" if op.x.is_codes else "bits and real taps"
    return Laid(tables, f"{packed_words(op)} words a row, {of}, {op.y.element.high} thresholds", rows)


def _lay_bytes(task: Task[Conv]) -> Laid:
    op, constants = task.op, task.program.constants
    rows = -(-op.y.shape[2] // op.groups // 8) * 8
    weights = mapped(
        "weights", constants[op.weights], lambda t: code_rows(t, op.group_channels, op.groups, max(8, rows))
    )
    zero = np.zeros(op.y.shape[2], np.int64)
    limits = mapped("limits", constants[op.thresholds], lambda t: _limits(task, zero, t))
    return encoded(task, (weights, limits), f"8-bit codes, {op.fan_in} a row, {op.y.element.high} thresholds")


def _plane_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    planes = Number("planes", step.op.x.element.code_bits)
    return [geometry, planes, Number("bits", bits_of(step.y)), "x", *tables, "scratch", "y"]


def _byte_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    source = ["0", Number("table_rows", 0)] if step.op.x.is_codes else fused(step, tables)
    return [geometry, Number("bits", bits_of(step.y)), "x", *source, *tables[-2:], "scratch", "y"]


def _pool_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    return [geometry, Number("bits", bits_of(step.y)), "x", "y"]


def _score_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    size = (Number("pixels", height * width), Number("channels", channels), Number("classes", step.y.shape[2]))
    return [*size, Number("bits", bits_of(step.x)), "x", *tables, "y"]


def _lay_scores(task: Task[Scores]) -> Laid:
    tables = plain(task.program, "weights", task.op.weights), plain(task.program, "bias", task.op.bias)
    return Laid(tables, f"int8 weights, codes of {bits_of(task.op.x)} bits")


def _lay_signs(task: Task[BinaryScores]) -> Laid:
    op = task.op
    names = ("weights", op.weights), ("multiplier", op.multiplier), ("bias", op.bias)
    tables = tuple(plain(task.program, role, name) for role, name in names)
    return Laid(tables, f"binary weights, {op.fan_in} codes of {bits_of(op.x)} bits")


CONV_PLANES = Kernel(
    "conv_planes",
    Conv,
    about="counts the bits of each plane of codes, or of +-1, and compares with several thresholds",
    needs="layers of codes of at most 4 bits, and layers of bits that write codes",
    fits=lambda task: task.op.x.element.planes > 0,
    cost=lambda task: task.cpu.counted * task.op.fan_in * task.op.y.shape[2] * pixels(task.op) * _planes(task.op),
    lay=_lay_planes,
    arguments=_plane_arguments,
    geometry="conv",
    levels=True,
    scratch=lambda task: (
        4 * packed_words(task.op) * _planes(task.op) * (1 if task.op.pool is None else task.op.pool.taps)
    ),
)
CONV_BYTES = Kernel(
    "conv_bytes",
    Conv,
    about="tabulates the sums of every four codes of 8 bits, looks them up, and compares with several thresholds",
    needs="layers of codes of more than 4 bits, and first layers that write codes",
    fits=lambda task: task.op.x.element.planes == 0,
    cost=lambda task: LOOKED_UP * task.op.fan_in * task.op.y.shape[2] * pixels(task.op),
    lay=_lay_bytes,
    arguments=_byte_arguments,
    geometry="conv",
    levels=True,
    scratch=lambda task: 4 * (-(-task.op.y.shape[2] // task.op.groups // 8) * 8) * (1 if task.op.pool is None else 2),
    buffers=lambda macros: 10 * macros["BLRC_CODES"],
    asks=lambda op: {"BLRC_CODES": op.fan_in},
)
POOL_LEVELS = Kernel(
    "pool_levels",
    Pool,
    about="takes the largest codes under a window",
    needs="max pooling of codes that was not fused into the convolution before it",
    fits=lambda _: True,
    cost=lambda task: task.op.y.nbytes * task.op.window.taps,
    lay=lambda _: Laid((), "no convolution before it could take it in"),
    arguments=_pool_arguments,
    geometry="pool",
    levels=True,
)
SCORES_LEVELS = Kernel(
    "scores_levels",
    Scores,
    about="multiplies codes by weights",
    needs="scores of codes",
    fits=lambda _: True,
    cost=lambda task: task.op.macs,
    lay=_lay_scores,
    arguments=_score_arguments,
    levels=True,
)
SCORES_SIGNS = Kernel(
    "scores_signs",
    BinaryScores,
    about="adds or subtracts codes, multiplies and adds for each class",
    needs="scores of codes with binary weights",
    fits=lambda _: True,
    cost=lambda task: task.op.macs,
    lay=_lay_signs,
    arguments=_score_arguments,
    levels=True,
)
FAMILY: tuple[Kernel[Any], ...] = (CONV_PLANES, CONV_BYTES, POOL_LEVELS, SCORES_LEVELS, SCORES_SIGNS)

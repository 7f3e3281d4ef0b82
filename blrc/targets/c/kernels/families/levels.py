"""Compute layers that write or read codes of several thresholds, with kernels that exist on every CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack
from blrc.program.ops.op import Value
from blrc.program.program import BinaryScores, Conv, Pool, Program, Scores, SumPool
from blrc.targets.c.kernels import thresholds
from blrc.targets.c.kernels.families.codes import code_rows, encoded, fused
from blrc.targets.c.kernels.families.words import ROWS, blocked, packed_words
from blrc.targets.c.kernels.kernel import NOT_WORTH_IT, Arguments, Kernel, Laid, Number, Step, Task, pixels
from blrc.targets.c.kernels.multipliers import Multipliers, multipliers
from blrc.targets.c.kernels.tables import Table, mapped, plain
from blrc.targets.c.runtime_files import constant

BYTES = constant("BLRC_BYTES")
"""Codes that are tabulated at a time."""
LEAST_BYTES = 16
"""Codes of the smallest buffers. All are multiples, of which ``sizes.json`` knows each."""
NIBBLE = 4
"""Codes whose weights have a table together."""
LOOKED_UP, LOOKED_UP_ALONE, TABULATED, COUNTED = 0.44, 0.7, 17, 65
"""Instructions on a Cortex-M4 where three quarters of the codes are 0 (``benchmarks/c_kernels.py mnist --bits 2``).

They are those of a multiply-add of two windows and of one, of a code of a window, and of a row of a plane beside its
multiply-adds.
"""
LEAST_SCALED = 4
"""Bits of codes from which on a multiplier and its offset, 12 bytes, take less than 15 thresholds or more."""


def limit_bits(program: Program) -> int:
    """Return the bits (16 or 32) that hold every limit of the layers that have codes, or weights other than +-1.

    A limit lies between the ends of twice the range of the sums. All layers have one width.
    """
    made = [op for op in program.ops if isinstance(op, Conv) and (of_levels(op) or op.ternary or op.whole)]
    reach = [2 * program.bounds(op)[1] + 1 for op in made]
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


def _scaled(task: Task[Conv]) -> list[Multipliers] | None:
    """Return what stands in place of the thresholds of a layer, of each pair of tables that `paired` makes.

    Hosts keep thresholds: memory is plentiful there, and members of one structure share a library, whose tables have
    one length.
    """
    op, constants = task.op, task.program.constants
    if bits_of(op.y) < LEAST_SCALED or task.cpu.levels:
        return None
    pairs = _pairs(task)
    return multipliers([constants[op.thresholds].tables[t] for _, t in pairs], *task.program.bounds(op))


def _pairs(task: Task[Conv]) -> list[tuple[int, int]]:
    """Return the distinct pairs of weights and thresholds that members have, by their places."""
    weights, thresholds = (task.program.constants[name] for name in (task.op.weights, task.op.thresholds))
    return sorted(set(zip(weights.of_member, thresholds.of_member, strict=True)))


def code_rules(task: Task[Conv], base: Callable[[NDArray[np.uint32]], NDArray[np.int64]]) -> tuple[Table, str]:
    """Return the table by which sums become codes, and what it says in comments.

    Args:
        base: of each row of weights, what its sums are counted from.
    """
    op, constants = task.op, task.program.constants
    weights, thresholds = constants[op.weights], constants[op.thresholds]
    scaled, pairs = _scaled(task), _pairs(task)
    of_members = tuple(map(pairs.index, zip(weights.of_member, thresholds.of_member, strict=True)))
    if scaled is None:
        dtype = np.int16 if limit_bits(task.program) == 16 else np.int32
        rows = [
            base(weights.tables[w])[:, None] - thresholds.tables[t].reshape(len(thresholds.tables[t]), -1)
            for w, t in pairs
        ]
        arrays = tuple(np.ascontiguousarray(table).reshape(-1).astype(dtype) for table in rows)
        return Table("limits", arrays, of_members), f"{op.y.element.high} thresholds"
    arrays = tuple(each.table(base(weights.tables[w])) for each, (w, _) in zip(scaled, pairs, strict=True))
    return Table("scales", arrays, of_members), "a multiplier for each output"


def _lay_planes(task: Task[Conv]) -> Laid:
    op, constants, rows = task.op, task.program.constants, _rows(task.op)

    def packed(table: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return blocked(pack(unpack(table, op.group_channels).reshape(len(table), -1)), rows)

    def ones(weights: NDArray[np.uint32]) -> NDArray[np.int64]:
        found = unpack(weights, op.group_channels).reshape(len(weights), -1).sum(1, dtype=np.int64)
        return np.asarray(found * (op.x.element.high if op.x.is_codes else 1))

    rules, said = code_rules(task, ones)
    of = f"{bits_of(op.x)} planes" if op.x.is_codes else "bits and real taps"
    tables = mapped("weights", constants[op.weights], packed), rules
    return Laid(tables, f"{packed_words(op)} words a row, {of}, {said}", rows)


def _lay_bytes(task: Task[Conv]) -> Laid:
    op, constants = task.op, task.program.constants
    rows = -(-op.y.shape[2] // op.groups // 8) * 8
    weights = mapped(
        "weights", constants[op.weights], lambda t: code_rows(t, op.group_channels, op.groups, rows, BYTES)
    )
    rules, said = code_rules(task, lambda t: np.zeros(len(t), np.int64))
    return encoded(task, (weights, rules), f"8-bit codes, {op.fan_in} a row, {said}")


def by_rules(step: Step, tables: Sequence[str]) -> Arguments:
    """Return the arguments for what turns sums into codes: limits, or scales."""
    return [tables[-1], "0"] if step.tables[-1].role == "limits" else ["0", tables[-1]]


def _plane_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    size = Number("planes", step.op.x.element.code_bits), Number("bits", bits_of(step.y))
    return [geometry, *size, "x", tables[0], *by_rules(step, tables), "scratch", "y"]


def _byte_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    source = ["0", Number("table_rows", 0)] if step.op.x.is_codes else fused(step, tables)
    size = Number("planes", step.op.x.element.planes), Number("bits", bits_of(step.y))
    return [geometry, *size, "x", *source, tables[-2], *by_rules(step, tables), "scratch", "y"]


def _pool_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    return [geometry, Number("bits", bits_of(step.y)), "x", "y"]


def _sum_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    return [geometry, Number("x_bits", bits_of(step.x)), Number("bits", bits_of(step.y)), "x", "y"]


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


def _counted(task: Task[Conv]) -> float:
    """Return the cost of counting the bits of planes."""
    op = task.op
    return (task.cpu.counted * op.fan_in + COUNTED) * op.y.shape[2] * pixels(op) * _planes(op)


def _looked_up(task: Task[Conv]) -> float:
    """Return the cost of looking up the sums of codes. Hosts count bits where these lie in planes."""
    op = task.op
    if task.cpu.levels and op.x.element.planes > 0:
        return NOT_WORTH_IT
    alone = (1 if op.pool is None else op.pool.taps) * op.y.shape[1] == 1
    row = (LOOKED_UP_ALONE if alone else LOOKED_UP) * (op.y.shape[2] // op.groups)
    return op.fan_in * (row + TABULATED) * op.groups * pixels(op)


CONV_PLANES = Kernel(
    "conv_planes",
    Conv,
    about="counts the bits of each plane of codes, or of +-1, and compares with several thresholds",
    needs="layers of codes of at most 4 bits, and layers of bits that write codes",
    chosen="1 bit, dense layers of 2 bits (of 4 with vectors), and few outputs; on hosts all",
    fits=lambda task: task.op.x.element.planes > 0,
    cost=_counted,
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
    about="tabulates the sums of every four codes of two pixels, looks them up, and compares with several thresholds",
    needs="layers of codes, in planes if groups have a multiple of 4 channels, and first layers that write codes",
    fits=lambda task: task.op.x.element.planes == 0 or (task.op.x.is_codes and task.op.group_channels % NIBBLE == 0),
    cost=_looked_up,
    lay=_lay_bytes,
    arguments=_byte_arguments,
    geometry="conv",
    levels=True,
    scratch=lambda task: (
        4 * (-(-task.op.y.shape[2] // task.op.groups // 8) * 8) * (3 if task.op.pool and task.op.pool.taps > 2 else 2)
    ),
    buffers=lambda macros: 19 * macros["BLRC_BYTES"] + 68,
    asks=lambda op: {"BLRC_BYTES": min(-(-op.fan_in // LEAST_BYTES) * LEAST_BYTES, BYTES)},
    frame=16,
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
POOL_SUMS = Kernel(
    "pool_sums",
    SumPool,
    about="adds up the bits or codes under a window, of 32 channels at once where they lie in planes",
    needs="average pooling of bits and of codes",
    fits=lambda _: True,
    cost=lambda task: task.op.x.nbytes * task.op.window.taps,
    lay=lambda task: Laid((), f"sums of {task.op.window.taps} times {bits_of(task.op.x)} bits"),
    arguments=_sum_arguments,
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
FAMILY: tuple[Kernel[Any], ...] = (CONV_PLANES, CONV_BYTES, POOL_LEVELS, POOL_SUMS, SCORES_LEVELS, SCORES_SIGNS)

"""Compute layers whose weights are -1, 0 and +1, with kernels that exist on every CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack, unpack_ternary
from blrc.program.program import BinaryScores, Conv
from blrc.targets.c.kernels.families.codes import LOOKED_UP, PAIR_SUMS, code_arguments, encoded, fused, starts
from blrc.targets.c.kernels.families.levels import bits_of, by_rules, code_rules, of_levels
from blrc.targets.c.kernels.families.words import packed_words
from blrc.targets.c.kernels.kernel import Arguments, Kernel, Laid, Number, Step, Task, by_geometry, pixels
from blrc.targets.c.kernels.tables import mapped, plain
from blrc.targets.c.runtime_files import constant

THREES = -(-constant("BLRC_CODES") // 3)
"""Threes of codes that are tabulated at a time."""
THREE_ROWS = 6
"""Rows whose threes share a word: each is a number of 5 bits."""
SUMS = 27
"""Sums of three codes with weights of -1, 0 and +1."""
MASKED = 1.25
"""Instructions for a pair of words with zeros, to those for one without."""


def interleaved(weights: NDArray[np.uint32], channels: int) -> NDArray[np.uint32]:
    """Return ternary weights as rows of bits without gaps: for each pair of words the signs, then what is not 0.

    The last word of an odd number has its two words alone.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, 2, words(channels))``.
        channels: channels of one group.
    """
    numbers = unpack_ternary(weights, channels).reshape(len(weights), -1)
    plus, real = pack(numbers > 0), pack(numbers)
    even = plus.shape[1] // 2 * 2
    pairs = np.stack([part[:, :even].reshape(len(numbers), -1, 2) for part in (plus, real)], axis=2)
    return np.concatenate([pairs.reshape(len(numbers), -1), plus[:, even:], real[:, even:]], axis=1)


def three_rows(weights: NDArray[np.uint32], channels: int, groups: int) -> NDArray[np.uint32]:
    """Return ternary weights of bytes as ``[group][threes at a time][six rows][three]``, flat.

    A word holds the same three weights of six rows, each as a number of base 3 in 5 bits, the first row lowest. Missing
    weights are 0.

    Args:
        weights: uint32 ``(out, kernel h, kernel w, 2, words(channels))``.
        channels: channels of one group.
        groups: the number of groups.
    """
    numbers = unpack_ternary(weights, channels).reshape(groups, len(weights) // groups, -1)
    _, rows, fan_in = numbers.shape
    padded = np.pad(numbers, ((0, 0), (0, -rows % THREE_ROWS), (0, -fan_in % 3))).astype(np.int64)
    threes = (padded.reshape(groups, -1, THREE_ROWS, padded.shape[2] // 3, 3) + 1) @ np.array([1, 3, 9])
    packed = (threes << 5 * np.arange(THREE_ROWS)[:, None]).sum(axis=2).astype(np.uint32)  # (groups, sixes, threes)
    parts = [packed[g, :, t : t + THREES].reshape(-1) for g in range(groups) for t in range(0, packed.shape[2], THREES)]
    return np.concatenate(parts)


def _ones(task: Task[Conv], weights: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return what a row's sums are counted from: its weights that are not 0, or +1 and met by the largest codes."""
    numbers = unpack_ternary(weights, task.op.group_channels).reshape(len(weights), -1)
    if task.op.x.is_codes:
        return np.asarray(task.op.x.element.high * (numbers > 0).sum(1, dtype=np.int64))
    return np.asarray((numbers != 0).sum(1, dtype=np.int64))


def _lay_bits(task: Task[Conv]) -> Laid:
    op = task.op
    weights = mapped("weights", task.program.constants[op.weights], lambda t: interleaved(t, op.group_channels))
    found, said = code_rules(task, lambda t: _ones(task, t))
    of = f"{bits_of(op.x)} planes" if op.x.is_codes else "bits"
    said = f", {said}" if of_levels(op) else ""
    return Laid((weights, found), f"ternary weights, {packed_words(op)} words a row, {of}{said}")


def _lay_bytes(task: Task[Conv]) -> Laid:
    op = task.op
    weights = mapped(
        "weights", task.program.constants[op.weights], lambda t: three_rows(t, op.group_channels, op.groups)
    )
    found, said = code_rules(task, lambda t: np.zeros(len(t), np.int64))
    said = f", {said}" if of_levels(op) else ""
    return encoded(task, (weights, found), f"ternary weights, 8-bit codes, {op.fan_in} a row{said}")


def _pairs_fit(task: Task[Conv]) -> bool:
    op = task.op
    few = op.fan_in <= 3 * THREES and task.program.bounds(op)[1] <= PAIR_SUMS
    return op.x.dtype == "int8" and op.y.dtype == "bits" and op.groups == 1 and few


def _lay_pairs(task: Task[Conv]) -> Laid:
    op, largest = task.op, task.program.bounds(task.op)[1]
    never = -op.y.shape[2] % THREE_ROWS
    weights = mapped("weights", task.program.constants[op.weights], lambda t: three_rows(t, op.group_channels, 1))
    begin = mapped(
        "thresholds",
        task.program.constants[op.thresholds],
        lambda t: starts(np.pad(t, (0, never), constant_values=largest + 1), largest),
    )
    why = f"ternary weights, 8-bit input, {op.fan_in} codes a row, sums within {largest}: two pixels at once"
    return encoded(task, (weights, begin), why)


def _looked_up(task: Task[Conv]) -> float:
    return LOOKED_UP * task.op.fan_in * task.op.y.shape[2] * pixels(task.op)


def _three_buffers(macros: Mapping[str, int]) -> int:
    """Return the bytes of the sums: of every three tabulated codes, 27 of one word each."""
    return 4 * SUMS * -(-macros["BLRC_CODES"] // 3)


def _plane_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    size = Number("planes", step.op.x.element.code_bits), Number("bits", bits_of(step.y))
    return [geometry, *size, "x", tables[0], *by_rules(step, tables), "scratch", "y"]


def _byte_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    source = ["0", Number("table_rows", 0)] if step.op.x.is_codes else fused(step, tables)
    bits = Number("bits", bits_of(step.y))
    return [geometry, bits, "x", *source, tables[-2], *by_rules(step, tables), "scratch", "y"]


def _score_arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    height, width, channels = step.x.shape
    size = (Number("pixels", height * width), Number("channels", channels), Number("classes", step.y.shape[2]))
    return [*size, Number("bits", step.x.element.code_bits), "x", *tables, "y"]


def _lay_scores(task: Task[BinaryScores]) -> Laid:
    op = task.op
    names = ("weights", op.weights), ("multiplier", op.multiplier), ("bias", op.bias)
    tables = tuple(plain(task.program, role, name) for role, name in names)
    return Laid(tables, f"ternary weights, {op.fan_in} inputs")


def _counted(task: Task[Conv]) -> float:
    planes = task.op.x.element.code_bits or 1
    return MASKED * task.cpu.counted * task.op.fan_in * task.op.y.shape[2] * pixels(task.op) * planes


def _padded_rows(op: Conv) -> int:
    return -(-op.y.shape[2] // op.groups // THREE_ROWS) * THREE_ROWS


CONV_TERNARY = Kernel(
    "conv_ternary",
    Conv,
    about="collects a window's bits without gaps, and counts those that differ from weights that are not 0",
    needs="layers of bits with ternary weights, dense ones too, that write bits",
    fits=lambda task: task.op.x.dtype == task.op.y.dtype == "bits",
    cost=_counted,
    lay=_lay_bits,
    arguments=by_geometry,
    geometry="conv",
    strips=True,
    ternary=True,
    scratch=lambda task: 2 * 4 * packed_words(task.op),
)
CONV_TERNARY_PLANES = Kernel(
    "conv_ternary_planes",
    Conv,
    about="counts the bits of each plane of codes, or of +-1, that differ from weights that are not 0",
    needs="layers with ternary weights on codes of at most 4 bits, and on bits where they write codes",
    fits=lambda task: task.op.x.element.planes > 0 and of_levels(task.op),
    cost=_counted,
    lay=_lay_bits,
    arguments=_plane_arguments,
    geometry="conv",
    ternary=True,
    scratch=lambda task: 4 * (packed_words(task.op) * (task.op.x.element.code_bits or 2) + task.op.y.shape[2]),
)
CONV_TERNARY_PAIRS = Kernel(
    "conv_ternary_pairs",
    Conv,
    about="tabulates the 27 sums of every three codes, of two pixels in the halves of a word, and looks them up",
    needs=f"first layers with ternary weights in one group that write bits, at most {3 * THREES} codes in a window, "
    f"whose sums stay within {PAIR_SUMS:,}",
    fits=_pairs_fit,
    cost=_looked_up,
    lay=_lay_pairs,
    arguments=code_arguments,
    geometry="conv",
    strips=True,
    ternary=True,
    buffers=_three_buffers,
    asks=lambda op: {"BLRC_CODES": op.fan_in},
)
CONV_TERNARY_BYTES = Kernel(
    "conv_ternary_bytes",
    Conv,
    about="tabulates the 27 sums of every three codes of two pixels, and looks them up",
    needs="first layers with ternary weights, and layers with them on codes of more than 4 bits",
    fits=lambda task: task.op.x.element.planes == 0,
    cost=_looked_up,
    lay=_lay_bytes,
    arguments=_byte_arguments,
    geometry="conv",
    ternary=True,
    scratch=lambda task: 4 * _padded_rows(task.op) * (2 if task.op.pool is None else 3),
    buffers=_three_buffers,
    asks=lambda op: {"BLRC_CODES": op.fan_in},
)
SCORES_TERNARY = Kernel(
    "scores_ternary",
    BinaryScores,
    about="counts the bits that differ from weights that are not 0, multiplies and adds for each class",
    needs="scores of bits or codes with ternary weights",
    fits=lambda _: True,
    cost=lambda task: task.op.macs,
    lay=_lay_scores,
    arguments=_score_arguments,
    ternary=True,
)
FAMILY: tuple[Kernel[Any], ...] = (
    CONV_TERNARY,
    CONV_TERNARY_PLANES,
    CONV_TERNARY_PAIRS,
    CONV_TERNARY_BYTES,
    SCORES_TERNARY,
)

"""Compute layers whose weights have 8 bits, with kernels that exist on every CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program.program import Conv, Value
from blrc.targets.c.kernels.families.codes import encoded, fused
from blrc.targets.c.kernels.families.levels import bits_of, by_rules, code_rules
from blrc.targets.c.kernels.kernel import Arguments, Kernel, Laid, Number, Step, Task, pixels
from blrc.targets.c.kernels.tables import mapped

FOUR = 4
"""Weights of which a row has a multiple: a Cortex-M4 multiplies so many in two instructions."""
SIGNS = -1
"""Stands for +-1 where a kernel is told how many bits its codes have."""
ADDED, COLLECTED = 8.0, 1.0
"""Instructions for a multiply-add of the depthwise kernel, and of the other one with what it takes to collect numbers,
relative to each other."""


def _row_length(op: Conv) -> int:
    """Return the weights of a row with the zeros behind them."""
    return -(-op.fan_in // FOUR) * FOUR


def _lay_rows(task: Task[Conv]) -> Laid:
    op = task.op

    def rows(weights: NDArray[np.int8]) -> NDArray[np.int8]:
        return np.pad(weights.reshape(len(weights), -1), ((0, 0), (0, _row_length(op) - op.fan_in)))

    return _laid(task, rows)


def _lay_channels(task: Task[Conv]) -> Laid:
    return _laid(task, lambda weights: weights.reshape(len(weights), -1).T)


def _laid(task: Task[Conv], change: Callable[[NDArray[Any]], NDArray[Any]]) -> Laid:
    op = task.op
    weights = mapped("weights", task.program.constants[op.weights], change)
    rules, said = code_rules(task, lambda weights: np.zeros(len(weights), np.int64))
    return encoded(task, (weights, rules), f"8-bit weights, {op.fan_in} a row, {said}")


def _arguments(step: Step, geometry: str, tables: Sequence[str]) -> Arguments:
    size = Number("x_bits", _bits_in(step.op.x)), Number("bits", bits_of(step.y))
    return [geometry, *size, "x", *fused(step, tables), tables[-2], *by_rules(step, tables), "scratch", "y"]


def _bits_in(x: Value) -> int:
    return SIGNS if x.dtype == "bits" else x.element.code_bits


def _scratch(op: Conv, numbers: int) -> int:
    """Return the bytes of all sums, of the least ones of a pool, and of so many numbers in whole words."""
    sums = 2 if op.pool is not None and op.pool.taps > 1 else 1
    return 4 * sums * op.y.shape[2] + 4 * -(-numbers // 2)


CONV_WHOLE = Kernel(
    "conv_whole",
    Conv,
    about="collects the numbers of a window, and multiplies them with four rows of 8-bit weights at a time",
    needs="layers with weights of 8 bits, dense ones too, on pixels, codes or bits",
    fits=lambda _: True,
    cost=lambda task: COLLECTED * task.op.fan_in * (task.op.groups * ADDED + task.op.y.shape[2]) * pixels(task.op),
    lay=_lay_rows,
    arguments=_arguments,
    geometry="conv",
    whole=True,
    scratch=lambda task: _scratch(task.op, _row_length(task.op)),
    frame=16,
)
CONV_WHOLE_DEPTHWISE = Kernel(
    "conv_whole_depthwise",
    Conv,
    about="adds the products of each tap with 8-bit weights to the sums of all channels",
    needs="layers with weights of 8 bits in which every output sees one channel of its own",
    fits=lambda task: task.op.group_channels == 1 and task.op.groups == task.op.y.shape[2],
    cost=lambda task: ADDED * task.op.fan_in * task.op.y.shape[2] * pixels(task.op),
    lay=_lay_channels,
    arguments=_arguments,
    geometry="conv",
    whole=True,
    scratch=lambda task: _scratch(task.op, task.op.x.shape[2]),
    frame=16,
)
FAMILY: tuple[Kernel[Any], ...] = (CONV_WHOLE, CONV_WHOLE_DEPTHWISE)

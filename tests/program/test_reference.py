"""The reference against plain loops, and against torch's convolution in float64: two independent oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from by_night import first
from numpy.typing import NDArray
from random_programs import random_inputs, random_program

from blrc.program import reference
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import BinaryScores, Constant, Conv, Encode, Op, Pool, Program, Scores, Value, Window

KINDS = ("uint8", "int8", "bits")


def bit(packed: NDArray[np.uint32], channel: int) -> int:
    return int(packed[channel // 32]) >> (channel % 32) & 1


def number(x: NDArray[Any], at: tuple[int, int, int]) -> int:
    """A bit as +-1, an integer as itself."""
    value = x[at]
    return (1 if value else -1) if x.dtype == bool else int(value)


def taps(window: Window, size: tuple[int, ...], row: int, column: int) -> list[tuple[int, int, int, int]]:
    """(kernel row, kernel column, map row, map column) of the taps inside the map."""
    found = []
    for ky in range(window.kernel[0]):
        for kx in range(window.kernel[1]):
            y = row * window.stride[0] + ky * window.dilation[0] - window.padding[0]
            x = column * window.stride[1] + kx * window.dilation[1] - window.padding[1]
            if 0 <= y < size[0] and 0 <= x < size[1]:
                found.append((ky, kx, y, x))
    return found


def weight(rows: NDArray[np.uint32], channel: int, ternary: bool) -> int:
    """Return the weight of a channel: -1 or +1, or 0 where the second row of a ternary pair has no bit."""
    if not ternary:
        return 2 * bit(rows, channel) - 1
    signs, nonzero = rows
    return (2 * bit(signs, channel) - 1) * bit(nonzero, channel)


def loop_max(x: NDArray[Any], window: Window, shape: tuple[int, ...]) -> NDArray[Any]:
    """Pool bits or codes; taps outside the map are the least there is."""
    y = np.zeros(shape, x.dtype)
    for row, column, channel in np.ndindex(*shape):
        y[row, column, channel] = max(
            (x[r, c, channel] for _, _, r, c in taps(window, x.shape, row, column)), default=x.dtype.type(0)
        )
    return y


def loop_op(program: Program, op: Op, x: NDArray[Any]) -> NDArray[Any]:
    """Run one op on one sample as the table in `program.py` says it, in integers of Python."""
    if isinstance(op, Encode):
        table = program.constant(op.table)
        y: NDArray[Any] = np.zeros(x.shape, np.int8)
        for at in np.ndindex(*x.shape):
            y[at] = table[at[2] if len(table) > 1 else 0][x[at]]
        return y
    if isinstance(op, Binarize):
        limits = program.constant(op.thresholds)
        reached = [int(x[at]) >= int(limits[at[2] % len(limits)]) for at in np.ndindex(*x.shape)]
        return np.array(reached).reshape(op.y.shape)
    if isinstance(op, Flatten):
        return np.array([x[at] for at in np.ndindex(*x.shape)]).reshape(op.y.shape)
    if isinstance(op, Pool):
        return loop_max(x, op.window, op.y.shape)
    if isinstance(op, Scores):
        weights, bias = program.constant(op.weights), program.constant(op.bias)
        y = np.zeros(op.y.shape, np.int32)
        for k in range(op.y.shape[2]):
            y[0, 0, k] = int(bias[k]) + sum(number(x, at) * int(weights[k][at]) for at in np.ndindex(*x.shape))
        return y
    if isinstance(op, BinaryScores):
        weights, multiplier = program.constant(op.weights), program.constant(op.multiplier)
        y = np.zeros(op.y.shape, np.int32)
        for k in range(op.y.shape[2]):
            z = sum(number(x, at) * weight(weights[k][at[:2]], at[2], op.ternary) for at in np.ndindex(*x.shape))
            y[0, 0, k] = int(multiplier[k]) * z + int(program.constant(op.bias)[k])
        return y
    weights, thresholds = program.constant(op.weights), program.constant(op.thresholds)
    per_group = op.y.shape[2] // op.groups
    y = np.zeros(op.unpooled, np.uint8 if op.y.is_codes else bool)
    for row, column, out in np.ndindex(*op.unpooled):
        first = out // per_group * op.group_channels
        z = 0
        for ky, kx, r, c in taps(op.window, x.shape, row, column):
            for i in range(op.group_channels):
                z += number(x, (r, c, first + i)) * weight(weights[out, ky, kx], i, op.ternary)
        y[row, column, out] = sum(z >= int(limit) for limit in np.atleast_1d(thresholds[out]))
    return y if op.pool is None else loop_max(y, op.pool, op.y.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(6, (4, 6, 7, 1000, 0, 1, 2, 3, 5, 8, 9, 15, 23, 1005, 1015)))
def test_every_value_is_what_plain_loops_give(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 6)), int(rng.integers(1, 6)), int(rng.choice([1, 2, 3, 33])))
    program = random_program(seed, kind, shape, layers=2)
    raw = random_inputs(program, 3, seed)
    values = reference.run(program, raw)
    for op in program.ops:
        for sample in range(1, 3):
            want = loop_op(program, op, values[op.x.name][sample])
            got = values[op.y.name][sample]
            assert got.dtype == want.dtype and np.array_equal(got, want), op.name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", first(5, (0, 1, 2, 7, 1000, *range(3, 7), *range(8, 12), 15, 1005)))
def test_preactivations_are_torchs_convolution(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    values = reference.run(program, random_inputs(program, 3, seed)[1:])
    for op in program.ops:
        if not isinstance(op, Conv):
            continue
        x = values[op.x.name]
        signs = (x.astype(np.int8) * 2 - 1) if x.dtype == bool else x
        top, left, bottom, right = op.window.padding
        padded = np.pad(signs, ((0, 0), (top, bottom), (left, right), (0, 0)))
        bits = program.constant(op.weights)[..., None] >> np.arange(32, dtype=np.uint32) & 1
        rows = bits.reshape(*bits.shape[:-2], -1)[..., : op.group_channels].astype(np.float64)
        weights = (rows[..., 0, :] * 2 - 1) * rows[..., 1, :] if op.ternary else rows * 2 - 1
        z = torch.nn.functional.conv2d(
            torch.from_numpy(padded).permute(0, 3, 1, 2).double(),
            torch.from_numpy(weights).permute(0, 3, 1, 2),
            stride=op.window.stride,
            dilation=op.window.dilation,
            groups=op.groups,
        )
        assert np.array_equal(op.preactivation(program, x), z.permute(0, 2, 3, 1).numpy().astype(np.int32))
        low, high = program.bounds(op)
        assert low <= z.min() and z.max() <= high


def test_sums_that_float32_cannot_hold_are_exact() -> None:
    channels = 2**18
    x = Value("input", "int8", (1, 1, channels))
    ones = np.full((1, 1, 1, channels // 32), 0xFFFFFFFF, np.uint32)
    op = Conv("conv", x, Value("y", "bits", (1, 1, 1)), "w", "t", Window((1, 1)))
    constants = {"w": Constant((ones,), (0,)), "t": Constant((np.zeros(1, np.int32),), (0,))}
    program = Program(x, (op,), constants, ("map",), 1.0)
    raw = np.full((1, 1, 1, channels), 127, np.int8)
    raw[..., 0] = 126
    assert op.preactivation(program, raw).item() == 127 * channels - 1  # odd and above 2**24


@pytest.mark.parametrize("count", [1, reference.BATCH, reference.BATCH + 1])
def test_batches_change_nothing(count: int) -> None:
    program = random_program(4, "uint8", (5, 4, 3))
    raw = random_inputs(program, count)
    values = reference.run(program, raw)
    single = reference.run(program, raw[-1:])
    assert all(len(v) == count and np.array_equal(v[-1:], single[name]) for name, v in values.items())
    assert np.array_equal(reference.scores(program, raw), values[program.output.name][:, 0, 0])


def test_members_use_their_own_constants() -> None:
    program = random_program(5, "int8", (4, 4, 3), members=3)
    raw = random_inputs(program, 20)
    for member in range(3):
        picked = {name: Constant((program.constant(name, member),), (0,)) for name in program.constants}
        alone = Program(program.input, program.ops, picked, ("map",), program.score_scale)
        assert np.array_equal(reference.scores(program, raw, member), reference.scores(alone, raw))
    assert not np.array_equal(reference.scores(program, raw, 0), reference.scores(program, raw, 1))


def test_bits_may_come_as_zeros_and_ones() -> None:
    program = random_program(6, "bits", (3, 3, 5))
    raw = random_inputs(program, 6)
    assert np.array_equal(reference.scores(program, raw), reference.scores(program, raw.astype(np.uint8)))
    assert reference.run(program, raw.astype(np.uint8))[program.input.name].dtype == bool


def test_the_first_maximum_is_the_label() -> None:
    table = np.array([[3, 3, 1], [1, 2, 2], [-5, -5, -5], [0, 0, 1]], dtype=np.int32)
    found = reference.labels(table)
    assert found.dtype == np.int64 and found.tolist() == [0, 1, 0, 2]

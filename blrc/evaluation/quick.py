"""Scores of programs, equal to `blrc.program.reference` bit for bit, several times as fast: float32 convolutions of
torch.

All of a small batch stays in the caches, and programs that share a layer's weights and its input share its sums. What
has no fast form is left to the reference.

A float32 convolution of integers is exact while every partial sum stays below 2^24 (see
`blrc.lowering.preactivations`). That torch really computes it so is checked on the first batch and on every `CHECK`-th
after it, against one float64 convolution with the weights summed over output channels; where it does not hold, the
reference takes the layer over from there. What torch does with a shape does not change from batch to batch, so the
first check is the one that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from blrc.lowering.exact.by_torch import without_nnpack
from blrc.net.bits import unpack_signs
from blrc.program import reference
from blrc.program.program import Conv, Program, Window

CHUNK = 32
CHECK = 16


def scores(programs: Sequence[Program], raw: NDArray[Any]) -> list[NDArray[np.int32]]:
    """Scores of the first member of each program, int32 ``(N, classes)`` each.

    Args:
        programs: of one structure (members, or one member with several thresholds), so that they take the same input.
        raw: input in device layout, ``(N, H, W, C)``, as for `reference.scores`.
    """
    plans = [[_prepare(program, op) if isinstance(op, Conv) else None for op in program.ops] for program in programs]
    out: list[list[NDArray[Any]]] = [[] for _ in programs]
    with torch.no_grad(), torch.autocast("cpu", enabled=False), without_nnpack():
        for count, i in enumerate(range(0, max(len(raw), 1), CHUNK)):
            chunk = raw[i : i + CHUNK]
            values = [chunk.astype(bool) if programs[0].input.dtype == "bits" else chunk] * len(programs)
            for position in range(len(programs[0].ops)):
                layer = [plan[position] for plan in plans]
                values = _step(programs, position, layer, values, count % CHECK == 0)
            for kept, value in zip(out, values, strict=True):
                kept.append(value)
    return [np.concatenate(kept)[:, 0, 0, :] for kept in out]


@dataclass(eq=False)
class _Layer:
    """A convolution with its constants in torch's form; `exact` turns False where torch proves not to be.

    `rows`: weights of a dense layer as int8 ``(inputs, out)``, or None: torch multiplies integers 4 times as fast.
    """

    op: Conv
    key: bytes
    weights: torch.Tensor
    thresholds: torch.Tensor
    summed: torch.Tensor
    rows: torch.Tensor | None
    exact: bool


def _prepare(program: Program, op: Conv) -> _Layer:
    packed, thresholds = program.constant(op.weights), program.constant(op.thresholds)
    weights = torch.from_numpy(unpack_signs(packed, op.group_channels)).permute(0, 3, 1, 2)  # channels last in memory
    summed = weights.double().reshape(op.groups, -1, *weights.shape[1:]).sum(1)
    exact = program.bounds(op)[1] + 1 < 2**24
    dense = op.is_dense and op.groups == 1 and not any(op.window.padding) and hasattr(torch, "_int_mm")
    rows = weights.permute(0, 2, 3, 1).flatten(1).t().contiguous() if dense else None
    return _Layer(op, packed.tobytes(), weights.float(), torch.from_numpy(thresholds).float(), summed, rows, exact)


def _step(
    programs: Sequence[Program],
    position: int,
    layers: Sequence[_Layer | None],
    values: Sequence[NDArray[Any]],
    check: bool,
) -> list[NDArray[Any]]:
    """One op of every program on a batch. Equal inputs are the same object, by which shared work is found."""
    sums: dict[tuple[int, bytes], tuple[torch.Tensor, bool]] = {}
    same: dict[int, NDArray[Any]] = {}
    found = []
    for program, layer, x in zip(programs, layers, values, strict=True):
        if layer is None or not layer.exact:
            if layer is None and program.ops[position].y.dtype != "int32":  # a table or a pool: without weights
                if id(x) not in same:
                    same[id(x)] = reference.apply(program, program.ops[position], x)
                y = same[id(x)]
            else:
                y = reference.apply(program, program.ops[position], x)
            found.append(y)
            continue
        key = (id(x), layer.key)
        if key not in sums:
            z = _preactivation(layer, x, check)
            sums[key] = z, layer.exact
        z, layer.exact = sums[key]  # what one program's sums are found to be holds for all that share them
        found.append(_decide(layer, z) if layer.exact else reference.apply(program, layer.op, x))
    return found


def _preactivation(layer: _Layer, x: NDArray[Any], check: bool) -> torch.Tensor:
    """z of a batch, float32 ``(n, out, H', W')``, before the pool."""
    op = layer.op
    numbers = torch.from_numpy(x).to(torch.int8 if layer.rows is not None else torch.float32)
    if op.x.dtype == "bits":
        numbers = numbers.mul_(2).sub_(1)
    maps = _padded(numbers.permute(0, 3, 1, 2), op.window)
    if layer.rows is not None:
        z = torch._int_mm(numbers.flatten(1), layer.rows).float()[:, :, None, None]
    else:
        z = _convolve(maps, layer.weights, op)
    if check:
        expected = _convolve(maps.double(), layer.summed, op)
        grouped = z.reshape(len(z), op.groups, -1, *z.shape[2:]).sum(2, dtype=torch.float64)
        layer.exact = bool((grouped == expected).all())
    return z


def _convolve(maps: torch.Tensor, weights: torch.Tensor, op: Conv) -> torch.Tensor:
    if op.groups == 1 and maps.shape[1:] == weights.shape[1:]:
        rows = F.linear(maps.permute(0, 2, 3, 1).flatten(1), weights.permute(0, 2, 3, 1).flatten(1))
        return rows[:, :, None, None]
    return F.conv2d(maps, weights, None, op.window.stride, 0, op.window.dilation, op.groups)


def _padded(maps: torch.Tensor, window: Window) -> torch.Tensor:
    top, left, bottom, right = window.padding
    if not any(window.padding):
        return maps
    n, channels, height, width = maps.shape
    padded = torch.zeros((n, top + height + bottom, left + width + right, channels), device="cpu").permute(0, 3, 1, 2)
    padded[:, :, top : top + height, left : left + width] = maps
    return padded


def _decide(layer: _Layer, z: torch.Tensor) -> NDArray[np.bool_]:
    """Bits ``(n, H, W, out)``: the largest z of a pooling window decides, as OR of bits does."""
    pool = layer.op.pool
    if pool is not None:
        top, left, bottom, right = pool.padding
        if any(pool.padding):
            z = F.pad(z, (left, right, top, bottom), value=-torch.inf)
        z = F.max_pool2d(z, pool.kernel, pool.stride, 0, pool.dilation)
    return np.asarray((z.permute(0, 2, 3, 1) >= layer.thresholds).numpy())

"""An engine that is the reference itself, with a fault put in; and the sum of one output, with plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program import reference
from blrc.program.head import Answer
from blrc.program.program import Conv, Encode, Op, Program
from blrc.verification.engines import Engine

ANSWER_FIELDS = ("label", "log_p", "mean", "variance", "members")
Spoil = Callable[[str, NDArray[Any]], NDArray[Any]]
"""Name of a value (or ``label``, ``answer.label``...) and the right array, a copy, to what the engine gives."""


def right(name: str, values: NDArray[Any]) -> NDArray[Any]:
    return values


def reference_engine(
    program: Program, name: str = "fake", whole: Spoil = right, alone: Spoil = right, hidden: tuple[str, ...] = ()
) -> Engine:
    """`whole` spoils values of whole inputs, `alone` those of single ops; values named in `hidden` are not given."""

    def run(raw: NDArray[Any], member: int = 0) -> dict[str, NDArray[Any]]:
        values = reference.run(program, raw, member)
        values["label"] = reference.labels(values[program.output.name][:, 0, 0, :])
        return {key: whole(key, value.copy()) for key, value in values.items() if key not in hidden}

    def run_op(op: Op, x: NDArray[Any], member: int = 0) -> NDArray[Any] | None:
        return None if op.y.name in hidden else alone(op.y.name, op.run(program, x, member).copy())

    def answer(raw: NDArray[Any]) -> tuple[Answer, None]:
        right = reference.answer(program, raw)
        fields = {name: whole(f"answer.{name}", getattr(right, name).copy()) for name in ANSWER_FIELDS}
        return Answer(**fields), None

    return Engine(name, run, run_op, answer)


def c_like_engine(program: Program, name: str = "C") -> Engine:
    """As the compiled C: codes are looked up where they are read, and exist nowhere."""
    encodes = {op.y.name: op for op in program.ops if isinstance(op, Encode)}

    def run_op(op: Op, x: NDArray[Any], member: int = 0) -> NDArray[Any] | None:
        if isinstance(op, Encode):
            return None
        if op.x.name in encodes:
            x = encodes[op.x.name].run(program, x, member)
        return op.run(program, x, member)

    engine = reference_engine(program, name, hidden=tuple(encodes))
    return replace(engine, run_op=run_op, fuses_encode=True)


def recount(program: Program, op: Conv, x: NDArray[Any], position: tuple[int, int], channel: int) -> int:
    """The largest z in the pooling window of one output, by loops over taps and bits. `x` is one sample, (H, W, C)."""
    words = program.constant(op.weights)
    height, width, _ = op.x.shape
    size = op.window.output(height, width)
    group = channel // (op.y.shape[2] // op.groups)
    found = []
    for y, column in _pooled(op, position, size):
        z = 0
        for ky in range(op.window.kernel[0]):
            for kx in range(op.window.kernel[1]):
                iy = y * op.window.stride[0] - op.window.padding[0] + ky * op.window.dilation[0]
                ix = column * op.window.stride[1] - op.window.padding[1] + kx * op.window.dilation[1]
                if not (0 <= iy < height and 0 <= ix < width):
                    continue
                for c in range(op.group_channels):
                    positive = int(words[channel, ky, kx, c // 32]) >> (c % 32) & 1
                    value = x[iy, ix, group * op.group_channels + c]
                    code = (1 if value else -1) if op.x.dtype == "bits" else int(value)
                    z += code if positive else -code
        found.append(z)
    return max(found)


def _pooled(op: Conv, position: tuple[int, int], size: tuple[int, int]) -> list[tuple[int, int]]:
    if op.pool is None:
        return [position]
    pool = op.pool
    rows, columns = (
        [position[a] * pool.stride[a] - pool.padding[a] + k * pool.dilation[a] for k in range(pool.kernel[a])]
        for a in (0, 1)
    )
    return [(y, x) for y in rows for x in columns if 0 <= y < size[0] and 0 <= x < size[1]]


def flip_one(array: NDArray[Any], index: tuple[int, ...]) -> NDArray[Any]:
    """Negate a bit, or add one to a number."""
    array[index] = ~array[index] if array.dtype == np.bool_ else array[index] + 1
    return array

"""Prepare the generated C to be timed at each level of the instruction set, after a check of its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.benchmark.clock import Run
from blrc.errors import BlrcError
from blrc.program import reference
from blrc.program.program import Program
from blrc.targets.c.kernels.tiers import host_cpu, limited
from blrc.targets.c.layout.layout import HOSTS, Layout
from blrc.targets.c.native.network import Native

ALONE = ("portable",)


@dataclass(frozen=True, eq=False)
class Level:
    """Hold an export's C, compiled so that it uses no higher level of the instruction set.

    Attributes:
        name: name of the level.
        native: the compiled C.
        values: the reference's values of all tensors for the sample, by name.
    """

    name: str
    native: Native = field(repr=False)
    values: Mapping[str, NDArray[Any]] = field(repr=False)

    def step(self, op: str, member: int = 0) -> Run:
        """Return a run of one step alone, on the values that it reads for the sample."""
        x = self.values[self.native.step(op).x.name]
        return lambda repeats: self.native.run_op(op, x, member, repeats=repeats)

    def network(self, member: int = 0) -> Run:
        """Return a run of one network, from raw input to scores and label."""
        raw = self.values[self.native.program.input.name]
        return lambda repeats: self.native.scores(np.broadcast_to(raw, (repeats, *raw.shape[1:])), member)

    def ensemble(self) -> Run:
        """Return a run of all members and their joint answer."""
        raw, count = self.values[self.native.program.input.name], len(self.native.program.members)
        return lambda repeats: self.native.answers(np.broadcast_to(raw, (repeats, *raw.shape[1:])), count)


def levels_of(layout: Layout, there: Sequence[str]) -> tuple[str, ...]:
    """Return the levels at which an export can run on this machine, whose CPU has the levels `there`."""
    return tuple(there) if layout.cpu in HOSTS and layout.cpu == host_cpu() else ALONE


def compile_levels(
    files: Mapping[str, bytes], name: str, program: Program, raw: NDArray[Any], names: Sequence[str]
) -> list[Level]:
    """Compile the C of a model at each of these levels and check all of its layers on a sample.

    Args:
        files: the C files by name.
        name: name of the model.
        program: the program that the C computes.
        raw: the sample, a raw input ``(1, H, W, C)``.
        names: names of the levels.

    Raises:
        BlrcError: there is no compiler, or it refuses the code, or a value differs from the reference's. Wrong code is
            not timed.
    """
    expected = reference.run(program, raw)
    return [_level(files, name, program, raw, level, expected) for level in names]


def _level(
    files: Mapping[str, bytes],
    name: str,
    program: Program,
    raw: NDArray[Any],
    level: str,
    expected: Mapping[str, NDArray[Any]],
) -> Level:
    with limited(level):
        native = Native(files, name, program, 1)
    found = native.run(raw)
    for op in program.ops:
        if op.y.name in found and not np.array_equal(found[op.y.name], expected[op.y.name]):
            raise BlrcError(f"{name}: layer {op.name!r} is wrong at level {level}: not timed; run blrc verify")
    return Level(level, native, {**expected, program.input.name: raw})

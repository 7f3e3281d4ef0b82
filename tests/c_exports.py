"""Exported C for the tests, programs of one layer, and equality that names what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack_signs
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Encode, Op, Program, Scores, Value, Window
from blrc.program.vectors import record
from blrc.targets.c.emit import emit
from blrc.targets.c.layout.strips import Plan, Work, joined, placed
from blrc.targets.c.size.choose import Optimize
from blrc.targets.options import EmitOptions


def export(
    program: Program,
    folder: Path,
    inputs: NDArray[Any],
    name: str = "net",
    cpu: str = "portable",
    optimize: Optimize = "size",
) -> Path:
    """Write the C of `program` (any number of members) and the program itself into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    emitted = emit(program, EmitOptions(name, record(program, inputs), "0.0", cpu=cpu, optimize=optimize))
    for file, content in {**emitted.files, f"{name}.program.npz": program_file.to_bytes(program)}.items():
        (folder / file).write_bytes(content)
    return folder


def longest_strips(work: Sequence[Work], align: int, pays: int | None = None) -> Plan:
    """In place of `strips.plan`: every group as long as it can be, whether that helps or not."""
    groups: list[tuple[int, int]] = []
    for i in range(len(work)):
        if i and joined(work, i):
            groups[-1] = (groups[-1][0], i + 1)
        else:
            groups.append((i, i + 1))
    return placed(work, groups, align)


def one_conv(
    shape: tuple[int, int, int],
    outputs: int,
    window: Window,
    groups: int = 1,
    pool: Window | None = None,
    kind: str = "bits",
    seed: int = 0,
) -> Program:
    """A program of one convolution (behind a table for uint8) and scores that read it."""
    rng = np.random.default_rng(seed)
    x = at = Value("input", kind, shape)  # type: ignore[arg-type]
    ops: list[Op] = []
    constants = {}
    if kind == "uint8":
        at = Value("codes", "int8", shape)
        ops.append(Encode("encode", x, at, "table"))
        constants["table"] = rng.integers(-127, 128, (shape[2], 256)).astype(np.int8)
    size = window.output(*shape[:2])
    out = Value("out", "bits", (*(size if pool is None else pool.output(*size)), outputs))
    conv = Conv("conv", at, out, "weights", "thresholds", window, groups, pool)
    signs = rng.integers(0, 2, (outputs, *window.kernel, conv.group_channels)) * 2 - 1
    constants["weights"] = pack_signs(signs)
    spread = 1 if kind == "bits" else 70
    constants["thresholds"] = np.round(rng.normal(0.5, 0.4, outputs) * spread * conv.fan_in**0.5).astype(np.int32)
    most = conv.fan_in if kind == "bits" else 128 * conv.fan_in
    constants["thresholds"] = constants["thresholds"].clip(-most, most + 1)
    scores = Scores("scores", out, Value("scores", "int32", (1, 1, 2)), "score_weights", "bias")
    constants["score_weights"] = rng.integers(-9, 10, (2, *out.shape)).astype(np.int8)
    constants["bias"] = np.zeros(2, np.int32)
    tables = {name: Constant((table,), (0,)) for name, table in constants.items()}
    return check(Program(x, (*ops, conv, scores), tables, ("map",), 1.0))


def assert_equal(
    program: Program, found: Mapping[str, NDArray[Any]], raw: NDArray[Any], values: Sequence[str], member: int = 0
) -> None:
    """Every value in `values`, and the labels, are the reference's; a failure names the first that is not."""
    expected = reference.run(program, raw, member)
    for op in program.ops:
        if op.y.name not in values:
            continue
        ours, theirs = expected[op.y.name], found[op.y.name]
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), op.name
        if not np.array_equal(ours, theirs):
            raise AssertionError(_first_difference(program, op, expected[op.x.name], ours, theirs, member))
    labels = reference.labels(expected[program.output.name][:, 0, 0, :])
    np.testing.assert_array_equal(found["label"], labels)


def _first_difference(
    program: Program, op: Op, x: NDArray[Any], ours: NDArray[Any], theirs: NDArray[Any], member: int
) -> str:
    at = tuple(int(i) for i in np.argwhere(ours != theirs)[0])
    text = f"op {op.name!r}, sample {at[0]}, position {at[1:3]}, channel {at[3]}: {ours[at]}, but C gives {theirs[at]}"
    if isinstance(op, Conv):
        threshold = program.constant(op.thresholds, member)[at[3]]
        z = op.preactivation(program, x[at[0] : at[0] + 1], member)[0, :, :, at[3]]
        where = "in the whole map" if op.pool is not None else "there"
        shown = z.tolist() if op.pool is not None else int(z[at[1:3]])
        text += f"; threshold {threshold}, z {where}: {shown}; {op.window}, pool {op.pool}, groups {op.groups}"
    return text

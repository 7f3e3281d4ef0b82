"""What the tests of the ONNX target share: emitting, and comparing with the reference value by value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.program import head, reference
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Op, Program, Scores, Value, Window
from blrc.program.vectors import Vectors
from blrc.targets.onnx.emit import emit
from blrc.targets.onnx.session import OnnxRun
from blrc.targets.options import EmitOptions
from blrc.targets.requests import OnnxForm, OnnxOutputs, OnnxWeights

KINDS = ("uint8", "int8", "bits")


def options(
    name: str = "net",
    weights: OnnxWeights = "bytes",
    outputs: OnnxOutputs = "all",
    form: OnnxForm = "integer",
) -> EmitOptions:
    recorded = Vectors(np.zeros(0), ())
    return EmitOptions(name, recorded, version="1.2.3", onnx_weights=weights, onnx_outputs=outputs, onnx_form=form)


def emitted(
    program: Program, weights: OnnxWeights = "bytes", outputs: OnnxOutputs = "all", form: OnnxForm = "integer"
) -> bytes:
    return emit(program, options(weights=weights, outputs=outputs, form=form)).files["net.onnx"]


def difference(
    program: Program, op: Op, want: NDArray[Any], got: NDArray[Any], x: NDArray[Any], member: int = 0
) -> str:
    """The first difference of one value by name, or nothing."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"op {op.name!r}: {got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    wrong = np.argwhere(want != got)
    if not len(wrong):
        return ""
    sample, row, column, channel = wrong[0]
    where = f"op {op.name!r}, sample {sample}, position ({row}, {column}), channel {channel}, {len(wrong)} in all"
    if isinstance(op, Conv) and op.pool is None:
        z = op.preactivation(program, x[sample : sample + 1], member)[0, row, column, channel]
        where += f", z {z}, threshold {program.constant(op.thresholds, member)[channel]}"
    return f"{where}: {got[tuple(wrong[0])]}, expected {want[tuple(wrong[0])]}"


def assert_answers(got: head.Answer, want: head.Answer) -> None:
    """Equal in every number and type."""
    for name in ("label", "log_p", "mean", "variance", "members"):
        ours, theirs = getattr(got, name), getattr(want, name)
        assert ours.dtype == np.int64, name
        assert np.array_equal(ours, theirs), name


def assert_agrees(program: Program, run: OnnxRun, raw: NDArray[Any]) -> None:
    """Every value of every member, and what the file itself gives."""
    answer, scores = run.classify(raw)
    assert scores.dtype == np.int32
    assert scores.shape == (len(raw), len(program.members), program.classes)
    for member in range(len(program.members)):
        want, got = reference.run(program, raw, member), run.run(raw, member)
        assert set(got) == set(want)
        for op in program.ops:
            message = difference(program, op, want[op.y.name], got[op.y.name], want[op.x.name], member)
            assert not message, f"member {member}: {message}"
        assert np.array_equal(scores[:, member], want[program.output.name][:, 0, 0])
    assert_answers(answer, reference.answer(program, raw))


def one_layer(
    x: Value,
    window: Window,
    weights: NDArray[np.uint32],
    thresholds: NDArray[np.int32],
    groups: int = 1,
    pool: Window | None = None,
) -> Program:
    """A convolution (``conv``) whose bits are all scored, each with weights of its own."""
    size = window.output(*x.shape[:2])
    size = size if pool is None else pool.output(*size)
    bits = Value("conv.bits", "bits", (*size, len(weights)))
    conv = Conv("conv", x, bits, "conv.weights", "conv.thresholds", window, groups, pool)
    rng = np.random.default_rng(0)
    score_weights = rng.integers(-128, 128, (3, *bits.shape)).astype(np.int8)
    constants = {
        "conv.weights": weights,
        "conv.thresholds": thresholds,
        "scores.weights": score_weights,
        "scores.bias": np.array([5, -6, 0], dtype=np.int32),
    }
    scores = Scores("scores", bits, Value("scores", "int32", (1, 1, 3)), "scores.weights", "scores.bias")
    tables = {name: Constant((table,), (0,)) for name, table in constants.items()}
    return check(Program(x, (conv, scores), tables, ("map",), 0.5))

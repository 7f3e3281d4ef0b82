"""Binary scores on maps of every size of tail, alone: C under sanitizers and ONNX Runtime give the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from by_night import where
from c_exports import export
from onnx_agreement import assert_agrees, emitted
from random_programs import random_inputs

from blrc.errors import BlrcError
from blrc.net.bits import pack_signs
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import BinaryScores, Constant, Program, Value
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.onnx.session import OnnxRun

SHAPES = ((1, 1, 1), (1, 1, 32), (1, 1, 512), (3, 2, 31), (2, 3, 33), (7, 7, 64), (5, 1, 100))


def only_scores(shape: tuple[int, int, int], members: int = 2, classes: int = 5) -> Program:
    """Bits in, scores out; multipliers of both signs up to the largest legal one."""
    rng = np.random.default_rng(shape[2])
    x, y = Value("input", "bits", shape), Value("scores", "int32", (1, 1, classes))
    op = BinaryScores("last", x, y, "w", "m", "b")
    largest = (2**30 - 1) // op.fan_in - 1
    sizes = [1, -largest, largest, 0, -largest // 3]
    constants = {
        "w": [pack_signs(rng.integers(0, 2, (classes, *shape)) * 2 - 1) for _ in range(members)],
        "m": [np.roll(sizes, k).astype(np.int32) for k in range(members)],
        "b": [np.full(classes, (-1) ** k * (op.fan_in // 2), np.int32) for k in range(members)],
    }
    tables = {name: Constant(tuple(found), tuple(range(members))) for name, found in constants.items()}
    return check(Program(x, (op,), tables, tuple(f"sample 0:{k}" for k in range(members)), 2.0**-16))


@pytest.mark.parametrize("shape", where(lambda shape: shape in ((1, 1, 1), (2, 3, 33)), SHAPES))
def test_every_shape(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    program = only_scores(shape)
    raw = random_inputs(program, 40)
    # The inputs that give the smallest and the largest sum of a class.
    plus = program.constant("w")[..., None] >> np.arange(32, dtype=np.uint32) & 1
    plus = plus.reshape(*plus.shape[:3], -1)[..., : shape[2]].astype(bool)
    raw = np.concatenate([raw, plus, ~plus])
    assert_agrees(program, OnnxRun(emitted(program), program), raw)
    export(program, tmp_path, raw[:3])
    with HostBuild(tmp_path, "net", SANITIZE) as c:
        for member in range(2):
            found = c.run(raw, member)
            expected = reference.scores(program, raw, member)
            np.testing.assert_array_equal(found["scores"][:, 0, 0], expected)
            np.testing.assert_array_equal(found["label"], reference.labels(expected))
            np.testing.assert_array_equal(c.run_op("last", raw, member)[:, 0, 0], expected)
        c.selftest()
    n = int(np.prod(shape))
    reached = np.abs(reference.scores(program, raw).astype(np.int64)).max()
    assert reached > 2**30 * 0.9 - 2 * n  # the table's largest multiplier met the largest sum


def test_sums_that_onnx_runtimes_cannot_hold_are_refused() -> None:
    x, y = Value("input", "bits", (1, 1, 2**22 + 2**17)), Value("scores", "int32", (1, 1, 1))
    weights = np.zeros((1, 1, 1, x.shape[2] // 32), np.uint32)
    tables = {"w": weights, "m": np.ones(1, np.int32), "b": np.zeros(1, np.int32)}
    constants = {name: Constant((table,), (0,)) for name, table in tables.items()}
    program = check(Program(x, (BinaryScores("last", x, y, "w", "m", "b"),), constants, ("map",), 1.0))
    with pytest.raises(BlrcError, match="target onnx: layer 'last': its sums may not fit int32"):
        emitted(program)

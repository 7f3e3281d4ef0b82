"""Pooling windows that have nothing of the map, as dilated ones may, give code 0 and bits of -1."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from c_exports import export
from onnx_agreement import assert_agrees, emitted
from random_programs import Builder, random_inputs

from blrc.program.program import Value, Window
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.onnx.session import OnnxRun

WIDTH = 2
POOL = Window((1, 2), (1, 1), (0, 3, 0, 3), (1, 3))
"""Leaves the window in the middle of five without a pixel: it sees the columns -1 and 2, and there are two columns."""

CASES = list(product((0, 2, 8), (0, 2, 8), (False, True)))
"""Lists the bits of the codes that a layer reads and writes, 0 for +-1, and whether its weights may be 0."""


def case(builder: Builder, name: str, reads: int, writes: int, ternary: bool) -> None:
    """Add a layer that pools nothing in places, behind one that makes what it reads."""
    builder.bits, builder.ternary = reads, False
    builder.conv(f"feed{name}", Window((1, 1)), None, 1, 33)
    builder.bits, builder.ternary = writes, ternary
    builder.conv(f"case{name}", Window((1, 1)), POOL, 1, 35)
    builder.ternary = False


def start() -> Builder:
    return Builder(Value("input", "bits", (1, WIDTH, 7)), np.random.default_rng(3), members=1)


@pytest.mark.slow("compiles every kernel of levels with sanitizers")
def test_regression_a_pool_of_nothing_gives_what_was_in_memory(tmp_path: Path) -> None:
    """Kernels of levels, and of ternary weights, took the sums of the window before."""
    builder = start()
    first = builder.x, builder.sample
    for i, values in enumerate(CASES):
        builder.x, builder.sample = first
        case(builder, str(i), *values)
    program = builder.finish(np.int8)
    rng, kernels = np.random.default_rng(1), set()
    with HostBuild(export(program, tmp_path, random_inputs(program, 1)), "net", SANITIZE) as c:
        for op in program.ops:
            if not op.name.startswith("case"):
                continue
            kernels.add(c.step(op.name).kernel)
            maps = rng.integers(0, op.x.element.high + 1, (6, *op.x.shape)).astype(op.x.element.value)
            expected = op.run(program, maps)
            assert not expected[:, :, 2].any() and expected[:, :, [0, 1, 3, 4]].any()
            np.testing.assert_array_equal(c.run_op(op.name, maps), expected, err_msg=op.name)
    assert kernels >= {"conv_planes", "conv_bytes", "conv_ternary", "conv_ternary_planes", "conv_ternary_bytes"}


@pytest.mark.parametrize("values", CASES, ids=str)
def test_onnx_gives_the_same(values: tuple[int, int, bool]) -> None:
    builder = start()
    case(builder, "", *values)
    program = builder.finish(np.int8)
    assert_agrees(program, OnnxRun(emitted(program), program), random_inputs(program, 9))

"""Pixels that become bits, and maps that become vectors, at the edges of words: C under sanitizers, ONNX's forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from by_night import first
from c_exports import assert_equal, export
from onnx_agreement import assert_agrees, emitted
from random_programs import Builder, random_inputs

from blrc.errors import BlrcError
from blrc.net.window import Window
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import Program, Value
from blrc.targets.c.build.host import SANITIZE, HostBuild
from blrc.targets.onnx.session import OnnxRun

SHAPES = [(1, 1, 1), (1, 1, 31), (1, 1, 784), (3, 5, 1), (2, 3, 32), (4, 4, 3), (1, 7, 33), (2, 2, 65), (5, 1, 64)]


def program_of(shape: tuple[int, int, int], flat: bool) -> Program:
    """binarize (to a vector if `flat`), a dense layer of a map that is packed before a second one."""
    builder = Builder(Value("input", "uint8", shape), np.random.default_rng(sum(shape)), 2)
    builder.binarize(flat)
    if not flat:
        builder.flatten()
    builder.conv("dense", Window((1, 1)), None, 1, 5)
    return builder.finish(np.int8)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_vector_is_the_map_in_order(shape: tuple[int, int, int]) -> None:
    for flat in (False, True):
        program = program_of(shape, flat)
        raw = random_inputs(program, 6)
        limits = program.constants["binarize.thresholds"].tables[0]
        values = reference.run(program, raw)
        want = np.stack([[x >= limits[i % len(limits)] for i, x in enumerate(row.ravel())] for row in raw])
        assert np.array_equal(values["input.bits" if flat else "flat.bits"].reshape(len(raw), -1), want)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("shapes", first(1, [SHAPES[-4::2], SHAPES]), ids=len)
def test_c_computes_every_shape(tmp_path: Path, shapes: list[tuple[int, int, int]], flat: bool) -> None:
    for i, shape in enumerate(shapes):
        program = program_of(shape, flat)
        raw = random_inputs(program, 6)
        with HostBuild(export(program, tmp_path / str(i), raw), "net", SANITIZE) as c:
            kernels = [step.kernel for step in c.layout.steps]
            assert kernels[0] == "binarize" and ("flatten" in kernels) == (not flat)
            assert_equal(program, c.run(raw), raw, [step.y.name for step in c.layout.steps])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("form", ["integer", "float"])
def test_onnx_computes_every_shape(flat: bool, form: str) -> None:
    for shape in SHAPES:
        program = program_of(shape, flat)
        assert_agrees(program, OnnxRun(emitted(program, form=form), program), random_inputs(program, 5))  # type: ignore[arg-type]


def test_a_packed_map_takes_as_many_words_as_it_has_bits() -> None:
    """1, 8 and 40 channels of 28 x 28 pixels before a dense layer of 64: no gaps, and none were left by 32."""
    from random_networks import checkpoint_of
    from torch import nn

    from blrc import nn as bnn
    from blrc.app.export import build
    from blrc.frontend.sample import MAP

    for channels in (1, 8, 32, 40):
        model = nn.Sequential(
            bnn.SteConv2d(1, channels, 1), bnn.SteSign(), nn.Flatten(), bnn.SteLinear(784 * channels, 64),
            bnn.SteSign(), bnn.SteLinear(64, 3),
        )  # fmt: skip
        program, _ = build(checkpoint_of(model, "uint8", (1, 28, 28), samples=2), [MAP])
        assert program.constants["3.weights"].nbytes == 64 * 4 * -(-784 * channels // 32)
        assert ("flatten" in [op.kind for op in program.ops]) == (channels % 32 != 0)


def test_illegal_ones_are_refused_by_name() -> None:
    from dataclasses import replace

    program = program_of((3, 5, 1), False)
    binarize, flat, *rest = program.ops
    wrong = [
        replace(binarize, y=Value("input.bits", "bits", (1, 1, 14))),
        replace(binarize, y=Value("input.bits", "int8", (3, 5, 1))),
    ]
    for op in wrong:
        with pytest.raises(BlrcError, match="op 'binarize'"):
            check(replace(program, ops=(op, flat, *rest)))
    with pytest.raises(BlrcError, match="op 'flat': flatten must make one vector"):
        check(replace(program, ops=(binarize, replace(flat, y=Value("flat.bits", "bits", (1, 1, 16))), *rest)))
    limits = program.constants["binarize.thresholds"]
    for bad in (-1, 257):
        held = {**program.constants, "binarize.thresholds": replace(limits, tables=(np.array([bad], np.int16),))}
        with pytest.raises(BlrcError, match="op 'binarize': its thresholds are not from 0 to 256"):
            check(replace(program, constants=held))

"""Programs of other sizes are legal, and the sizes are those of a network that was made so."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from by_night import first
from hypothesis import given
from hypothesis import strategies as st
from random_networks import checkpoint_of
from random_programs import gated, random_program
from torch import nn

from blrc import nn as bnn
from blrc.frontend.sample import sample
from blrc.inspection.what_if import first_members, largest, narrower, shared_weights
from blrc.lowering.lower import lower
from blrc.program import reference
from blrc.program.legal import check
from blrc.program.program import Conv
from blrc.targets.c.layout.layout import lay_out
from blrc.verification.inputs.stimuli import random_inputs


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_first_members_stay_what_they_are(count: int) -> None:
    program = gated(random_program(3, members=3), 60000)
    fewer = check(first_members(program, count))
    raw = random_inputs(program.input, 5, 0)
    for member in range(count):
        np.testing.assert_array_equal(reference.scores(fewer, raw, member), reference.scores(program, raw, member))
    assert fewer.members == program.members[:count]
    assert fewer.gate == (60000 if count > 1 else 0)
    assert all(len(set(constant.of_member)) == len(constant.tables) for constant in fewer.constants.values())


def test_shared_weights_are_stored_once() -> None:
    program = random_program(3, members=3)
    name = next(op.name for op in program.ops if isinstance(op, Conv))
    before, after = lay_out(program), lay_out(check(shared_weights(program, {name})))
    for old, new in zip(before.steps, after.steps, strict=True):
        for table, other in zip(old.tables, new.tables, strict=True):
            shared = old.op.name == name and table.role == "weights"
            assert len(other.arrays) == (1 if shared else len(table.arrays))


def network(width: int) -> nn.Module:
    return nn.Sequential(
        bnn.BinaryConv2d(3, 8 * width, 3, padding=1),
        bnn.StochasticBatchNorm2d(8 * width),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        bnn.BinaryConv2d(8 * width, 8 * width, 3, padding=1, groups=8 * width),
        bnn.StochasticBatchNorm2d(8 * width),
        bnn.StochasticSign(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        bnn.BinaryLinear(8 * width * 2 * 2, 16 * width),
        bnn.StochasticBatchNorm1d(16 * width),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(16 * width, 5),
    )


@pytest.mark.parametrize("sizes", first(3, [(8, 3), (5, 4), (7, 3), (8, 5), (8, 1), (8, 2), (8, 4), (8, 6), (8, 7)]))
def test_a_narrower_program_has_the_sizes_of_a_narrower_network(sizes: tuple[int, int]) -> None:
    """Where the channels of either fill no words, a flatten packs them before the dense layer."""
    of, width = sizes
    whole, thin = (lower([sample(checkpoint_of(network(n), "uint8", (3, 8, 8)), running=True)]) for n in (of, width))
    packs = [any(op.kind == "flatten" for op in program.ops) for program in (whole, thin)]
    assert packs == [of % 4 != 0, width % 4 != 0]
    found = narrower(whole, Fraction(width, of))
    assert found is not None
    assert [op.kind for op in found.ops] == [op.kind for op in thin.ops]
    ours, theirs = lay_out(check(found)), lay_out(thin)
    assert [step.y.shape for step in ours.steps] == [step.y.shape for step in theirs.steps]
    assert [step.flash for step in ours.steps] == [step.flash for step in theirs.steps]
    assert ours.arena_bytes == theirs.arena_bytes


@pytest.mark.nightly
@given(st.integers(0, 80), st.sampled_from(["uint8", "int8", "bits"]))
def test_a_narrower_program_is_legal_or_none(seed: int, kind: str) -> None:
    program = random_program(seed, kind)
    found = narrower(program, Fraction(3, 8))
    grouped = any(isinstance(op, Conv) and op.groups not in (1, op.x.shape[2]) for op in program.ops)
    assert (found is None) == grouped
    if found is not None:
        check(found)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(-3, 25))
def test_the_largest_that_fits(low: int, span: int, limit: int) -> None:
    fitting = [count for count in range(low, low + span + 1) if count <= limit]
    assert largest(low, low + span, lambda count: count <= limit) == max(fitting, default=None)

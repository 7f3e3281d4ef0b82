"""Weights of -1, 0 and +1: every decision of small layers against decimals, and whole networks against torch."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from random_networks import raw_samples, ternary_nets
from torch.nn import functional as F

from blrc.errors import BlrcError
from blrc.lowering.fold import parities
from blrc.lowering.lower import lower
from blrc.lowering.single import reachable
from blrc.net.encoding import bits, device_layout
from blrc.net.net import Conv, Dense, Moments, Net, Norm, Sign, Softmax
from blrc.program import reference
from blrc.program.program import BinaryScores
from blrc.program.program import Conv as Op
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

INPUTS = np.array(list(product([0, 1], repeat=5)), np.uint8)
"""Every input of a layer of five bits."""


def small(weights: NDArray[np.int8], norm: Norm, strict: bool = False) -> Net:
    outputs = len(weights)
    layers = (
        Dense("dense", "input", weights, None, ternary=True),
        norm,
        Sign("sign", "norm", strict),
        Softmax("last", "sign", np.eye(2, outputs), np.zeros(2)),
    )
    return Net(bits((5,)), layers, "map")


@pytest.mark.parametrize("seed", range(8))
def test_every_input_of_every_row(seed: int) -> None:
    """Every row of five weights, the one of zeros among them, on every input; norms of both directions, and ties."""
    rng = np.random.default_rng(seed)
    rows = np.array(list(product([-1, 0, 1], repeat=5)), np.int8)
    count = len(rows)
    gamma, beta = rng.normal(size=count), rng.choice([0.0, 0.5, -1.0], count)
    gamma[rng.random(count) < 0.05] = 0.0
    mean, variance = rng.integers(-3, 4, count).astype(float), rng.random(count) * 4
    norm = Norm("norm", "dense", gamma, beta, 1e-5, Moments(mean, variance))
    program = lower([small(rows, norm)])
    found = reference.run(program, INPUTS.reshape(-1, 1, 1, 5).astype(bool))[program.ops[0].y.name][:, 0, 0]
    sums = (2 * INPUTS.astype(int) - 1) @ rows.T.astype(int)
    with localcontext() as context:
        context.prec = 60
        for c in range(count):
            root = (Decimal(variance[c]) + Decimal(norm.eps)).sqrt()
            for z in range(-5, 6):
                value = Decimal(gamma[c]) * (z - Decimal(mean[c])) / root + Decimal(beta[c])
                assert (found[sums[:, c] == z, c] == (value >= 0)).all()
    assert len(np.unique(sums)) == 11  # sums of both parities occur


def test_sums_have_both_parities() -> None:
    layer = Dense("dense", "input", np.ones((1, 4), np.int8), None)
    assert parities(layer, True) == {0} and parities(replace(layer, ternary=True), True) == {0, 1}
    assert reachable(replace(layer, ternary=True), -4, 4, True).tolist() == list(range(-4, 5))


def test_a_strict_sign_of_what_can_be_0_is_refused() -> None:
    """A sum of five signs is never 0; one of four of them is."""
    norm = Norm("norm", "dense", np.ones(1), np.zeros(1), 0.0, Moments(np.zeros(1), np.ones(1)))
    net = small(np.array([[1, -1, 0, 1, 1]], np.int8), norm, strict=True)
    with pytest.raises(BlrcError, match="layer 'sign': channel 0 can be exactly 0"):
        lower([net])
    binary = replace(net.layers[0], weights=np.ones((1, 5), np.int8), ternary=False)
    lower([replace(net, layers=(binary, *net.layers[1:]))])


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
@pytest.mark.parametrize("seed", range(4))
def test_networks_agree_with_torch(seed: int, kind: str) -> None:
    """Pools on either side of norms, flips, groups, padding; real and ternary scores."""
    nets, encoding = ternary_nets(seed, kind, members=2)
    program = lower(nets)
    raw = raw_samples(encoding, 20, seed + 1)
    device = device_layout(raw)
    for member, net in enumerate(nets):
        labels = reference.labels(reference.scores(program, device.astype(bool) if kind == "bits" else device, member))
        agreement = torch_agreement(net, raw, labels)
        assert agreement.differences == 0 and agreement.decisions > 1000
        assert first_other_bits(program, net, raw, member) is None


@pytest.mark.parametrize("seed", range(2))
def test_sums_are_those_of_torch(seed: int) -> None:
    nets, encoding = ternary_nets(seed, "int8", members=1)
    first = next(layer for layer in nets[0].layers if isinstance(layer, Conv))
    program = lower(nets)
    op = program.ops[0]
    assert isinstance(op, Op) and op.ternary and (op.numbers(program) == 0).any()
    raw = raw_samples(encoding, 5, seed)
    x = torch.from_numpy(encoding.maps(raw).astype(np.float64))
    top, left, bottom, right = first.window.padding
    weights = torch.from_numpy(first.weights.astype(np.float64))
    z = F.conv2d(
        F.pad(x, (left, right, top, bottom)), weights, stride=first.window.stride, dilation=first.window.dilation
    )
    found = op.preactivation(program, device_layout(raw)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(np.abs(found), np.abs(z.numpy()))  # rows may be flipped


def test_a_ternary_last_layer() -> None:
    nets, _ = ternary_nets(1, "bits", members=1)
    last = lower(nets).ops[-1]
    assert isinstance(last, BinaryScores) and last.ternary

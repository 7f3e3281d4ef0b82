"""Weights of 8 bits: every reachable sum against 60-digit decimals, and whole networks against torch in float64."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from by_night import rows_where
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import encoding_of, raw_samples
from torch import nn
from whole_networks import foreign_network, randomised, whole_network

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, sample
from blrc.frontend.saving import from_model
from blrc.lowering.calibrate import calibrate, folded, passes
from blrc.lowering.lower import lower
from blrc.lowering.preactivations import preactivation
from blrc.net.encoding import bits, device_layout
from blrc.net.net import Conv, Dense, Flatten, Levels, MaxPool, Moments, Net, Norm, Sign, Softmax, Sums
from blrc.net.pieces import Stage, pieces
from blrc.net.window import Window
from blrc.program import reference
from blrc.program.program import Conv as ConvOp
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

Network = Callable[[int], tuple[nn.Sequential, str, tuple[int, int, int]]]
NETWORKS: list[tuple[Network, int]] = [(make, n) for n in range(12) for make in (whole_network, foreign_network)]
FLOATS = st.floats(-9, 9, width=32)
MADE_OF: st.SearchStrategy[int | tuple[int, int]] = st.sampled_from([0, 1, 2, (0, 2), (-1, 1), (-2, 1), (-3, 0)])
VARIANCES = st.floats(0, 9, width=32)
WEIGHTS = st.lists(st.sampled_from([-127, -5, -1, 0, 1, 2, 127]), min_size=1, max_size=3)
UNITS = st.sampled_from([1.0, float(np.float32(0.1)), float(np.float32(1e-4)), 2.0**-20])


def side(norm: Norm, x: Fraction, at: Fraction) -> int | None:
    """Return the sign of what the norm of a value exceeds `at` by, by sixty digits; None where these do not tell."""
    assert isinstance(norm.statistics, Moments)
    with localcontext() as context:
        context.prec = 60
        value = Decimal(x.numerator) / Decimal(x.denominator)
        root = (Decimal(norm.statistics.variances[0]) + Decimal(norm.eps)).sqrt()
        normed = Decimal(norm.gamma[0]) * (value - Decimal(norm.statistics.means[0])) / root + Decimal(norm.beta[0])
        far = normed - Decimal(at.numerator) / Decimal(at.denominator)
        return None if abs(far) < Decimal("1e-40") and far else (far > 0) - (far < 0)


@settings(max_examples=40, deadline=None)
@given(
    FLOATS, FLOATS, FLOATS, st.floats(0, 9, width=32), UNITS, st.none() | FLOATS, WEIGHTS, st.sampled_from([0, 1, 2])
)
def test_the_code_of_every_reachable_sum(
    gamma: float,
    beta: float,
    mean: float,
    variance: float,
    unit: float,
    bias: float | None,
    weights: list[int],
    made_of: int | tuple[int, int],
) -> None:
    """Compare signs (0), levels of so many bits, and levels between two ends whose ties go to even numbers."""
    numbers = Moments(np.array([mean]), np.array([variance]))
    norm = Norm("norm", "dense", np.array([gamma]), np.array([beta]), 1e-5, numbers)
    first = Conv("first", "input", np.ones((len(weights), 1, 1, 1), np.int8), None, Window((1, 1)), 1)
    step = Fraction(float(np.float32(0.3)))
    made = Levels("made", "first", 3, float(step))
    held = None if bias is None else np.array([bias])
    linear = Dense("dense", "flat", np.array([weights], np.int8), held, unit=np.array([unit]))
    ends = made_of if isinstance(made_of, tuple) else None
    low, high = ends or (0, 2**made_of - 1 if isinstance(made_of, int) else 0)
    code_bits = (high - low).bit_length()
    sign = Levels("s", "norm", code_bits, 0.5, ends) if made_of else Sign("s", "norm")
    layers = (
        first,
        made,
        Flatten("flat", "made"),
        linear,
        norm,
        sign,
        Softmax("last", "s", np.ones((2, 1)), np.zeros(2)),
    )
    stage = next(p for p in pieces(Net(bits((1, 1, 1)), layers, "map")) if isinstance(p, Stage) and p.linear is linear)
    rule = folded(stage, bits((1, 1, 1)), True)
    reachable = {0}
    for weight in weights:
        reachable = {z + weight * c for z in reachable for c in range(8)}
    for z in reachable:
        real = step * z * Fraction(unit) + Fraction(bias or 0.0)
        found = int(passes(rule, np.array([[z]]))[0, 0])
        if made_of and rule.inverted[0]:
            found = 2**code_bits - 1 - found
        steps = range(low + 1, high + 1) if made_of else [0]
        sides = [side(norm, real, Fraction(2 * n - 1, 4) if made_of else Fraction(0)) for n in steps]
        reached = [
            s is not None and (s > 0 or (s == 0 and (ends is None or n % 2 == 0)))
            for n, s in zip(steps, sides, strict=True)
        ]
        assert None in sides or found == sum(reached)


@pytest.mark.parametrize(("network", "seed"), rows_where(lambda row: row[1] < 4, NETWORKS))
def test_every_code_of_a_network_is_that_of_torch(network: Network, seed: int) -> None:
    model, kind, shape = network(seed)
    randomised(model, seed, shape, [7, 1, 127][seed % 3])
    encoding = encoding_of(kind, shape)
    net = sample(from_model(model, encoding, raw_samples(encoding, 4, seed), source="net.pt"), MAP, running=True)
    program = lower([net])
    raw = raw_samples(encoding, 20, seed + 1)
    device = device_layout(raw)
    values = reference.run(program, device.astype(bool) if kind == "bits" else device)
    x = torch.from_numpy(encoding.maps(raw).astype(np.float64) / encoding.scale)
    stages = [piece for piece in pieces(net) if isinstance(piece, Stage)]
    ends = {stage.sign.name: stage for stage in stages}
    last = {op.name.partition(".")[0]: op.y for op in program.ops}  # what was turned back comes behind
    decided = 0
    with torch.no_grad():
        for name, module in model.named_children():
            x = module(x)
            if name not in ends:
                continue
            stage = ends[name]
            y = last.get(name, last[stage.linear.name])
            if isinstance(module, bnn.SteLevels | bnn.EvenLevels):
                low = module.low if isinstance(module, bnn.EvenLevels) else 0
                theirs = np.rint(x.numpy() / float(module.step) - low).astype(np.uint8)
            else:
                theirs = x.numpy() > 0
            ours = values[y.name]
            ours = ours[:, 0, 0] if theirs.ndim == 2 else ours.transpose(0, 3, 1, 2)
            turned = folded(stage, encoding, stage is not stages[0]).inverted
            assert not turned.any() or name in last or isinstance(module, bnn.SteSign)
            if isinstance(module, bnn.SteSign):
                ours = ours != turned.reshape(1, -1, *[1] * (ours.ndim - 2))
            np.testing.assert_array_equal(ours, theirs)
            decided += ours.size
    assert decided > (20_000 if network is whole_network else 5_000)
    convs = [op for op in program.ops if isinstance(op, ConvOp) and not op.name.endswith(".turned")]
    whole, ternary = sum(op.whole for op in convs), sum(op.ternary for op in convs)
    if network is whole_network:
        assert (whole, ternary) == (4, 0)
    else:  # weights of -1, 0 and +1 alone take the kernels of these
        assert (whole, ternary) == ((0, 3) if seed % 3 == 1 else (3, 0))
    assert first_other_bits(program, net, raw) is None
    agreement = torch_agreement(net, raw, reference.labels(values["scores"][:, 0, 0]))
    assert agreement.differences == 0 and agreement.decisions > 1000


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_statistics_are_those_of_the_sums_in_real_units(seed: int) -> None:
    """Estimated anew, mean and variance of the first norm are those of torch's values."""
    model, kind, shape = whole_network(seed)
    randomised(model, seed)
    encoding = encoding_of(kind, shape)
    raw = raw_samples(encoding, 30, seed)
    net = calibrate(sample(from_model(model, encoding, raw, source="net.pt"), MAP), raw)
    stage = next(piece for piece in pieces(net) if isinstance(piece, Stage))
    assert stage.norm is not None and stage.linear.unit is not None
    statistics = stage.norm.statistics
    assert isinstance(statistics, Sums)
    x = torch.from_numpy(encoding.maps(raw).astype(np.float64) / encoding.scale)
    with torch.no_grad():
        for module in model:
            if isinstance(module, nn.BatchNorm2d):
                break
            x = module(x)
    unit = stage.linear.unit / encoding.scale
    bias = 0.0 if stage.linear.bias is None else stage.linear.bias
    means = np.array([float(statistics.mean(c)) for c in range(9)]) * unit + bias
    variances = np.array([float(statistics.variance(c)) for c in range(9)]) * unit**2
    np.testing.assert_allclose(means, x.mean((0, 2, 3)).numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variances, x.var((0, 2, 3)).numpy(), rtol=1e-9)


def test_sums_are_exact_where_float32_is_not() -> None:
    """The largest sums of 8 bits, 4,000 x 255 x 127, are beyond 2^24: one more or less must not be lost."""
    weights = np.full((2, 4000), 127, np.int8)
    weights[1, 0] = 126
    linear = Dense("dense", "x", weights, None, unit=np.ones(2))
    z = preactivation(linear, np.full((1, 4000), 255, np.uint8), 255)
    assert z.tolist() == [[4000 * 255 * 127, 4000 * 255 * 127 - 255]]


def test_a_threshold_lies_within_what_the_weights_can_reach() -> None:
    """Not within what weights of 127 could: the range of each member is its own."""
    linear = Dense("dense", "flat", np.array([[3, -2]], np.int8), None, unit=np.array([0.5]))
    numbers = Moments(np.array([99.0]), np.array([1.0]))
    norm = Norm("norm", "dense", np.array([1.0]), np.array([0.0]), 0.0, numbers)
    layers = (
        Flatten("flat", "input"),
        linear,
        norm,
        Sign("s", "norm"),
        Softmax("last", "s", np.ones((2, 1)), np.zeros(2)),
    )
    net = Net(bits((2, 1, 1)), layers, "map")
    program = lower([net])
    op = program.ops[0]
    assert isinstance(op, ConvOp) and op.bounds(program) == (-5, 5)
    assert program.constant(op.thresholds).tolist() == [6]
    wider = replace(net, layers=(layers[0], replace(linear, weights=np.array([[3, -9]], np.int8)), *layers[2:]))
    assert lower([net, replace(wider, member="sample 0:1")]).bounds(op) == (-12, 12)


def test_what_has_no_form_is_refused_by_layer() -> None:
    cases = {
        "'1': ends the network with weights of 8 bits": [bnn.Int8Linear(8, 3)],
        "'2': its input, from '1', is not binary": [bnn.Int8Linear(8, 3), bnn.SteLinear(3, 2)],
    }
    for message, layers in cases.items():
        model = nn.Sequential(nn.Flatten(), *layers)
        with pytest.raises(BlrcError) as error:
            lower([sample(from_model(model, encoding_of("bits", (2, 2, 2)), None, source="net.pt"), MAP, running=True)])
        assert re.search(message, str(error.value))


@pytest.mark.parametrize("ends", [(0, 1), (0, 2), (0, 3), (-1, 1), (-2, 1), (-3, 0), (-3, 4), (-4, 3), (-128, 127)])
@pytest.mark.parametrize("falls", [False, True])
def test_a_tie_goes_to_the_even_number_as_in_torch(ends: tuple[int, int], falls: bool) -> None:
    """Every second sum is a tie, and outputs rise or fall with the sum, also behind a pool."""
    count = 300
    unit = np.full(1, -0.25 if falls else 0.25)
    linear = Conv("conv", "input", np.ones((1, count, 1, 1), np.int8), None, Window((1, 1)), 1, unit=unit)
    sign = Levels("s", "pool" if falls else "conv", (ends[1] - ends[0]).bit_length(), 0.5, ends)
    layers = [linear, sign, Flatten("flat", "s"), Softmax("last", "flat", np.ones((2, 1)), np.zeros(2))]
    if falls:  # the pool sees the values before they are turned round
        layers.insert(1, MaxPool("pool", "conv", Window((1, 1))))
    (stage, *_) = pieces(Net(bits((count, 1, 1)), tuple(layers), "map"))
    assert isinstance(stage, Stage)
    rule = folded(stage, bits((count, 1, 1)), True)
    z = np.arange(-count, count + 1, dtype=np.int64)[:, None]
    found = passes(rule, z).astype(np.int64)
    found = np.where(rule.inverted, sign.most - found, found)
    expected = torch.round(torch.from_numpy(z) * float(unit[0]) / 0.5).clamp(*ends).numpy() - ends[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 32, 63, 64, 127])
def test_a_last_layer_of_whole_numbers_is_not_rounded(most: int) -> None:
    """Take networks that were quantised elsewhere, also behind levels, whose step goes into the weights."""
    rng = np.random.default_rng(most)
    numbers = rng.integers(-most, most + 1, (4, 6))
    numbers[0, 0] = most
    unit, step = float(np.float32(0.0123)), float(np.float32(0.3))
    linear = Dense("dense", "flat", np.ones((6, 2), np.int8), None)
    layers = (
        Flatten("flat", "input"),
        linear,
        Levels("s", "dense", 2, step),
        Softmax("last", "s", numbers * unit, np.zeros(4)),
    )
    program = lower([Net(bits((2, 1, 1)), layers, "map")])
    held = program.constant("last.weights").reshape(4, 6)
    assert (held == numbers * (127 // most)).all()
    assert program.score_scale == pytest.approx(unit * step / (127 // most), rel=1e-12)


def test_averages_of_levels_below_0_are_padded_with_no_count() -> None:
    model = nn.Sequential(
        bnn.WholeConv2d(2, 4, 1),
        bnn.EvenLevels(-1, 1),
        nn.AvgPool2d(2, padding=1),
        nn.Flatten(),
        bnn.SoftmaxLinear(36, 3),
    )
    with pytest.raises(BlrcError, match="layer '2': pads signs, or levels below 0, with zeros, for which there is no"):
        lower([sample(from_model(model, encoding_of("bits", (2, 4, 4)), None, source="net.pt"), MAP, running=True)])

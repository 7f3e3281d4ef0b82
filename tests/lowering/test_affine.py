"""Multiplier and bias of binary scores against decimal arithmetic, and the scores against torch in float64."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from by_night import first
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_networks import binarized_network, calibrated_net, checkpoint_of, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.sample import Member, sample
from blrc.lowering import affine as module
from blrc.lowering.affine import affine, real_scores, score_scale
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout
from blrc.net.net import Dense, Moments, Norm, Sums
from blrc.net.pieces import ScoreStage, pieces
from blrc.program import reference
from blrc.program.head import SMALLEST_SCALE
from blrc.program.program import BinaryScores
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def stage_of(
    gamma: float, beta: float, statistics: Sums | Moments | None, eps: float = 1e-5, bias: float | None = None
) -> ScoreStage:
    """One class on four inputs."""
    weights, biases = np.ones((1, 4), np.int8), None if bias is None else np.array([bias])
    norm = Norm("norm", "last", np.array([gamma]), np.array([beta]), eps, statistics)
    return ScoreStage(Dense("last", "x", weights, biases), (norm,))


def decimal(value: Fraction | float) -> Decimal:
    exact = Fraction(value)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def rounded(value: Decimal) -> int:
    """Halves up, cut where the module cuts."""
    whole = int((value + Decimal("0.5")).to_integral_value(ROUND_FLOOR))
    return max(-(2**32), min(whole, 2**32))


@given(
    gamma=floats,
    beta=floats,
    z=st.lists(st.integers(-512, 512), min_size=2, max_size=9),
    power=st.integers(-16, 40),
    eps=st.sampled_from([1e-5, 1e-3, 1.0]),
)
@example(gamma=0.0, beta=-0.5, z=[1, 2], power=0, eps=1e-5)
@example(gamma=-1.5, beta=2.5, z=[3, 3], power=0, eps=1.0)  # V = 1: slope and offset are exact halves
def test_both_are_rounded_exactly(gamma: float, beta: float, z: list[int], power: int, eps: float) -> None:
    sums = Sums(len(z), (sum(z),), (sum(v * v for v in z),))
    found = affine(stage_of(gamma, beta, sums, eps), Fraction(2) ** power)
    mean = Fraction(sum(z), len(z))
    variance = sum((v - mean) ** 2 for v in z) / (len(z) - 1) + Fraction(eps)
    with localcontext() as context:
        context.prec = 400  # a float32 has up to 150 decimal digits; squares of them decide
        slope = decimal(gamma) / decimal(variance).sqrt()
        scale = Decimal(2) ** power
        assert found.multiplier.tolist() == [rounded(slope / scale)]
        assert found.bias.tolist() == [rounded((decimal(beta) - slope * decimal(mean)) / scale)]


def test_halves_go_up() -> None:
    sums = Sums(2, (0,), (0,))  # m = 0, v = 0: with eps = 1 the score is gamma z + beta
    for value, want in ((0.5, 1), (-0.5, 0), (1.5, 2), (-1.5, -1), (2.49, 2), (-2.51, -3), (0.0, 0)):
        found = affine(stage_of(value, value, sums, 1.0), Fraction(1))
        assert (found.multiplier.tolist(), found.bias.tolist()) == ([want], [want])


def test_without_a_norm_the_score_is_z_and_the_bias() -> None:
    for bias, want in ((None, 0), (-2.25, -2.25 * 2**16)):
        linear = Dense("last", "x", np.ones((1, 4), np.int8), None if bias is None else np.array([bias]))
        found = affine(ScoreStage(linear, ()), Fraction(1, 2**16))
        assert (found.multiplier.tolist(), found.bias.tolist()) == ([2**16], [want])


def test_running_statistics_count_the_bias() -> None:
    moments = Moments(np.array([3.0]), np.array([3.0]))
    found = affine(stage_of(2.0, 1.0, moments, eps=1.0, bias=2.0), Fraction(1, 4))  # (z + 2 - 3) 2 / 2 + 1 = z
    assert (found.multiplier.tolist(), found.bias.tolist()) == ([4], [0])


@pytest.mark.nightly
@settings(max_examples=30)
@given(gamma=floats, beta=floats, other=floats)
def test_the_scale_is_the_smallest_power_of_two_that_fits_all_members(gamma: float, beta: float, other: float) -> None:
    sums = Sums(3, (1,), (9,))
    stages = [stage_of(gamma, beta, sums), stage_of(other, 0.5, sums)]
    scale = score_scale(stages)
    mantissa = np.frexp(scale)[0]
    assert mantissa == 0.5 and scale >= SMALLEST_SCALE

    def fit(unit: Fraction) -> bool:
        return all(
            2 * (4 * abs(int(found.multiplier[0])) + abs(int(found.bias[0]))) < 2**31 - 1
            for found in (affine(stage, unit) for stage in stages)
        )

    assert fit(Fraction(scale))
    assert scale == SMALLEST_SCALE or not fit(Fraction(scale) / 2)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (stage_of(np.nan, 0.0, Sums(2, (0,), (2,))), "layer 'norm': gamma of channel 0 is NaN"),
        (stage_of(1.0, np.inf, Sums(2, (0,), (2,))), "layer 'norm': beta of channel 0 is NaN or infinite"),
        (
            stage_of(1.0, 0.0, Sums(2, (0,), (0,)), eps=0.0),
            r"layer 'norm': variance \+ eps of channel 0 is not positive",
        ),
        (stage_of(1.0, 0.0, None), "layer 'norm': its norm has no statistics"),
        (stage_of(1.0, 0.0, Sums(2, (0,), (2,)), eps=-1.0), "layer 'norm': eps -1.0"),
        (stage_of(1.0, 0.0, Sums(2, (0,), (2,)), bias=np.nan), "layer 'last': bias of channel 0 is NaN"),
        (stage_of(1e308, 0.0, Sums(2, (0,), (0,)), eps=1e-300), "layer 'last': its scores are too large"),
    ],
)
def test_what_cannot_be_computed_is_named(stage: ScoreStage, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", Fraction(2) ** 20)
    with pytest.raises(BlrcError, match=message):
        score_scale([stage])


calibrated = partial(calibrated_net, binarized_network)


@pytest.mark.parametrize("seed", first(3, range(8)))
def test_scores_are_those_of_torch_in_float64(seed: int) -> None:
    checkpoint, net = calibrated(seed, ties=False)  # torch decides exact ties by rounding
    network = bnn.deterministic(checkpoint.model()).double()
    real = lambda raw: torch.from_numpy(checkpoint.encoding.codes(raw) / checkpoint.encoding.scale).double()  # noqa: E731
    bnn.reestimate(network, real(checkpoint.calibration))
    raw = raw_samples(checkpoint.encoding, 100, 3)
    program = lower([net])
    op = program.ops[-1]
    assert isinstance(op, BinaryScores)
    assert (np.abs(program.constant(op.multiplier)) > 0).any()
    device = device_layout(raw)
    found = reference.scores(program, device).astype(np.float64) * program.score_scale
    theirs = network(real(raw)).detach().numpy()
    assert np.abs(theirs).max() > 0.1
    assert np.abs(found - theirs).max() <= (op.fan_in + 1) * program.score_scale / 2 + 1e-9 * np.abs(theirs).max()
    agreement = torch_agreement(net, raw, reference.labels(reference.scores(program, device)))
    ours = found.argmax(1) == theirs.argmax(1)
    assert (agreement.differences, agreement.labels, agreement.same_labels) == (0, 100, int(ours.sum()))


@pytest.mark.parametrize("seed", first(3, range(4)))
def test_real_scores(seed: int) -> None:
    _, net = calibrated(seed)
    last = pieces(net)[-1]
    assert isinstance(last, ScoreStage)
    inputs = last.linear.weights.shape[1]
    z = np.tile(np.array([[-inputs], [0], [inputs]], np.int32), (1, 7))
    found = affine(last, Fraction(1, 2**20))
    error = np.abs(real_scores(last, z) - (found.multiplier * z + found.bias) / 2**20)
    assert error.max() <= (inputs + 1) / 2**21 + 1e-6


@pytest.mark.parametrize("seed", first(3, range(4)))
def test_programs_give_the_net_s_scores(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, net = calibrated(seed)
    raw = raw_samples(checkpoint.encoding, 50, 5)
    program = lower([net])
    assert first_other_bits(program, net, raw) is None
    name = program.ops[-1].name
    constant = program.constants[f"{name}.weights"]
    turned = replace(constant, tables=(constant.tables[0][::-1],))
    wrong = replace(program, constants={**program.constants, f"{name}.weights": turned})
    assert first_other_bits(wrong, net, raw) == name


def test_every_member_of_a_binarized_nn_is_the_same() -> None:
    checkpoint, _ = calibrated(0)
    nets = [calibrate(sample(checkpoint, member), checkpoint.calibration) for member in (Member(1, 0), Member(1, 1))]
    program = lower(nets)
    assert {len(constant.tables) for constant in program.constants.values()} == {1}


def test_sampled_members_with_a_binary_last_layer_share_one_scale() -> None:
    model = nn.Sequential(
        bnn.BinaryLinear(40, 33),
        bnn.StochasticBatchNorm1d(33),
        bnn.StochasticSign(),
        bnn.BinaryLinear(33, 5),
        bnn.StochasticBatchNorm1d(5),
    )
    checkpoint = checkpoint_of(model, "bits", (40,))
    nets = [calibrate(sample(checkpoint, Member(3, k)), checkpoint.calibration) for k in range(3)]
    program = lower(nets)
    raw = raw_samples(checkpoint.encoding, 64, 1)
    assert len(program.constants["3.multiplier"].tables) == 3
    for member, net in enumerate(nets):
        assert first_other_bits(program, net, raw, member) is None
        scale = score_scale([stage for stage in pieces(net) if isinstance(stage, ScoreStage)])
        assert scale <= program.score_scale


def test_a_row_of_zeros_does_not_make_the_scores_of_others_coarse() -> None:
    """Its variance is 0, and 1 / sqrt(eps) as its slope forced a scale upon all classes."""
    weights = np.array([[1, 1, -1, 1], [0, 0, 0, 0]], np.int8)
    statistics = Sums(4, (4, 0), (36, 0))
    norm = Norm("norm", "last", np.array([1.0, 2.0e6]), np.array([0.5, -3.0]), 1e-5, statistics)
    zero = ScoreStage(Dense("last", "x", weights, None, ternary=True), (norm,))
    alone = ScoreStage(
        Dense("last", "x", weights[:1], None),
        (Norm("norm", "last", np.array([1.0]), np.array([0.5]), 1e-5, Sums(4, (4,), (36,))),),
    )
    assert score_scale([zero]) == score_scale([alone]) == SMALLEST_SCALE
    numbers, expected = affine(zero, Fraction(SMALLEST_SCALE)), affine(alone, Fraction(SMALLEST_SCALE))
    assert numbers.multiplier.tolist() == [*expected.multiplier.tolist(), 0]
    assert numbers.bias.tolist() == [*expected.bias.tolist(), -3 * 2**16]

"""Averages as counts: every reachable sum against 60-digit decimals, and whole networks against torch in float64."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from averaged_networks import averaged_network, randomised
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import encoding_of, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, sample
from blrc.frontend.saving import from_model
from blrc.lowering.calibrate import calibrate, folded, passes
from blrc.lowering.lower import lower
from blrc.net.encoding import bits, device_layout
from blrc.net.net import AveragePool, Conv, Dense, Flatten, Levels, Moments, Net, Norm, Sign, Softmax, Sums
from blrc.net.pieces import Stage, pieces
from blrc.net.window import Window
from blrc.program import reference
from blrc.program.program import SumPool
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

FLOATS = st.floats(-9, 9, width=32)


def of_decimals(norm: Norm, mean: Fraction) -> bool | None:
    """Return whether the norm of a mean is at least 0, by sixty digits; None where these do not tell."""
    assert isinstance(norm.statistics, Moments)
    with localcontext() as context:
        context.prec = 60
        x = Decimal(mean.numerator) / Decimal(mean.denominator)
        root = (Decimal(norm.statistics.variances[0]) + Decimal(norm.eps)).sqrt()
        value = Decimal(norm.gamma[0]) * (x - Decimal(norm.statistics.means[0])) / root + Decimal(norm.beta[0])
        return None if abs(value) < Decimal("1e-40") and value else bool(value >= 0)


@settings(max_examples=60, deadline=None)
@given(FLOATS, FLOATS, FLOATS, st.floats(0, 9, width=32), st.sampled_from([(1, 1), (2, 2), (3, 3), (1, 5), (7, 9)]),
       st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=4), st.sampled_from([0, 1, 2]))  # fmt: skip
def test_the_bit_of_every_reachable_count(
    gamma: float,
    beta: float,
    mean: float,
    variance: float,
    kernel: tuple[int, int],
    weights: list[int],
    level_bits: int,
) -> None:
    """Compare averages of signs (0 bits) and of levels, for every sum of counts and not for those of one map alone."""
    numbers = Moments(np.array([mean]), np.array([variance]))
    norm = Norm("norm", "dense", np.array([gamma]), np.array([beta]), 1e-5, numbers)
    channels, taps = len(weights), math.prod(kernel)
    first = Conv("first", "input", np.ones((channels, 1, 1, 1), np.int8), None, Window((1, 1)), 1)
    step = Fraction(float(np.float32(0.3)))
    made = Levels("made", "first", level_bits, float(step)) if level_bits else Sign("made", "first")
    linear = Dense("dense", "flat", np.array([weights], np.int8), None, True)
    layers = (first, made, AveragePool("pool", "made", None), Flatten("flat", "pool"), linear, norm, Sign("s", "norm"),
              Softmax("last", "s", np.ones((2, 1)), np.zeros(2)))  # fmt: skip
    found = pieces(Net(bits((1, *kernel)), layers, "map"))
    stage = next(each for each in found if isinstance(each, Stage) and each.linear is linear)
    rule = folded(stage, bits((1, *kernel)), True)
    most = taps * (2**level_bits - 1 if level_bits else 1)
    reachable = {0}
    for weight in weights:
        reachable = {z + weight * c for z in reachable for c in range(most + 1)}
    for z in reachable:
        # Each channel's average is (2 c - N) / N of signs, and s c / N of levels.
        real = step * z / taps if level_bits else Fraction(2 * z, taps) - sum(weights)
        expected = of_decimals(norm, real)
        assert expected is None or bool(passes(rule, np.array([[z]]))[0, 0]) == expected


@pytest.mark.parametrize("seed", range(12))
def test_every_bit_of_a_network_is_that_of_torch(seed: int) -> None:
    """Sums themselves as well: a float64 of an average is so near that rounding gives the count."""
    model, kind, shape = averaged_network(seed)
    randomised(model, seed)
    encoding = encoding_of(kind, shape)
    net = sample(from_model(model, encoding, raw_samples(encoding, 4, seed), source="net.pt"), MAP, running=True)
    program = lower([net])
    raw = raw_samples(encoding, 20, seed + 1)
    device = device_layout(raw)
    values = reference.run(program, device.astype(bool) if kind == "bits" else device)
    x = torch.from_numpy(encoding.maps(raw).astype(np.float64) / encoding.scale)
    compared, unit, below = 0, 1.0, 0
    made = {op.name: op for op in program.ops}
    with torch.no_grad():
        for name, module in model.eval().named_children():
            height, width = x.shape[2:] if x.ndim == 4 else (1, 1)
            x = module(x)
            if isinstance(module, bnn.SteLevels | bnn.SteSign):
                unit, below = (float(module.step), 0) if isinstance(module, bnn.SteLevels) else (2.0, 1)
            elif isinstance(module, nn.AvgPool2d | nn.AdaptiveAvgPool2d):
                taps = height * width if isinstance(module, nn.AdaptiveAvgPool2d) else module.kernel_size**2
                unit /= taps
                op = made[name]
                assert isinstance(op, SumPool) and op.window.taps == taps
                counts = (x.numpy() + below) / unit
                assert np.abs(counts - counts.round()).max() < 1e-9
                np.testing.assert_array_equal(values[op.y.name], counts.round().transpose(0, 2, 3, 1))
                compared += 1
    assert compared >= 2
    scores = values["scores"][:, 0, 0] * program.score_scale
    # Half a unit for each weight, times the distance of a code from the middle, and for the bias.
    reach = program.ops[-1].fan_in * program.ops[-1].x.element.high
    assert np.abs(scores - x.numpy()).max() <= program.score_scale * (reach + 1) / 2 * 1.001
    assert np.abs(scores - x.numpy()).max() < 0.06 * x.numpy().std() + program.score_scale
    assert first_other_bits(program, net, raw) is None
    agreement = torch_agreement(net, raw, reference.labels(values["scores"][:, 0, 0]))
    assert agreement.differences == 0 and agreement.decisions > 1000


def test_regression_a_bias_is_rounded_once() -> None:
    """Tell classes apart by less than a unit; rounding the middle down besides gave another label.

    With one of three bits set, the scores are -127 / 2 - 1 / 10 and -126 / 2 units of 2 / 3.
    """
    net = Net(
        bits((1, 1, 3)),
        (AveragePool("pool", "input", None), Flatten("flat", "pool"),
         Softmax("last", "flat", np.array([[127.0], [126.0]]), np.array([-0.1 * 2 / 3, 0.0]))),
        "map",
    )  # fmt: skip
    program = lower([net])
    raw = np.array([[[[1, 0, 0]]]], dtype=np.uint8)
    scores = reference.scores(program, device_layout(raw))
    assert program.score_scale == pytest.approx(2 / 3, rel=1e-15)
    assert scores.tolist() == [[-64, -63]] and reference.labels(scores).tolist() == [1]


@given(
    st.lists(st.integers(-127, 127), min_size=1, max_size=40),
    st.integers(1, 255),
    st.floats(-1e6, 1e6),
    st.floats(2.0**-16, 1e3),
)
def test_biases_are_off_by_half_a_unit_at_most(weights: list[int], taps: int, bias: float, scale: float) -> None:
    softmax = Softmax("last", "x", np.ones((1, len(weights))), np.array([bias]), Fraction(taps, 2))
    (found,) = softmax.biases(np.array([weights]), scale)
    exact = Fraction(bias) / Fraction(scale) - sum(weights) * Fraction(taps, 2)
    assert found == int(found)
    assert abs(Fraction(found) - exact) <= Fraction(1, 2) + abs(exact) * Fraction(1, 2**50)


@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_statistics_are_those_of_the_averages_that_arrive(seed: int) -> None:
    """Estimated anew, mean and variance of a norm behind averages are those of torch's values, in real units."""
    model, kind, shape = averaged_network(seed)
    randomised(model, seed)
    encoding = encoding_of(kind, shape)
    raw = raw_samples(encoding, 30, seed)
    net = calibrate(sample(from_model(model, encoding, raw, source="net.pt"), MAP), raw)
    norms = {layer.name: layer for layer in net.layers if isinstance(layer, Norm)}
    stages = [piece for piece in pieces(net) if isinstance(piece, Stage)]
    assert stages[1].reads is not None
    step, below = stages[1].reads.step, int(stages[1].reads.below)
    x = torch.from_numpy(encoding.maps(raw).astype(np.float64) / encoding.scale)
    with torch.no_grad():
        for name, module in model.eval().named_children():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean, module.running_var = x.mean((0, 2, 3)), x.var((0, 2, 3))
                if norms[name] is stages[1].norm:
                    statistics = norms[name].statistics
                    assert isinstance(statistics, Sums)
                    offset = -below * stages[1].linear.weights.reshape(33, -1).sum(1)
                    bias = 0.0 if stages[1].linear.bias is None else stages[1].linear.bias
                    mean = np.array([float(step * statistics.mean(c)) for c in range(33)]) + offset + bias
                    variance = np.array([float(step**2 * statistics.variance(c)) for c in range(33)])
                    np.testing.assert_allclose(mean, x.mean((0, 2, 3)).numpy(), rtol=1e-9, atol=1e-9)
                    np.testing.assert_allclose(variance, x.var((0, 2, 3)).numpy(), rtol=1e-9)
                    return
            x = module(x)
    raise AssertionError("the second norm was not reached")


def refused(*layers: nn.Module, shape: tuple[int, int, int] = (2, 8, 8)) -> str:
    model = nn.Sequential(*layers)
    with pytest.raises(BlrcError) as error:
        lower([sample(from_model(model, encoding_of("bits", shape), None, source="net.pt"), MAP, running=True)])
    return str(error.value)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [nn.AvgPool2d(2, padding=1), nn.Flatten(), bnn.SoftmaxLinear(50, 3)],
            "'0': pads signs, or levels below 0",
        ),
        (
            [nn.AvgPool2d(2), bnn.SteConv2d(2, 4, 3, padding=1), bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(64, 3)],
            "'1': pads averages of signs, or levels below 0, from '0', with zeros, for which there is no count",
        ),
        (
            [nn.AvgPool2d(2), bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(32, 3)],
            "'1': a sign of what is codes of levels or averages; put a binary layer before it, or take a depthwise",
        ),
        (
            [nn.AvgPool2d(2), nn.BatchNorm2d(2), bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(32, 3)],
            "'1': a norm must stand between a binary layer and its sign; put .* before it, or take a depthwise conv",
        ),
        (
            [bnn.SteConv2d(2, 4, 1), nn.AvgPool2d(2), bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(64, 3)],
            "'1': its input, from '0', is not binary",
        ),
        ([nn.Flatten(), nn.AdaptiveAvgPool1d(1), bnn.SoftmaxLinear(1, 3)], "'1': .*(map|vector|shape)"),
    ],
)
def test_what_is_not_exact_is_refused_by_layer(layers: list[nn.Module], message: str) -> None:
    assert re.search(message, refused(*layers))


def test_sums_of_more_than_a_byte_are_refused_with_the_limit() -> None:
    message = refused(nn.AdaptiveAvgPool2d(1), nn.Flatten(), bnn.SoftmaxLinear(2, 3), shape=(2, 16, 16))
    assert message == (
        "layer '0': averages 256 bits, whose sum may be 256, and sums are counted up to 255; pool or stride before it"
    )
    assert len(lower([_global((2, 15, 17))]).ops) == 2


def _global(shape: tuple[int, int, int]) -> Net:
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), bnn.SoftmaxLinear(shape[0], 3))
    return sample(from_model(model, encoding_of("bits", shape), None, source="net.pt"), MAP, running=True)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.AvgPool2d(2, ceil_mode=True),
            "AvgPool2d with ceil_mode=True cannot be compiled; only ceil_mode=False can: windows beyond the map .* fit",
        ),
        (
            nn.AvgPool2d(2, padding=1, count_include_pad=False),
            "count_include_pad=False cannot be compiled; .*: windows at the border .* use padding=0",
        ),
        (nn.AvgPool2d(2, divisor_override=3), "divisor_override=3 cannot be compiled; .*: leave it out, and scale"),
        (nn.AdaptiveAvgPool2d(2), r"output_size 2 of an adaptive average: only averages over the whole map"),
        (nn.AdaptiveAvgPool2d((1, None)), r"output_size \[1, None\] of an adaptive average"),
    ],
)
def test_options_without_an_integer_form_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(BlrcError, match=f"layer '0'.*{message}"):
        from_model(nn.Sequential(module, nn.Flatten(), bnn.SteLinear(2, 3)), encoding_of("bits", (2, 8, 8)), None)


@pytest.mark.parametrize("name", ["avg_pool1d", "adaptive_avg_pool1d"])
def test_regression_functions_of_lines_name_the_module_to_use(name: str) -> None:
    """Name nn.AvgPool1d; the message named the layers of blrc.nn, of which none averages."""

    class Spelled(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self[1](torch.flatten(getattr(F, name)(self[0](x), 1), 1))  # type: ignore[no-any-return]

    model = Spelled(bnn.SteConv1d(2, 4, 3), bnn.SteLinear(4, 3))
    with pytest.raises(BlrcError, match=rf"operation '{name}' .*; use nn.AvgPool1d, or nn.AdaptiveAvgPool1d\(1\)"):
        from_model(model, encoding_of("bits", (2, 8)), None)


def test_without_padding_it_does_not_matter_what_counts() -> None:
    model = nn.Sequential(nn.AvgPool2d(4, count_include_pad=False), nn.Flatten(), bnn.SoftmaxLinear(8, 3))
    assert from_model(model, encoding_of("bits", (2, 8, 8)), None, source="net.pt").nodes[0].kind == "average_pool2d"

"""Codes of levels: every threshold against 60-digit decimals, and whole networks against torch in float64."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from by_night import rows_where
from hypothesis import given, settings
from hypothesis import strategies as st
from random_networks import encoding_of, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, sample
from blrc.frontend.saving import from_model
from blrc.lowering.calibrate import calibrate, passes
from blrc.lowering.fold import fold_stage, least, least_near
from blrc.lowering.lower import lower
from blrc.lowering.statistics import nets_of
from blrc.net.elements import Codes
from blrc.net.encoding import device_layout
from blrc.net.net import Dense, Levels, MaxPool, Moments, Net, Norm, Softmax
from blrc.net.pieces import Stage
from blrc.net.window import Window
from blrc.program import reference
from blrc.program.program import Program
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

FLOATS = st.floats(-100, 100, width=32)
STEPS = st.sampled_from([0.1, 0.25, 1.0, float(np.float32(0.3)), 7.5])
HALF = Window((2, 2), (2, 2))


def code_in_decimal(norm: Norm, z: int, scale: Fraction, step: float, most: int) -> int | None:
    """The code by sixty digits of the norm's value, or None where it is too near a threshold for these."""
    assert isinstance(norm.statistics, Moments)
    with localcontext() as context:
        context.prec = 60
        real = Decimal(z) * scale.denominator / scale.numerator
        mean, variance = Decimal(norm.statistics.means[0]), Decimal(norm.statistics.variances[0])
        root = (variance + Decimal(norm.eps)).sqrt()
        level = (Decimal(norm.gamma[0]) * (real - mean) / root + Decimal(norm.beta[0])) / Decimal(step) + Decimal("0.5")
        if abs(level - level.to_integral_value()) < Decimal("1e-40"):
            return None
        return min(max(int(level.to_integral_value(ROUND_FLOOR)), 0), most)


@settings(max_examples=60)
@given(FLOATS, FLOATS, FLOATS, st.floats(0, 100, width=32), STEPS, st.integers(1, 8), st.integers(1, 4), st.booleans())
def test_the_code_of_every_reachable_sum(
    gamma: float, beta: float, mean: float, variance: float, step: float, bits: int, read: int, pooled: bool
) -> None:
    """Read codes of `read` bits with a step of their own, so that sums count steps of 0.3."""
    numbers = Moments(np.array([mean]), np.array([variance]))
    norm = Norm("norm", "dense", np.array([gamma]), np.array([beta]), 1e-5, numbers)
    linear, levels = Dense("dense", "input", np.ones((1, 9), np.int8), None), Levels("levels", "norm", bits, step)
    chain = (MaxPool("pool", "dense", HALF), norm) if pooled else (norm,)
    before = Levels("before", "x", read, 0.3)
    stage = Stage(linear, chain, levels, reads=Codes("before", before.most, Fraction(before.step)))
    scale, bound = 1 / Fraction(before.step), 9 * before.most
    rule = fold_stage(stage, scale, -bound, bound, False)
    assert rule.threshold.shape == (1, 2**bits - 1) and (np.diff(rule.threshold) >= 0).all()
    z = np.arange(-bound, bound + 1)
    codes = passes(rule, z[:, None])[:, 0].astype(int)
    for sum_, code in zip(z.tolist(), codes.tolist(), strict=True):
        expected = code_in_decimal(norm, sum_, scale, step, levels.most)
        found = levels.most - code if rule.inverted[0] else code
        assert expected is None or found == expected
    # What is pooled is z itself, or -z, and the larger one never has the smaller result.
    turned = codes if not rule.flip[0] else codes[::-1]
    assert (np.diff(turned) >= 0).all()


@given(st.integers(-40, 40), st.integers(0, 60), st.integers(-200, 200), st.integers(-60, 120))
def test_near_a_guess_is_what_bisection_finds(low: int, length: int, guess: int, at: int) -> None:
    expected = min(max(at, low), low + length + 1)
    assert least_near(low, low + length, lambda z: z >= at, guess) == expected
    assert least(low, low + length, lambda z: z >= at) == expected


def test_a_tie_takes_the_upper_code() -> None:
    """At y = s (t - 1/2) exactly: the half is rounded up."""
    norm = Norm("norm", "dense", np.ones(1), np.zeros(1), 0.0, Moments(np.zeros(1), np.ones(1)))
    linear = Dense("dense", "input", np.ones((1, 8), np.int8), None)
    stage = Stage(linear, (norm,), Levels("levels", "norm", 2, 2.0))
    rule = fold_stage(stage, Fraction(1), -8, 8, True)
    assert rule.threshold.tolist() == [[1, 3, 5]]


def network(seed: int, bits: tuple[int, int, int]) -> tuple[nn.Sequential, str, tuple[int, int, int]]:
    """Convolutions with norms before and behind pools, padding, groups; real or binary scores; negative gammas."""
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    channels = int(rng.choice([1, 3]))
    before, after = nn.BatchNorm2d(9), nn.BatchNorm2d(33)
    pools: list[nn.Module] = [nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1)]
    first: list[nn.Module] = [before, pools[0]] if seed % 2 else [pools[0], before]
    layers: list[nn.Module] = [
        bnn.SteConv2d(channels, 9, 3, padding=1, bias=seed % 3 == 0),
        *first,
        bnn.SteLevels(bits[0], step=0.4) if bits[0] else bnn.SteSign(),
        bnn.SteConv2d(9, 33, 3, padding=1, groups=3, bias=True),
        *([after, pools[1]] if seed % 3 else [pools[1], after]),
        *([nn.ReLU()] if seed % 2 and bits[1] else []),
        bnn.SteLevels(bits[1], step=0.3) if bits[1] else bnn.SteSign(),
        *([nn.MaxPool2d(2)] if seed % 4 == 1 else []),
        nn.Flatten(),
    ]
    size = 1 if seed % 4 == 1 else 2
    last = nn.BatchNorm1d(12)
    layers += [bnn.SteLinear(33 * size * size, 12), last]
    layers += [bnn.SteLevels(bits[2], step=0.7) if bits[2] else bnn.SteSign()]
    layers += [bnn.SoftmaxLinear(12, 5)] if seed % 2 else [bnn.SteLinear(12, 5), nn.BatchNorm1d(5)]
    model = nn.Sequential(*layers)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            for values in (module.weight.data, module.bias.data, module.running_mean, module.running_var):
                values.copy_(torch.randn(values.shape, generator=generator))
            module.running_var.abs_()
            scale = 3.0 if isinstance(module, nn.BatchNorm2d) else 5.0
            module.running_mean *= scale
            module.running_var *= scale**2
        elif isinstance(module, bnn.SteConv2d | bnn.SteLinear):
            module.weight.data.copy_(torch.randn(module.weight.shape, generator=generator))
    return model.double(), ["uint8", "int8", "bits"][seed % 3], (channels, 8, 8)


CASES = [(2, 2, 2), (4, 1, 3), (8, 8, 8), (0, 2, 0), (3, 0, 5), (5, 4, 0), (1, 6, 2), (2, 7, 4)]


@pytest.mark.parametrize(("seed", "bits"), rows_where(lambda case: case[0] % 3 == 2, enumerate(CASES)))
def test_every_code_of_a_network_is_that_of_torch(seed: int, bits: tuple[int, int, int]) -> None:
    """Up to the first value that is as near to a threshold as float64 rounds, which random numbers do not hit."""
    model, kind, shape = network(seed, bits)
    encoding = encoding_of(kind, shape)
    checkpoint = from_model(model, encoding, raw_samples(encoding, 4, seed), source="net.pt")
    net = sample(checkpoint, MAP, running=True)
    program = lower([net])
    raw = raw_samples(encoding, 20, seed + 1)
    device = device_layout(raw)
    values = reference.run(program, device.astype(bool) if kind == "bits" else device)
    maps: list[torch.Tensor] = []
    for module in model:
        if isinstance(module, bnn.SteLevels):
            step = float(module.step)
            module.register_forward_hook(lambda _, __, out, step=step: maps.append(out / step))
    with torch.no_grad():
        x = torch.from_numpy(encoding.maps(raw).astype(np.float64) / encoding.scale)
        logits = model.eval()(x)
    codes = [maps.pop(0).round().numpy() for _ in range(len(maps))]
    assert len(codes) == sum(map(bool, bits))
    names = [op.y for op in program.ops if op.y.is_codes]
    for expected in codes:
        shape = expected.transpose(0, 2, 3, 1).shape if expected.ndim == 4 else (len(expected), 1, 1, expected.shape[1])
        expected = expected.transpose(0, 2, 3, 1) if expected.ndim == 4 else expected.reshape(shape)
        found = [np.array_equal(values[value.name], expected) for value in names if values[value.name].shape == shape]
        assert any(found)
    scores = values["scores"][:, 0, 0] * program.score_scale
    peak = max(1, 2 ** (bits[2] or 1) - 1)
    assert np.abs(scores - logits.numpy()).max() <= program.score_scale * (12 * peak + 1) / 2 * 1.001
    assert first_other_bits(program, net, raw) is None
    agreement = torch_agreement(net, raw, reference.labels(values["scores"][:, 0, 0]))
    assert agreement.differences == 0 and agreement.decisions > 1000


@pytest.mark.parametrize("seed", range(3))
def test_statistics_are_those_of_the_codes_that_arrive(seed: int) -> None:
    """Estimated anew, a norm's mean and variance are those of what stands before it, in real units."""
    model, kind, shape = network(2 * seed + 1, (2, 4, 8))
    encoding = encoding_of(kind, shape)
    raw = raw_samples(encoding, 30, seed)
    net = calibrate(sample(from_model(model, encoding, raw, source="net.pt"), MAP), raw)
    x = torch.from_numpy(encoding.maps(raw).astype(np.float64) / encoding.scale)
    norms = {layer.name: layer for layer in net.layers if isinstance(layer, Norm)}
    scale = Fraction(encoding.scale)
    for index, module in enumerate(model):
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            axes = [axis for axis in range(x.ndim) if axis != 1]
            statistics = norms[str(index)].statistics
            bias = model[index - 1].bias if isinstance(model[index - 1], bnn.SteConv2d) else None
            bias = model[index - 2].bias if isinstance(model[index - 2], bnn.SteConv2d) else bias
            shift = torch.zeros(x.shape[1]) if bias is None else bias.detach()
            mean = torch.tensor([float(statistics.mean(c) / scale) for c in range(x.shape[1])]) + shift
            variance = torch.tensor([float(statistics.variance(c) / scale**2) for c in range(x.shape[1])])
            assert torch.allclose(mean.double(), x.mean(axes), rtol=1e-5, atol=1e-5)
            assert torch.allclose(variance.double(), x.var(axes), rtol=1e-5, atol=1e-5)
            module.running_mean, module.running_var = x.mean(axes), x.var(axes)
        with torch.no_grad():
            x = module.eval()(x)
        if isinstance(module, bnn.SteLevels):
            scale = 1 / Fraction(float(module.step))
        elif isinstance(module, bnn.SteSign):
            scale = Fraction(1)


def levels_program(step: float = 0.5, bits: int = 2) -> Program:
    model, kind, shape = network(1, (2, 2, 2))
    encoding = encoding_of(kind, shape)
    checkpoint = from_model(model, encoding, raw_samples(encoding, 4, 0), source="net.pt")
    net = sample(checkpoint, MAP, running=True)
    layers = [Levels(layer.name, layer.x, bits, step) if isinstance(layer, Levels) else layer for layer in net.layers]
    return lower([Net(net.encoding, tuple(layers), net.member)])


@pytest.mark.parametrize(
    ("step", "bits", "message"),
    [
        (0.5, 0, "layer '3': bits 0: give a whole number from 1 to 8"),
        (0.5, 9, "layer '3': bits 9"),
        (-1.0, 2, "layer '3': step -1.0: give a positive number"),
        (math.nan, 2, "layer '3': step nan"),
    ],
)
def test_bad_options_are_refused_by_layer(step: float, bits: int, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        levels_program(step, bits)


def test_float32_rounding_is_refused() -> None:
    model, kind, shape = network(1, (2, 2, 2))
    encoding = encoding_of(kind, shape)
    checkpoint = from_model(model, encoding, raw_samples(encoding, 4, 0), source="net.pt")
    with pytest.raises(BlrcError, match="layer '3': --rounding float32 is for networks of"):
        lower(nets_of(checkpoint, [MAP], "given", "float32"))


def test_weights_that_would_all_vanish_beside_the_unit_of_scores_are_refused() -> None:
    """A step of 1e-6 took a last layer's weights below half a unit of scores, and all labels became 0."""
    with pytest.raises(BlrcError, match=r"layer '14': its weights .* would all become 0, since the unit of scores"):
        levels_program(step=1e-7)


def test_levels_of_the_raw_input_are_refused_by_what_they_are() -> None:
    layers = Levels("levels", "input", 2, 1.0), Softmax("last", "levels", np.ones((2, 4)), np.zeros(2))
    with pytest.raises(BlrcError, match="layer 'levels': levels of the raw input; put a binary layer before it"):
        lower([Net(encoding_of("int8", (1, 2, 2)), layers, "map")])

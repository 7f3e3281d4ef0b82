"""Random chains between a binary layer and its sign: torch in float64 is the oracle, for every bit and every score."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from given_steps import decision, step, values
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_networks import encoding_of, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.app.export import build, export
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, sample
from blrc.frontend.saving import from_model
from blrc.lowering.calibrate import calibrate
from blrc.lowering.chain import Affine, channel_steps, direction, evaluate, norm_moments, signs
from blrc.lowering.lower import lower
from blrc.lowering.surds import add, sign
from blrc.net.encoding import bits, device_layout
from blrc.net.net import Dense, Leak, Norm, Scale, Shift, Sums
from blrc.program import reference
from blrc.verification.oracles.agreement import torch_agreement
from blrc.verification.oracles.lowered import first_other_bits

numbers = st.fractions(min_value=-50, max_value=50, max_denominator=40)
roots = st.fractions(min_value=Fraction(1, 40), max_value=50, max_denominator=40)
SEEDS = 24
TIE = 1e-9  # of values of about 1 to 1000; below it float64 decides nothing


def network(seed: int) -> nn.Sequential:
    """Two convolutions with chains of up to five steps, one pool at most in each, and binary scores with two norms."""
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    inputs, size = 3, 12
    for outputs in (7, 33):
        layers.append(bnn.SteConv2d(inputs, outputs, 3, padding=1, bias=bool(generator.random() < 0.5)))
        pooled = False
        for _ in range(int(generator.integers(1, 6))):
            layers.append(step(generator, outputs, not pooled, seed % 2 == 1))
            pooled = pooled or isinstance(layers[-1], nn.MaxPool2d)
        layers.append(decision(generator, outputs))
        size //= 2 if pooled else 1
        inputs = outputs
    if generator.random() < 0.8:
        layers.append(nn.MaxPool2d(3))
        size //= 3
    last = nn.BatchNorm1d(5)
    last.weight.data, last.bias.data = values(generator, 5), values(generator, 5)
    layers += [
        nn.Flatten(),
        bnn.SteLinear(33 * size * size, 5),
        last,
        bnn.ChannelScale(values(generator, 5)),
    ]
    return nn.Sequential(*layers).eval()


def true_bits(model: nn.Sequential, x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """The outputs of all decisions, whether one was nearly a tie (for each sample), and the scores, in float64."""
    found, near = [], torch.zeros(len(x), dtype=torch.bool)
    for module in model.double():
        if isinstance(module, bnn.SteSign | bnn.Threshold):
            at = module.at.reshape(1, -1, 1, 1) if isinstance(module, bnn.Threshold) else 0
            distance = (x - at).abs()
            near |= ((distance > 0) & (distance < TIE)).flatten(1).any(1)
        x = module(x)
        if isinstance(module, bnn.SteSign | bnn.Threshold):
            found.append(x)
    return found, near, x


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_label_and_score_is_that_of_torch(seed: int) -> None:
    model = network(seed)
    encoding = encoding_of("uint8" if seed % 3 else "bits", (3, 12, 12))
    source = from_model(model, encoding, None, check_samples=2)
    program, (net,) = build(source, [MAP])
    raw = raw_samples(encoding, 24, seed)
    with torch.no_grad():
        _, near, scores = true_bits(model, torch.from_numpy(encoding.codes(raw).astype(np.float64) / encoding.scale))
    found = reference.scores(program, device_layout(raw).astype(bool if encoding.kind == "bits" else raw.dtype))
    bound = (program.ops[-1].fan_in + 1) * program.score_scale / 2 + 1e-9  # type: ignore[union-attr]
    error = np.abs(found * program.score_scale - scores.numpy())
    assert (error[~near.numpy()] <= bound).all(), error.max()
    assert (~near).sum() > 12
    assert first_other_bits(program, net, raw) is None
    agreement = torch_agreement(net, raw, found.argmax(1))
    assert agreement.differences == 0 and agreement.decisions > 0


@pytest.mark.nightly
def test_some_networks_have_inverted_bits_before_every_kind_of_reader() -> None:
    from blrc.lowering.calibrate import folded
    from blrc.net.pieces import Stage, pieces

    inverted = turned = 0
    for seed in range(SEEDS):
        encoding = encoding_of("bits", (3, 12, 12))
        program, (net,) = build(from_model(network(seed), encoding, None, check_samples=2), [MAP])
        turned += sum(op.name.endswith(".turned") for op in program.ops)
        stages = [piece for piece in pieces(net) if isinstance(piece, Stage)]
        inverted += sum(bool(folded(stage, encoding, True).inverted.any()) for stage in stages)
    assert inverted > 10 and turned > 0


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(0, 6))
def test_a_chain_is_monotone_as_its_direction_says(seed: int, channel: int) -> None:
    stage_steps = [s for s in network(seed)[1:] if not isinstance(s, nn.MaxPool2d)]
    chain = sample(from_model(network(seed), bits((3, 12, 12)), None, check_samples=1), running=True).layers
    linear, rest = chain[0], chain[1 : 1 + len(stage_steps)]
    steps: list[Any] = []
    for layer in rest:
        if type(layer).__name__ in ("Sign", "Threshold"):
            break
        steps.append(layer)
    found = channel_steps(linear, steps, Fraction(1), channel)  # type: ignore[arg-type]
    row: NDArray[Any] = np.array([as_float(evaluate(found, z)) for z in range(-27, 28)])
    turn = direction(found)
    assert (np.diff(row) * turn >= -1e-9).all() if turn else np.ptp(row) < 1e-9


def as_float(x: Any) -> float:
    if isinstance(x, Fraction):
        return float(x)
    return as_float(x.a) + as_float(x.b) * float(x.d) ** 0.5


def strict(bias: float | None, features: int = 4) -> nn.Sequential:
    layer = bnn.SteLinear(features, 3, bias=bias is not None)
    if bias is not None:
        layer.bias.data.fill_(bias)
    return nn.Sequential(layer, bnn.StrictSign(), bnn.SoftmaxLinear(3, 2))


def test_a_strict_sign_is_taken_where_zero_cannot_occur() -> None:
    for model, features in ((strict(0.5), 4), (strict(None, 5), 5), (strict(1.0), 4)):
        program, _ = build(from_model(model, bits((features,)), None), [MAP])
        assert program.classes == 2
    for model, features in ((strict(None), 4), (strict(2.0), 4), (strict(1.0, 5), 5)):
        with pytest.raises(BlrcError, match="layer '1': channel 0 can be exactly 0"):
            build(from_model(model, bits((features,)), None), [MAP])


def test_what_has_no_exact_form_is_named() -> None:
    linear = Dense("c", "input", np.ones((2, 3), np.int8), None)
    assert channel_steps(linear, [Leak("p", "c", np.array([0.5]))], Fraction(1), 1)
    prelu = nn.PReLU(3)
    prelu.weight.data = torch.tensor([0.1, -0.2, 0.3])
    model = nn.Sequential(bnn.SteLinear(4, 3), prelu, bnn.SteSign(), bnn.SoftmaxLinear(3, 2))
    with pytest.raises(BlrcError, match=r"layer '1': the slope of channel 1 is negative.*at least 0"):
        build(from_model(model, bits((4,)), None), [MAP])
    two = nn.Sequential(
        bnn.SteConv2d(1, 2, 1), nn.MaxPool2d(2), bnn.ChannelScale([-1.0, 1.0]), nn.MaxPool2d(2),
        bnn.ChannelScale([-1.0, 1.0]), bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(2, 2),
    )  # fmt: skip
    with pytest.raises(BlrcError, match="layer '3': pools channel 0 again after it was turned round"):
        build(from_model(two, bits((1, 4, 4)), None), [MAP])


def test_regression_a_constant_channel_may_be_pooled_twice() -> None:
    """The first norm makes channel 1 constant; only then it is turned round between two pools."""
    model = nn.Sequential(
        bnn.SteConv2d(1, 2, 1), nn.MaxPool2d(2), bnn.ChannelScale([1.0, 0.0]), bnn.ChannelShift([0.0, 2.0]),
        nn.MaxPool2d(2), bnn.ChannelScale([1.0, -1.0]), bnn.SteSign(), nn.Flatten(), bnn.SteLinear(2, 2),
    ).eval()  # fmt: skip
    program, (net,) = build(from_model(model, bits((1, 4, 4)), None), [MAP])
    raw = raw_samples(bits((1, 4, 4)), 20, 3)
    raw[0] = 0
    with torch.no_grad():
        want = model.double()(torch.from_numpy(2.0 * raw - 1.0)).numpy()
    found = reference.scores(program, device_layout(raw).astype(bool))
    assert np.array_equal(found * program.score_scale, want)
    assert first_other_bits(program, net, raw) is None


@pytest.mark.parametrize("seed", range(6))
def test_statistics_are_estimated_behind_pools_and_scales(seed: int) -> None:
    """conv, scale, pool, norm: the statistics that calibration takes are those of torch's own batch."""
    generator = np.random.default_rng(seed)
    norm = nn.BatchNorm2d(6, momentum=None)
    norm.weight.data = values(generator, 6)
    factor = values(generator, 6)
    factor[factor.abs() < 0.05] = -0.5
    model = nn.Sequential(
        bnn.SteConv2d(2, 6, 3, bias=True), bnn.ChannelScale(factor, 3.0), nn.MaxPool2d(2), bnn.ChannelShift(0.25), norm,
        bnn.SteSign(), nn.Flatten(), bnn.SoftmaxLinear(24, 2),
    )  # fmt: skip
    encoding = bits((2, 6, 6))
    raw = raw_samples(encoding, 30, seed)
    source = from_model(model, encoding, raw)
    net = calibrate(sample(source), source.samples())
    model.double().train()
    with torch.no_grad():
        model(torch.from_numpy(encoding.codes(raw).astype(np.float64)))
    model.eval()
    program = lower([net])
    with torch.no_grad():
        want = model(torch.from_numpy(encoding.codes(raw).astype(np.float64))).argmax(1).numpy()
    assert (reference.scores(program, device_layout(raw).astype(bool)).argmax(1) == want).mean() > 0.95


def test_an_export_names_constant_channels(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(4)
    norm.weight.data = torch.tensor([1.0, 0.0, -1.0, 0.0])
    model = nn.Sequential(bnn.SteLinear(5, 4), norm, bnn.SteSign(), bnn.SteLinear(4, 2))
    said: list[str] = []
    export(from_model(model, bits((5,)), None), folder=tmp_path / "out", targets="c", name="net", say=said.append)
    notes = [line for line in said if line.startswith("note: ")]
    assert notes == ["note: layer '0': 2 of 4 channels give the same bit for every input, since a factor is 0: 1, 3"]


@given(numbers, numbers, roots, numbers, numbers, st.integers(-60, 60))
def test_a_single_map_has_the_signs_of_the_exact_numbers(
    a: Fraction, b: Fraction, d: Fraction, c: Fraction, at: Fraction, z: int
) -> None:
    """The path in integers that most chains take, against numbers with roots."""
    line = Affine(a, b, d, c)
    assert signs([line, None], at)(z) == sign(add(evaluate([line], z), -at))


def test_regression_many_norms_behind_each_other_are_refused_and_not_computed_for_ever() -> None:
    def stacked(count: int, variance: float) -> nn.Sequential:
        norms = [nn.BatchNorm1d(3, eps=0.0) for _ in range(count)]
        for norm in norms:
            norm.running_var.fill_(variance)
        return nn.Sequential(bnn.SteLinear(5, 3), *norms, bnn.SteSign(), bnn.SoftmaxLinear(3, 2))

    assert build(from_model(stacked(3, 2.0), bits((5,)), None), [MAP])[0].classes == 2
    assert build(from_model(stacked(9, 2.25), bits((5,)), None), [MAP])[0].classes == 2  # roots are rational
    with pytest.raises(BlrcError, match="layer '5': more than 4 norms between a binary layer and its sign"):
        build(from_model(stacked(9, 2.0), bits((5,)), None), [MAP])


def test_statistics_behind_a_relu_must_be_given() -> None:
    model = nn.Sequential(bnn.SteLinear(4, 3), nn.ReLU(), nn.BatchNorm1d(3), bnn.SteSign(), bnn.SoftmaxLinear(3, 2))
    source = from_model(model, bits((4,)), raw_samples(bits((4,)), 10, 0))
    with pytest.raises(BlrcError, match=r"'2': its statistics cannot be estimated anew behind '1'.*--norms given"):
        build(source, [MAP], norms="estimated")
    assert build(source, [MAP])[0].classes == 2


@pytest.mark.parametrize("seed", range(4))
def test_the_bits_of_a_last_sign_are_the_scores(seed: int) -> None:
    """Hashes, or several answers at once: each output is +1 or -1, whatever was flipped or inverted inside."""
    norm = nn.BatchNorm1d(9)
    generator = np.random.default_rng(seed)
    norm.weight.data, norm.bias.data = values(generator, 9), values(generator, 9)
    model = nn.Sequential(bnn.SteLinear(21, 9), norm, decision(generator, 9)).eval()
    encoding = bits((21,))
    program, (net,) = build(from_model(model, encoding, None), [MAP])
    raw = raw_samples(encoding, 50, seed)
    with torch.no_grad():
        want = model.double()(torch.from_numpy(encoding.codes(raw).astype(np.float64))).numpy()
    assert program.score_scale == 1.0
    assert np.array_equal(reference.scores(program, device_layout(raw).astype(bool)), want)
    assert first_other_bits(program, net, raw) is None


def test_too_many_output_bits_are_refused() -> None:
    model = nn.Sequential(bnn.SteLinear(21, 257), bnn.SteSign())
    with pytest.raises(BlrcError, match="layer '1': ends the network with 257 bits"):
        build(from_model(model, bits((21,)), None), [MAP])


def test_a_shift_before_an_estimated_norm_is_part_of_its_mean() -> None:
    """Beside the bias of the layer; it was left out where float64 decides, for comparison."""
    linear = Dense("dense", "input", np.ones((1, 4), np.int8), np.array([0.5]))
    chain = (
        Shift("shift", "dense", np.array([-3.0])),
        Scale("scale", "shift", np.array([2.0]), np.array([1.0])),
        Norm("norm", "scale", np.ones(1), np.zeros(1), 0.25, Sums(4, (8,), (20,))),  # of 1, 1, 3 and 3
    )
    mean, variance = norm_moments(linear, chain, chain[2], Fraction(2), 0)
    assert mean == 2 * (Fraction(8, 4) / 2 + Fraction(1, 2) - 3)
    assert variance == 4 * Fraction(20 - 16, 3) / 4 + Fraction(1, 4)

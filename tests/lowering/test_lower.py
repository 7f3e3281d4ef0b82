"""What trains also compiles: the program against torch's own deterministic network on the same codes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from by_night import first, rows_where
from random_networks import checkpoint_of, deep_network, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import Member, sample
from blrc.lowering.calibrate import calibrate
from blrc.lowering.lower import fuse_pools, lower, score_scale, translate
from blrc.net.bits import unpack_signs
from blrc.net.encoding import device_layout
from blrc.net.net import Net
from blrc.nn import models
from blrc.program import program_file, reference
from blrc.program.program import Conv, Pool, Program
from blrc.verification.oracles.agreement import torch_agreement


def compile_one(checkpoint: Checkpoint, member: Member = Member()) -> tuple[Program, Net]:  # noqa: B008
    assert checkpoint.calibration is not None
    net = calibrate(sample(checkpoint, member), checkpoint.calibration)
    return lower([net]), net


def check_against_torch(checkpoint: Checkpoint, member: Member = Member()) -> Program:  # noqa: B008
    """Every decision as in float64 norms but for ties, and the scores as the real softmax up to its rounding."""
    program, net = compile_one(checkpoint, member)
    raw = raw_samples(checkpoint.encoding, 30, 99)
    device = device_layout(raw)
    scores = reference.scores(program, device.astype(bool) if checkpoint.encoding.kind == "bits" else device)
    agreement = torch_agreement(net, raw, reference.labels(scores))
    assert agreement.differences == 0
    # The rounded weights: each off by half a step at most.
    step = program.score_scale
    x = network_features(checkpoint, net, raw)
    softmax = net.layers[-1]
    exact = x @ softmax.weights.T + softmax.bias  # type: ignore[union-attr]
    assert np.abs(exact - scores * step).max() <= step * (x.shape[1] + 1) / 2 * 1.001
    return program


def network_features(checkpoint: Checkpoint, net: Net, raw: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """The +-1 inputs of the softmax layer, by the program's own decisions, flattened C, H, W."""
    program = lower([net])
    device = device_layout(raw)
    values = reference.run(program, device.astype(bool) if checkpoint.encoding.kind == "bits" else device)
    bits = values[program.ops[-1].x.name]
    return np.where(bits, 1.0, -1.0).transpose(0, 3, 1, 2).reshape(len(raw), -1)


@pytest.mark.parametrize("seed", first(4, range(10)))
def test_deep_networks(seed: int) -> None:
    model, shape = deep_network(seed)
    checkpoint = checkpoint_of(model, ["uint8", "int8", "bits"][seed % 3], shape, seed)
    check_against_torch(checkpoint, [Member(), Member(seed, 3)][seed % 2])


def tail(channels: int, shape: tuple[int, int, int], first: list[nn.Module]) -> nn.Module:
    """A network that begins with `first` and ends in a softmax layer."""
    body = nn.Sequential(*first, nn.Flatten())
    with torch.no_grad():
        width = body(torch.zeros(1, *shape)).shape[1]
    return nn.Sequential(*first, nn.Flatten(), bnn.SoftmaxLinear(width, 5))


CHANNELS = (1, 31, 32, 33, 64, 65)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    rows_where(
        lambda sizes: sum(sizes) % 3 == 0,
        [*itertools.product((1, 32, 65), CHANNELS), *itertools.product((31, 33, 64), (1, 33))],
    ),
)
def test_channels(inputs: int, outputs: int) -> None:
    first = [
        bnn.BinaryConv2d(inputs, outputs, 3, padding="same"),
        bnn.StochasticBatchNorm2d(outputs),
        bnn.StochasticSign(),
    ]
    checkpoint = checkpoint_of(tail(outputs, (inputs, 5, 6), first), "bits", (inputs, 5, 6), inputs + outputs)
    check_against_torch(checkpoint)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("kernel", first(2, [(1, 1), (2, 4), (3, 3), (5, 5), (1, 3)]))
@pytest.mark.parametrize("padding", ["same", "valid", 1])
@pytest.mark.parametrize("size", [(7, 9), (8, 6)])
def test_kernels_and_padding(kernel: tuple[int, int], padding: str | int, size: tuple[int, int]) -> None:
    first = [
        bnn.BinaryConv2d(3, 6, kernel, padding=padding, bias=True),
        bnn.StochasticBatchNorm2d(6),
        bnn.StochasticSign(),
    ]  # type: ignore[arg-type]
    check_against_torch(checkpoint_of(tail(6, (3, *size), first), "uint8", (3, *size), 5))


@pytest.mark.parametrize("pool", [(2,), (3, 2), (3, 2, 1), ((2, 3), (2, 1))])
@pytest.mark.parametrize("size", [(7, 9), (8, 6)])
@pytest.mark.parametrize("norm", [True, False])
def test_pools(pool: tuple[int, ...], size: tuple[int, int], norm: bool) -> None:
    first: list[nn.Module] = [bnn.BinaryConv2d(2, 33, 3, padding=1, bias=not norm)]
    first += [bnn.StochasticBatchNorm2d(33)] if norm else []
    first += [bnn.StochasticMaxPool2d(*pool), bnn.StochasticSign()]
    program = check_against_torch(checkpoint_of(tail(33, (2, *size), first), "int8", (2, *size), 6))
    assert not any(isinstance(op, Pool) for op in program.ops)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_groups_strides_dilation(groups: int, stride: int, dilation: int) -> None:
    first = [
        bnn.BinaryConv2d(1, 6, 3, padding=1, stride=stride, dilation=dilation),
        bnn.StochasticBatchNorm2d(6),
        bnn.StochasticSign(),
        bnn.BinaryConv2d(6, 12, 3, padding=1, groups=groups, dilation=dilation),
        bnn.StochasticBatchNorm2d(12),
        bnn.StochasticSign(),
    ]
    check_against_torch(checkpoint_of(tail(12, (1, 9, 9), first), "uint8", (1, 9, 9), 7))


@pytest.mark.parametrize("kind", ["uint8", "int8", "bits"])
def test_dense_only_network(kind: str) -> None:
    model = nn.Sequential(
        bnn.BinaryLinear(37, 65, bias=True),
        bnn.StochasticSign(),
        bnn.BinaryLinear(65, 33),
        bnn.StochasticBatchNorm1d(33),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(33, 4),
    )
    check_against_torch(checkpoint_of(model, kind, (37,), 8))


@pytest.mark.parametrize(("channels", "packed"), [(2, True), (33, True), (64, False)])
def test_flatten_permutes_to_h_w_c(channels: int, packed: bool) -> None:
    """A map whose pixels do not fill words is packed without gaps; one whose pixels do is read as it is."""
    model = nn.Sequential(
        nn.Flatten(), bnn.BinaryLinear(channels * 3 * 4, 1, bias=True), bnn.StochasticSign(), bnn.SoftmaxLinear(1, 2)
    )
    checkpoint = checkpoint_of(model, "bits", (channels, 3, 4))
    program, _ = compile_one(checkpoint)
    signs = np.where(checkpoint.tensors["1.weight.logits"] <= 0, 1, -1).reshape(channels, 3, 4)
    assert [op.kind for op in program.ops] == [*(["flatten"] if packed else []), "conv", "scores"]
    op = program.ops[-2]
    assert isinstance(op, Conv) and op.x.shape == ((1, 1, channels * 12) if packed else (3, 4, channels))
    found = unpack_signs(program.constant(op.weights), op.x.shape[2])
    assert np.array_equal(found.reshape(3, 4, channels), signs.transpose(1, 2, 0))


@pytest.mark.nightly
def test_both_networks_of_the_paper() -> None:
    for model, shape in ((models.mnist(), (1, 28, 28)), (models.cifar10(width=0.125), (3, 32, 32))):
        check_against_torch(checkpoint_of(model, "uint8", shape, samples=8))


def test_members_share_equal_tables() -> None:
    model, shape = deep_network(2)
    checkpoint = checkpoint_of(model, "uint8", shape)
    assert checkpoint.calibration is not None
    nets = [
        calibrate(sample(checkpoint, m), checkpoint.calibration) for m in (Member(0, 0), Member(0, 1), Member(0, 0))
    ]
    program = lower(nets)
    for name, constant in program.constants.items():
        shared = name.startswith(("input.", "1.3."))
        assert constant.of_member == ((0, 0, 0) if shared else (0, 1, 0)), name


def test_lowering_is_reproducible() -> None:
    model, shape = deep_network(3)
    digests = {program_file.digest(compile_one(checkpoint_of(model, "uint8", shape, 3))[0]) for _ in range(2)}
    assert len(digests) == 1


def test_pool_fuses_only_into_the_convolution_before_it() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    assert checkpoint.calibration is not None
    net = calibrate(sample(checkpoint), checkpoint.calibration)
    items = translate(net, [score_scale([net])])
    assert sum(isinstance(i.op, Pool) for i in items) == 1
    fused = fuse_pools(items)
    assert len(fused) == len(items) - 1
    two = nn.Sequential(
        bnn.BinaryConv2d(1, 4, 3, padding=1),
        bnn.StochasticBatchNorm2d(4),
        bnn.StochasticMaxPool2d(2),
        bnn.StochasticSign(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        bnn.SoftmaxLinear(4 * 9, 3),
    )
    try:
        program, _ = compile_one(checkpoint_of(two, "uint8", (1, 12, 12)))
    except BlrcError as error:
        pytest.fail(str(error))
    assert [type(op).__name__ for op in program.ops] == ["Encode", "Conv", "Pool", "Scores"]


def test_zero_softmax_weights_are_legal_and_a_huge_bias_is_refused() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    checkpoint.tensors["1.3.weight"][:] = 0
    bias = checkpoint.tensors["1.3.bias"]
    bias[:] = [0.0, 0.1, 0.4, 0.2, 0.4, 0.3, -0.1]
    program, _ = compile_one(checkpoint)
    # The biases alone decide: they were rounded to 0, and every class was 0.
    assert np.abs(program.constant("1.3.bias") * program.score_scale - bias).max() < 1e-5
    bias[:] = 0
    assert compile_one(checkpoint)[0].score_scale == 1.0
    checkpoint.tensors["1.3.weight"][0, 0] = 0.5
    bias[2] = 2.0**31
    with pytest.raises(BlrcError, match=r"'1\.3'.*bias"):
        compile_one(checkpoint)

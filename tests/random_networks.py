"""Random networks of `blrc.nn` layers with live and awkward parameters: negative, zero and tiny gammas, exact ties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from blrc import nn as bnn
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import sample
from blrc.frontend.saving import from_model
from blrc.lowering.calibrate import calibrate
from blrc.net.encoding import InputEncoding, bits, int8_codes, pixel_bits, pixels
from blrc.net.net import Conv, Dense, Net

_NORMS = (bnn.StochasticBatchNorm1d, bnn.StochasticBatchNorm2d, nn.BatchNorm1d, nn.BatchNorm2d)


def randomise(model: nn.Module, seed: int, ties: bool = True) -> nn.Module:
    """Random logits, norms of every kind, biases; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)

    def normal(like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator)

    for module in model.modules():
        if isinstance(module, bnn.Bernoulli):
            module.logits.data = 2 * normal(module.logits)
        elif isinstance(module, bnn.Ternary):
            module.zero_logits.data = normal(module.zero_logits)
            module.sign_logits.data = 2 * normal(module.sign_logits)
        elif isinstance(module, _NORMS):
            gamma = normal(module.weight)
            kinds = torch.rand(gamma.shape, generator=generator)
            gamma[kinds < 0.1] = 0.0
            gamma[(kinds >= 0.1) & (kinds < 0.2)] *= 1e-7
            module.weight.data = gamma
            beta = 0.3 * normal(module.bias)
            if ties:
                beta[torch.rand(beta.shape, generator=generator) < 0.3] = 0.0  # then z = m is an exact tie
            module.bias.data = beta
            module.running_mean = normal(module.running_mean)
            module.running_var = module.running_var + normal(module.running_var).abs()
        elif isinstance(module, bnn.BinaryConv2d | bnn.BinaryLinear) and module.bias is not None:
            module.bias.data = 3 * normal(module.bias)
        elif isinstance(module, bnn.SteConv2d | bnn.SteLinear):
            weight = normal(module.weight)
            weight[torch.rand(weight.shape, generator=generator) < 0.1] = 0.0
            module.weight.data = weight
            if module.bias is not None:
                module.bias.data = 3 * normal(module.bias)
        elif isinstance(module, nn.Linear):
            module.weight.data = normal(module.weight)
            module.bias.data = normal(module.bias)
    return model


def encoding_of(kind: str, shape: tuple[int, ...]) -> InputEncoding:
    if kind == "thresholds":
        return pixel_bits(shape, at=[(37 * c + 100) % 257 for c in range(shape[0] if len(shape) > 1 else 1)])
    if kind == "uint8":
        channels = shape[0] if len(shape) == 3 else 1
        return pixels(
            shape,
            mean=[0.3 + 0.1 * (c % 5) for c in range(channels)],
            std=[0.2 + 0.05 * (c % 3) for c in range(channels)],
        )
    return int8_codes(shape, scale=40.0) if kind == "int8" else bits(shape)


def raw_samples(encoding: InputEncoding, count: int, seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    low, high = {"uint8": (0, 256), "int8": (-128, 128), "bits": (0, 2)}[encoding.kind]
    return rng.integers(low, high, (count, *encoding.shape)).astype(encoding.dtype)


def checkpoint_of(
    model: nn.Module, kind: str, shape: tuple[int, ...], seed: int = 0, samples: int = 40, ties: bool = True
) -> Checkpoint:
    """A randomised checkpoint of a network."""
    encoding = encoding_of(kind, shape)
    return from_model(randomise(model, seed, ties), encoding, raw_samples(encoding, samples, seed), source="net.pt")


def _sides(seed: int) -> Any:
    """Padding of a convolution, whose sides differ in every fourth network."""
    return (1, 0, 0, 2) if seed % 4 == 3 else 1


def _pool(seed: int, rng: np.random.Generator) -> tuple[Any, ...]:
    options = [(2,), (3, 2), (3, 2, 1)]
    drawn = options[int(rng.integers(0, 3))]
    return (3, 2, (0, 1, 2, 0)) if seed % 4 == 3 else drawn


def deep_network(seed: int) -> tuple[nn.Module, tuple[int, int, int]]:
    """Three binary layers or more, odd channels and maps, every kind of convolution in turn."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.choice([1, 3])), int(rng.integers(7, 12)), int(rng.integers(7, 12)))
    first, second = int(rng.choice([5, 31, 33])), int(rng.choice([6, 32, 65]))
    groups = int(rng.choice([1, first]))
    second = second * first if groups > 1 and second % first else second
    middle: list[nn.Module] = [
        bnn.BinaryConv2d(
            first, second, (3, 2), stride=int(rng.integers(1, 3)), padding=_sides(seed), groups=groups, bias=True
        ),
        bnn.StochasticBatchNorm2d(second),
        bnn.StochasticSign(),
    ]
    features = nn.Sequential(
        bnn.BinaryConv2d(shape[0], first, 3, padding="same", dilation=int(rng.integers(1, 3))),
        bnn.StochasticBatchNorm2d(first),
        bnn.StochasticMaxPool2d(*_pool(seed, rng)),
        bnn.StochasticSign(),
        *middle,
        nn.Flatten(),
    )
    with torch.no_grad():
        width = features(torch.zeros(1, *shape)).shape[1]
    head = nn.Sequential(
        bnn.BinaryLinear(width, 33),
        bnn.StochasticBatchNorm1d(33),
        bnn.StochasticSign(),
        bnn.SoftmaxLinear(33, 7),
    )
    return nn.Sequential(features, head), shape


def binarized_network(seed: int) -> tuple[nn.Module, tuple[int, int, int]]:
    """A Binarized NN of three layers whose last is binary, for every second seed without a norm."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.choice([1, 3])), int(rng.integers(7, 12)), int(rng.integers(7, 12)))
    first = int(rng.choice([5, 31, 33]))
    features = nn.Sequential(
        bnn.SteConv2d(shape[0], first, 3, padding="same"),
        nn.BatchNorm2d(first),
        bnn.MaxPool2d(*_pool(seed, rng)),
        bnn.SteSign(),
        bnn.SteConv2d(
            first, 2 * first, (3, 2), stride=int(rng.integers(1, 3)), padding=_sides(seed), groups=first, bias=True
        ),
        nn.BatchNorm2d(2 * first),
        bnn.SteSign(),
    )
    with torch.no_grad():
        width = features.eval()(torch.zeros(1, *shape)).flatten(1).shape[1]
    last = bnn.SteLinear(width, 7, bias=bool(rng.integers(0, 2)))
    return nn.Sequential(features, nn.Flatten(), last, *([nn.BatchNorm1d(7)] if seed % 2 == 0 else [])), shape


def leveled_network(seed: int) -> tuple[nn.Module, tuple[int, int, int]]:
    """An LR-net of three layers with codes of other bits in each, norms before and behind pools, negative gammas."""
    rng = np.random.default_rng(seed)
    bits = [int(k) for k in rng.permutation([2, 4, 8])]
    before, after = [nn.BatchNorm2d(9), nn.MaxPool2d(2)], [nn.MaxPool2d(2), nn.BatchNorm2d(33)]
    layers: list[nn.Module] = [
        bnn.BinaryConv2d(1, 9, 3, padding=1),
        bnn.GaussianSample(),
        *before,
        bnn.SteLevels(bits[0], step=2 / 2 ** bits[0]),
        bnn.BinaryConv2d(9, 33, 3, padding=1, groups=3),
        bnn.GaussianSample(),
        *after,
        bnn.SteLevels(bits[1], step=2 / 2 ** bits[1]),
        nn.Flatten(),
        bnn.BinaryLinear(33 * 9, 40),
        bnn.GaussianSample(),
        nn.BatchNorm1d(40),
        bnn.SteLevels(bits[2], step=2 / 2 ** bits[2]),
        bnn.SoftmaxLinear(40, 5),
    ]
    return nn.Sequential(*layers), (1, 12, 12)


def calibrated_net(
    network: Callable[[int], tuple[nn.Module, tuple[int, int, int]]], seed: int, ties: bool = True
) -> tuple[Checkpoint, Net]:
    """A checkpoint of a random network, of another kind of input for each seed, and its calibrated MAP net."""
    model, shape = network(seed)
    checkpoint = checkpoint_of(model, ("uint8", "int8", "bits")[seed % 3], shape, seed, ties=ties)
    return checkpoint, calibrate(sample(checkpoint), checkpoint.samples())


def ternary_nets(seed: int, kind: str, members: int = 1) -> tuple[list[Net], InputEncoding]:
    """Members of a random network whose binary layers have weights of 0 as well; the calibrated nets and their input.

    Every third network writes levels, and every second one of the others has a ternary last layer.
    """
    model, shape = (leveled_network if seed % 3 == 2 else binarized_network if seed % 2 else deep_network)(seed)
    checkpoint = checkpoint_of(model, kind, shape, seed)
    rng = np.random.default_rng(seed)
    nets = []
    for member in range(members):
        net = sample(checkpoint)
        layers = [with_zeros(layer, rng) if isinstance(layer, Conv | Dense) else layer for layer in net.layers]
        nets.append(calibrate(replace(net, layers=tuple(layers), member=f"sample 0:{member}"), checkpoint.samples()))
    return nets, checkpoint.encoding


def with_zeros(layer: Conv | Dense, rng: np.random.Generator) -> Conv | Dense:
    """The layer with ternary weights, of which a third is 0, and all of the first row."""
    weights = np.where(rng.random(layer.weights.shape) < 1 / 3, np.int8(0), layer.weights)
    weights[0] = 0
    return replace(layer, weights=weights, ternary=True)

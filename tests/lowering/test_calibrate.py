"""Integer statistics against torch's own network in float64, layer by layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from by_night import first
from random_networks import binarized_network, checkpoint_of, deep_network
from torch import nn

from blrc import nn as bnn
from blrc.errors import BlrcError
from blrc.frontend.sample import Member, sample
from blrc.lowering.calibrate import calibrate, sums
from blrc.net.net import Norm, Sums


@pytest.mark.parametrize("build", [deep_network, binarized_network])
@pytest.mark.parametrize("seed", first(4, range(6)))
def test_statistics_equal_torchs(seed: int, build: Callable[[int], tuple[nn.Module, tuple[int, int, int]]]) -> None:
    model, shape = build(seed)
    kind = ["uint8", "int8", "bits"][seed % 3]
    checkpoint = checkpoint_of(model, kind, shape, seed, ties=False)  # torch decides exact ties by rounding
    assert checkpoint.calibration is not None
    net = calibrate(sample(checkpoint), checkpoint.calibration)
    # torch's deterministic network, its norms re-estimated on the same samples, in float64.
    network = bnn.deterministic(checkpoint.model()).double()
    codes = checkpoint.encoding.codes(checkpoint.calibration).astype(np.float64) / checkpoint.encoding.scale
    bnn.reestimate(network, torch.from_numpy(codes))
    scale = checkpoint.encoding.scale
    compared = 0
    for layer in net.layers:
        if isinstance(layer, Norm):
            theirs = network.get_submodule(layer.name)
            assert isinstance(layer.statistics, Sums)
            convolution = network.get_submodule(layer.x)
            bias = 0.0 if convolution.bias is None else convolution.bias.detach().numpy()
            mean = np.array([float(layer.statistics.mean(c)) for c in range(len(layer.gamma))]) / scale + bias
            variance = np.array([float(layer.statistics.variance(c)) for c in range(len(layer.gamma))]) / scale**2
            np.testing.assert_allclose(mean, theirs.running_mean.numpy(), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(variance, theirs.running_var.numpy(), rtol=1e-9, atol=1e-9)
            compared += 1
            scale = 1.0
    assert compared == sum("Norm" in type(m).__name__ for m in model.modules()) >= 2


def test_sums_do_not_depend_on_the_order_of_samples() -> None:
    model, shape = deep_network(1)
    checkpoint = checkpoint_of(model, "uint8", shape, 1)
    assert checkpoint.calibration is not None
    forward = calibrate(sample(checkpoint, Member(4, 2)), checkpoint.calibration)
    backward = calibrate(sample(checkpoint, Member(4, 2)), checkpoint.calibration[::-1].copy())
    for one, other in zip(forward.layers, backward.layers, strict=True):
        if isinstance(one, Norm) and isinstance(other, Norm):
            assert isinstance(one.statistics, Sums)
            assert isinstance(other.statistics, Sums)
            assert one.statistics.total == other.statistics.total
            assert one.statistics.squares == other.statistics.squares


def test_sums_are_exact_where_int32_would_overflow() -> None:
    z = np.full((2, 1, 300, 300), 2**20, dtype=np.int32)
    result = sums(z)
    assert (result.count, result.total, result.squares) == (180_000, (180_000 * 2**20,), (180_000 * 2**40,))


def test_too_few_samples() -> None:
    model, shape = deep_network(0)
    checkpoint = checkpoint_of(model, "uint8", shape)
    assert checkpoint.calibration is not None
    with pytest.raises(BlrcError, match="at least 2 samples"):
        calibrate(sample(checkpoint), checkpoint.calibration[:1])
    with pytest.raises(BlrcError, match="calibration samples: type float32"):
        calibrate(sample(checkpoint), checkpoint.calibration.astype(np.float32))

"""The deterministic network against NumPy written out, and re-estimation against direct statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from blrc.nn import (
    BinaryConv2d,
    BinaryLinear,
    Sign,
    StochasticBatchNorm1d,
    StochasticBatchNorm2d,
    StochasticMaxPool2d,
    StochasticSign,
    deterministic,
    distributions,
    models,
    reestimate,
)


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Sequential(BinaryConv2d(2, 3, 3, padding=1, bias=True), StochasticBatchNorm2d(3, eps=1e-3, momentum=0.3)),
        StochasticMaxPool2d(2),
        StochasticSign(),
        nn.Flatten(),
        BinaryLinear(12, 4),
        StochasticBatchNorm1d(4, affine=False),
    ).double()


def test_the_map_network_by_hand() -> None:
    model = network()
    model[0][0].bias.data.normal_()
    model[0][1].weight.data = torch.tensor([0.5, -2.0, 1.0], dtype=torch.float64)
    model[0][1].bias.data.normal_()
    x = torch.randn(5, 2, 4, 4, dtype=torch.float64)
    got = reestimate(deterministic(model), x)(x).detach().numpy()

    conv, norm, dense = model[0][0], model[0][1], model[4]
    w = np.where(conv.weight.logits.detach().numpy() <= 0, 1.0, -1.0)
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    z = np.zeros((5, 3, 4, 4))
    for i in range(4):
        for j in range(4):
            z[:, :, i, j] = np.einsum("ncij,ocij->no", padded[:, :, i : i + 3, j : j + 3], w)
    z += conv.bias.detach().numpy()[:, None, None]
    m, v = z.mean((0, 2, 3)), z.var((0, 2, 3), ddof=1)
    gamma, beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    a = np.moveaxis((np.moveaxis(z, 1, -1) - m) / np.sqrt(v + 1e-3) * gamma + beta, -1, 1)
    a = a.reshape(5, 3, 2, 2, 2, 2).max((3, 5))
    bits = np.where(a >= 0, 1.0, -1.0).reshape(5, 12)
    z = bits @ np.where(dense.weight.logits.detach().numpy() <= 0, 1.0, -1.0).T
    expected = (z - z.mean(0)) / np.sqrt(z.var(0, ddof=1) + 1e-5)
    assert np.allclose(got, expected, rtol=0, atol=1e-12)


def test_names_and_kinds() -> None:
    kinds = {name: type(module).__name__ for name, module in deterministic(network()).named_modules() if name}
    assert kinds == {
        "0": "Sequential", "0.0": "Conv2d", "0.1": "BatchNorm2d", "1": "MaxPool2d", "2": "Sign", "3": "Flatten",
        "4": "Linear", "5": "BatchNorm1d",
    }  # fmt: skip


def test_options_are_kept() -> None:
    conv = deterministic(BinaryConv2d(4, 8, (3, 1), padding=(2, 0), dilation=(2, 1), stride=(1, 2), groups=2))
    assert isinstance(conv, nn.Conv2d)
    assert (conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups, conv.bias) == (
        (3, 1), (1, 2), (2, 0), (2, 1), 2, None,
    )  # fmt: skip
    pool = deterministic(StochasticMaxPool2d(3, 2, 1))
    assert isinstance(pool, nn.MaxPool2d) and (pool.kernel_size, pool.stride, pool.padding) == ((3, 3), (2, 2), (1, 1))


def test_the_stochastic_network_is_left_alone() -> None:
    model = network()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    x = torch.randn(5, 2, 4, 4, dtype=torch.float64)
    reestimate(deterministic(model, sample=True), x)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert isinstance(model[2], StochasticSign)


def test_samples_follow_the_generator() -> None:
    model = network()

    def weights(seed: int) -> torch.Tensor:
        return deterministic(model, sample=True, generator=torch.Generator().manual_seed(seed))[4].weight

    assert torch.equal(weights(1), weights(1)) and not torch.equal(weights(1), weights(2))
    assert set(weights(1).unique().tolist()) == {-1.0, 1.0}


def test_reestimation_leaves_the_momentum_and_evaluation_mode() -> None:
    fixed = reestimate(deterministic(network()), torch.randn(5, 2, 4, 4, dtype=torch.float64))
    assert fixed[0][1].momentum == 0.3
    assert not any(module.training for module in fixed.modules())


def test_sign_is_plus_one_on_both_zeros() -> None:
    assert Sign()(torch.tensor([-1e-30, -0.0, 0.0, 1e-30])).tolist() == [-1, 1, 1, 1]


@pytest.mark.parametrize("training", [True, False])
def test_a_nearly_certain_network_agrees_with_its_map(training: bool) -> None:
    """Logits of +-40 make every variance vanish: then the stochastic network is the MAP network."""
    model = models.mnist()[:4]  # conv, norm, pool, sign
    for weight in distributions(model):
        weight.logits.data = weight.logits.data.sign() * 40
    model.norm1.momentum = 1.0
    x = torch.randn(64, 1, 28, 28)
    with torch.no_grad():
        model(x)
        fixed = reestimate(deterministic(model), x)
        normed = fixed[:3](x)
        got = model.train(training)(x)
    clear = normed.abs() > 0.02  # 20 standard deviations of the variance floor
    assert clear.double().mean() > 0.95
    assert torch.equal(got[clear], fixed(x)[clear])

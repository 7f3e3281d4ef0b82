"""Binarized NN layers against NumPy loops, and their gradients against those of the real layers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import (
    BinaryLinear,
    SteConv2d,
    SteLinear,
    SteSign,
    clip_,
    deterministic,
    glorot_scale,
    models,
    reestimate,
    squared_hinge,
)

EDGES = torch.tensor([-2.0, -1.0000001, -1.0, -1e-30, -0.0, 0.0, 1e-30, 1.0, 1.0000001, 2.0])


def test_sign_and_its_straight_through_gradient() -> None:
    a = EDGES.clone().requires_grad_()
    upstream = torch.arange(1.0, 11.0)
    out = SteSign()(a)
    assert out.tolist() == [-1, -1, -1, -1, 1, 1, 1, 1, 1, 1]
    (out * upstream).sum().backward()
    assert a.grad is not None and a.grad.tolist() == [0, 0, 3, 4, 5, 6, 7, 8, 0, 0]


def test_sign_keeps_the_layout() -> None:
    maps = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()
    inner, seen = maps * 1, []
    inner.register_hook(seen.append)
    out = SteSign()(inner)
    assert out.is_contiguous(memory_format=torch.channels_last)
    # A layer behind may hand back a gradient in another layout, which the layers in front would have to copy.
    out.backward(torch.ones(out.shape))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_dense_computes_with_signs() -> None:
    layer = SteLinear(10, 4, bias=True)
    with torch.no_grad():
        layer.weight[0] = EDGES
        assert layer.bias is not None
        layer.bias.copy_(torch.arange(4.0))
    x = torch.randn(6, 10)
    w = np.where(layer.weight.detach().numpy() >= 0, 1.0, -1.0)
    expected = x.numpy().astype(np.float64) @ w.T + np.arange(4)
    assert np.allclose(layer(x).detach().numpy(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"padding": "same"}, (4, 6, 3, 3)),
        ({"stride": 2, "padding": (1, 0)}, (4, 6, 3, 3)),
        ({"dilation": (2, 1), "groups": 2}, (4, 3, 3, 3)),
        ({"bias": True, "padding": "valid"}, (4, 6, 3, 3)),
    ],
)
def test_convolution_computes_with_signs(options: dict[str, object], shape: tuple[int, ...]) -> None:
    layer = SteConv2d(6, 4, 3, **options)  # type: ignore[arg-type]
    assert layer.weight.shape == shape
    x = torch.randint(-1, 2, (2, 6, 7, 8)).float()
    w = np.where(layer.weight.detach().numpy() >= 0, 1, -1)
    real = nn.Conv2d(6, 4, 3, **{"bias": False, **options})  # type: ignore[arg-type]
    real.load_state_dict({**layer.state_dict(), "weight": torch.from_numpy(w).float()})
    assert torch.equal(layer(x), real(x))


def test_gradients_to_weights_are_those_to_their_signs() -> None:
    dense, conv = SteLinear(5, 3), SteConv2d(2, 3, 3, padding=1)
    x, maps = torch.randn(4, 5), torch.randn(4, 2, 6, 6)
    for layer, value, real in (
        (dense, x, lambda w: F.linear(x, w)),
        (conv, maps, lambda w: F.conv2d(maps, w, padding=1)),
    ):
        w = torch.where(layer.weight >= 0, 1.0, -1.0).detach().requires_grad_()
        layer(value).square().sum().backward()
        real(w).square().sum().backward()
        assert torch.equal(layer.weight.grad, w.grad) and w.grad.any()


def test_new_weights_are_uniform_between_minus_one_and_one() -> None:
    weight = SteLinear(100, 100).weight.detach()
    assert weight.min() >= -1 and weight.max() <= 1
    assert abs(float(weight.mean())) < 0.02 and abs(float(weight.std()) - 1 / math.sqrt(3)) < 0.02


def test_clip() -> None:
    model = nn.Sequential(SteLinear(10, 1, bias=True), nn.BatchNorm1d(1))
    with torch.no_grad():
        model[0].weight.copy_(EDGES[None])
        model[0].bias.fill_(5.0)
        model[1].weight.fill_(3.0)
    clip_(model)
    assert model[0].weight.tolist() == [EDGES.clamp(-1, 1).tolist()]
    assert model[0].bias.item() == 5.0 and model[1].weight.item() == 3.0


def test_squared_hinge_by_hand() -> None:
    scores = torch.tensor([[2.0, -0.5, -3.0], [0.25, 0.0, 1.0]], requires_grad=True)
    # t s >= 1 costs nothing; the others (1 + s)^2, and (1 - s)^2 for the label's class.
    expected = (0.0 + 0.25 + 0.0 + 1.5625 + 1.0 + 0.0) / 6
    loss = squared_hinge(scores, torch.tensor([0, 2]))
    assert loss.item() == pytest.approx(expected, abs=1e-7)
    loss.backward()
    assert scores.grad is not None and scores.grad[0].tolist() == pytest.approx([0.0, 2 * 0.5 / 6, 0.0])


def test_glorot_scale() -> None:
    assert glorot_scale(SteLinear(3136, 512)) == math.sqrt(1.5 / 3648)
    assert glorot_scale(SteConv2d(32, 64, 3)) == math.sqrt(1.5 / (9 * 96))
    assert glorot_scale(SteConv2d(32, 64, 3, groups=2)) == math.sqrt(1.5 / (9 * 96))
    with pytest.raises(BlrcError, match="got BinaryLinear"):
        glorot_scale(BinaryLinear(2, 2))


def test_refusals() -> None:
    with pytest.raises(BlrcError, match="in_features"):
        SteLinear(0, 2)
    with pytest.raises(BlrcError, match="groups must divide"):
        SteConv2d(3, 4, 3, groups=2)
    with pytest.raises(BlrcError, match="flatten maps"):
        SteLinear(4, 2)(torch.zeros(1, 2, 2))
    with pytest.raises(BlrcError, match=r"takes \(N, 3, H, W\)"):
        SteConv2d(3, 4, 3)(torch.zeros(1, 2, 5, 5))
    with pytest.raises(BlrcError, match="SteSign takes a tensor"):
        SteSign()(BinaryLinear(2, 2)(torch.zeros(3, 2)))


def test_the_deterministic_network_computes_the_same() -> None:
    model = models.mnist("bnn")
    x = torch.randn(8, 1, 28, 28)
    model(x)
    plain = deterministic(model.eval())
    assert torch.equal(plain(x), model(x))
    assert not [m for m in plain.modules() if isinstance(m, SteLinear | SteConv2d | SteSign)]
    assert plain.conv1.weight.unique().tolist() == [-1, 1]
    scores = reestimate(plain, x)(x)  # the last norm's output on its own batch
    assert torch.allclose(scores.mean(0), torch.zeros(10), atol=1e-5)
    assert torch.allclose(scores.std(0), torch.ones(10), atol=1e-3)


def test_it_learns() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        SteLinear(16, 32), nn.BatchNorm1d(32), SteSign(), SteLinear(32, 3), nn.BatchNorm1d(3, momentum=None)
    )
    x = torch.randn(300, 16)
    labels = (x[:, :3] + x[:, 3:6]).argmax(1)
    layers = [m for m in model if isinstance(m, SteLinear)]
    groups = [{"params": [m.weight], "lr": 3e-3 / glorot_scale(m)} for m in layers]
    norms = [p for m in model if isinstance(m, nn.BatchNorm1d) for p in m.parameters()]
    adam = torch.optim.Adam([*groups, {"params": norms, "lr": 1e-2}])
    for _ in range(200):
        adam.zero_grad()
        squared_hinge(model(x), labels).backward()
        adam.step()
        clip_(model)
    assert all(m.weight.abs().max() <= 1 for m in layers)
    assert (model(x).argmax(1) == labels).float().mean() > 0.85  # 1/3 by chance

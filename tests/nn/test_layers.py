"""Mean and variance of pre-activations against draws of the weights, by torch's own layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import (
    BinaryConv2d,
    BinaryLinear,
    Gaussian,
    SoftmaxLinear,
    SteConv2d,
    SteLinear,
    StochasticBatchNorm1d,
    StochasticSign,
    multiply_signs_in,
)
from blrc.nn.layers.geometry import all_signs

CONVOLUTIONS: list[dict[str, Any]] = [
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 3, "padding": "valid", "stride": 2},
    {"kernel_size": (1, 5), "padding": (0, 2), "stride": (2, 1), "bias": True},
    {"kernel_size": 3, "padding": 2, "dilation": 2, "groups": 2},
    {"kernel_size": (2, 4), "padding": "same", "groups": 4},
    {"kernel_size": 1, "bias": True},
]


def signs(*shape: int) -> torch.Tensor:
    return torch.randint(0, 2, shape).double() * 2 - 1


def exact_moments(layer: BinaryConv2d | BinaryLinear, run: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """E and V of the layer's output by one torch layer run per weight: outputs are linear in independent weights."""
    p = torch.sigmoid(layer.weight.logits.detach())
    base = run(torch.zeros_like(p))
    mean, var = base.clone(), torch.zeros_like(base)
    for i in range(p.numel()):
        one = torch.zeros_like(p)
        one.view(-1)[i] = 1
        term = run(one) - base
        q = p.reshape(-1)[i]
        mean += term * (1 - 2 * q)
        var += term**2 * ((1 - q) * 1 + q * 1 - (1 - 2 * q) ** 2)
    return mean, var


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch's own hint about a copy
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("real", [True, False], ids=["real", "signs"])
def test_convolution_moments_are_exact(options: dict[str, Any], real: bool) -> None:
    layer = BinaryConv2d(4, 4, dtype=torch.float64, **options)
    twin = nn.Conv2d(4, 4, dtype=torch.float64, **{"bias": False, **options})
    if layer.bias is not None:
        layer.bias.data.normal_()
        twin.bias.data.copy_(layer.bias.data)
    x = torch.randn(2, 4, 6, 7, dtype=torch.float64) if real else signs(2, 4, 6, 7)

    @torch.no_grad()
    def run(weight: torch.Tensor) -> torch.Tensor:
        twin.weight.copy_(weight)
        return twin(x)

    mean, var = layer(x)
    expected_mean, expected_var = exact_moments(layer, run)
    assert torch.allclose(mean, expected_mean, rtol=0, atol=1e-12)
    assert var.shape[0] == (2 if real else 1)
    assert torch.allclose(var.expand_as(mean), expected_var, rtol=0, atol=1e-12)


@pytest.mark.parametrize("real", [True, False], ids=["real", "signs"])
@pytest.mark.parametrize("bias", [True, False])
def test_dense_moments_are_exact(real: bool, bias: bool) -> None:
    layer = BinaryLinear(5, 3, bias=bias, dtype=torch.float64)
    if layer.bias is not None:
        layer.bias.data.normal_()
    x = torch.randn(4, 5, dtype=torch.float64) if real else signs(4, 5)

    @torch.no_grad()
    def run(weight: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight, layer.bias)

    mean, var = layer(x)
    expected_mean, expected_var = exact_moments(layer, run)
    assert torch.allclose(mean, expected_mean, rtol=0, atol=1e-12)
    assert torch.allclose(var.expand_as(mean), expected_var, rtol=0, atol=1e-12)


def test_moments_against_draws_of_the_weights() -> None:
    layer = BinaryConv2d(2, 3, 3, padding=1)
    x = torch.randn(1, 2, 5, 5)
    generator = torch.Generator().manual_seed(3)
    draws = 20_000
    weights = torch.stack([layer.weight.sample(generator) for _ in range(draws)])
    z = F.conv2d(x, weights.flatten(0, 1), padding=1).reshape(draws, 3, 5, 5)
    mean, var = (t[0].detach() for t in layer(x))
    assert ((z.mean(0) - mean).abs() <= 5 * (var / draws).sqrt()).all()
    assert ((z.var(0) / var - 1).abs() < 0.06).all()  # 5 sigma of a variance estimate: 5 sqrt(2 / draws) = 0.05


def test_the_variance_at_the_border_counts_only_real_taps() -> None:
    layer = BinaryConv2d(1, 1, 3, padding=1)
    layer.weight.logits.data.zero_()  # each weight has variance 1
    var = layer(torch.ones(2, 1, 4, 4)).var
    assert var[0, 0].tolist() == [[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]]


@pytest.mark.parametrize("real", [True, False], ids=["real", "signs"])
def test_gradients(real: bool) -> None:
    conv = BinaryConv2d(2, 2, 3, padding=1, dtype=torch.float64)
    dense = BinaryLinear(5, 3, dtype=torch.float64)
    for layer, shape in ((conv, (2, 2, 4, 4)), (dense, (4, 5))):
        x = torch.randn(shape, dtype=torch.float64) if real else signs(*shape)
        layer.weight.logits.requires_grad_()

        def outputs(logits: torch.Tensor, layer: Any = layer, x: torch.Tensor = x) -> tuple[torch.Tensor, ...]:
            return tuple(torch.func.functional_call(layer, {"weight.logits": logits}, (x,)))

        assert torch.autograd.gradcheck(outputs, layer.weight.logits.detach().clone().requires_grad_())
        if real:  # to +-1 input the variance has no gradient by design
            x = x.requires_grad_()
            assert torch.autograd.gradcheck(lambda x, layer=layer: tuple(layer(x)), x)


def test_sign_input_gets_the_gradient_of_the_mean_only() -> None:
    layer = BinaryLinear(6, 2, dtype=torch.float64)
    x = signs(3, 6).requires_grad_()
    mean, var = layer(x)
    (mean.sum() + 100 * var.sum()).backward()
    assert torch.allclose(x.grad, layer.weight.mean().sum(0).expand_as(x))


def test_all_signs() -> None:
    x = torch.ones(3, 2)
    assert all_signs(x) and all_signs(-x)
    for sample in range(3):  # also where the first sample is +-1
        y = x.clone()
        y[sample, 1] = 0.999
        assert not all_signs(y)


def test_sequential_state_dict_and_dtype() -> None:
    def build() -> nn.Sequential:
        return nn.Sequential(
            nn.Sequential(BinaryConv2d(1, 3, 3), StochasticSign()), nn.Flatten(), BinaryLinear(27, 4, bias=True),
            StochasticBatchNorm1d(4), StochasticSign(), SoftmaxLinear(4, 2),
        )  # fmt: skip

    one, two = build(), build()
    two.load_state_dict(one.state_dict())
    assert {"0.0.weight.logits", "2.weight.logits", "2.bias", "5.weight"} <= set(one.state_dict())
    outputs = []
    for model in (one.double(), two.to(torch.float64)):
        torch.manual_seed(5)
        outputs.append(model(torch.ones(4, 1, 5, 5, dtype=torch.float64)))
    assert outputs[0].dtype == torch.float64
    assert torch.equal(*outputs)


def test_the_device_is_taken() -> None:
    for layer in (BinaryLinear(3, 2, bias=True, device="meta"), BinaryConv2d(3, 2, 3, bias=True, device="meta")):
        assert {p.device.type for p in layer.parameters()} == {"meta"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BinaryConv2d(3, 4, 3, groups=2), "2 groups must divide 3 and 4"),
        (lambda: BinaryConv2d(3, 4, 3, padding="full"), "padding 'full'"),
        (lambda: BinaryConv2d(3, 4, 3, padding="same", stride=2), "'same' needs stride 1"),
        (lambda: BinaryConv2d(3, 4, 3, groups=0), "BinaryConv2d: groups 0: give a whole number from 1 on"),
        (lambda: BinaryConv2d(3.0, 4, 3), "BinaryConv2d: in_channels 3.0: give"),
        (lambda: BinaryConv2d(3, 0, 3), "BinaryConv2d: out_channels 0: give"),
        (lambda: BinaryConv2d(3, 4, 0), "BinaryConv2d: kernel_size 0: give a whole number from 1 to 32767"),
        (lambda: BinaryConv2d(3, 4, 3, stride=0), "BinaryConv2d: stride 0: give"),
        (lambda: BinaryConv2d(3, 4, 3, stride=1.5), "BinaryConv2d: stride 1.5: give"),
        (lambda: BinaryConv2d(3, 4, 3, stride=float("nan")), "BinaryConv2d: stride nan: give"),
        (lambda: BinaryConv2d(3, 4, 3, dilation=(1, 0)), r"BinaryConv2d: dilation \(1, 0\): give"),
        (lambda: BinaryConv2d(3, 4, 3, padding=-1), "BinaryConv2d: padding -1: give a whole number from 0 to 32767"),
        (lambda: BinaryLinear(0, 4), "BinaryLinear: in_features 0: give"),
        (lambda: BinaryLinear(4, 2.5), "BinaryLinear: out_features 2.5: give"),
        (lambda: BinaryConv2d(3, 4, 3)(torch.ones(1, 2, 5, 5)), r"takes \(N, 3, H, W\), got \(1, 2, 5, 5\)"),
        (lambda: BinaryLinear(3, 4)(torch.ones(1, 3, 5, 5)), "flatten maps before it"),
        (lambda: BinaryLinear(4, 4)(BinaryLinear(4, 4)(torch.ones(2, 4))), "put a StochasticSign before it"),
        (lambda: SoftmaxLinear(4, 4)(Gaussian(torch.ones(2, 4), torch.ones(2, 4))), "SoftmaxLinear takes a tensor"),
        (lambda: StochasticSign()(torch.ones(2, 4)), "StochasticSign takes a Gaussian"),
        (lambda: BinaryLinear(4, 4)("text"), "takes a tensor, got str"),
    ],
)
def test_what_does_not_compose_says_so(call: Any, message: str) -> None:
    with pytest.raises(BlrcError, match=message):
        call()


@pytest.mark.parametrize("kind", [BinaryConv2d, SteConv2d])
@pytest.mark.parametrize("channels", [28, 64])
def test_signs_in_bfloat16_are_exact_up_to_256(kind: Any, channels: int) -> None:
    """Sums of 9 x 28 = 252 signs are exact; more, and real weights, are right to 2^-9; real inputs stay."""
    layer = kind(channels, 5, 3, padding="same", bias=True)
    layer.bias.data.copy_(torch.arange(5) / 8)  # adds without rounding
    x = torch.randint(0, 2, (3, channels, 6, 6)) * 2.0 - 1.0
    x[0] = 1.0

    def outputs(x: torch.Tensor) -> list[torch.Tensor]:
        out = layer(x)
        return list(out) if kind is BinaryConv2d else [out]

    if kind is SteConv2d:
        layer.weight.data[0] = 1.0  # the largest sum
    plain, plain_real = outputs(x), outputs(0.9 * x)
    multiply_signs_in(layer, torch.bfloat16)
    lower, lower_real = outputs(x), outputs(0.9 * x)
    assert all(torch.equal(a, b) for a, b in zip(plain_real, lower_real, strict=True))
    assert lower[0].dtype == torch.float32
    bias = layer.bias.detach()[:, None, None]
    if kind is SteConv2d and channels == 28:
        assert torch.equal(lower[0], plain[0]) and (plain[0] - bias).max() == 252
    else:
        assert kind is SteConv2d or not torch.equal(lower[0], plain[0])
        size = 9 * channels  # of sums of absolute values: rounding of weights, and of the sum
        assert (lower[0] - plain[0]).abs().max() <= 2**-9 * size + 2**-9 * (plain[0] - bias).abs().max() + 1e-4
    multiply_signs_in(layer, None)
    assert torch.equal(outputs(x)[0], plain[0])


@pytest.mark.parametrize("kind", [BinaryLinear, SteLinear])
def test_dense_signs_in_bfloat16(kind: Any) -> None:
    layer = kind(252, 5, bias=True)
    layer.bias.data.copy_(torch.arange(5) / 8)
    x = torch.randint(0, 2, (40, 252)) * 2.0 - 1.0

    def mean(x: torch.Tensor) -> torch.Tensor:
        out = layer(x)
        return out.mean if kind is BinaryLinear else out

    plain, real = mean(x), mean(0.9 * x)
    multiply_signs_in(layer, torch.bfloat16)
    lower = mean(x)
    assert lower.dtype == torch.float32 and torch.equal(mean(0.9 * x), real)
    assert torch.equal(lower, plain) == (kind is SteLinear)
    assert (lower - plain).abs().max() <= 2**-9 * 252 + 2**-9 * plain.abs().max() + 1e-4

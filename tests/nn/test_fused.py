"""Fused norm, pool and sign against the layers one by one."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from blrc.errors import BlrcError
from blrc.nn import Gaussian, StochasticBatchNorm1d, StochasticBatchNorm2d, StochasticMaxPool2d, StochasticSign, models
from blrc.nn.fast.fused import NormPoolSign, fused
from blrc.nn.fast.passes import PLAIN, Passes

GAMMAS = (-1.3, -0.02, 0.03, 0.7, 1.1)  # at 0 all positions of a window are alike, and any may be chosen


def layers(
    channels: int, pooled: bool, hard: bool, tau: float, affine: bool = True, eps: float = 1e-3
) -> list[nn.Module]:
    norm = StochasticBatchNorm2d(channels, eps=eps, affine=affine, dtype=torch.float64)
    if norm.weight is not None and norm.bias is not None:
        norm.weight.data = torch.tensor([GAMMAS[c % len(GAMMAS)] for c in range(channels)], dtype=torch.float64)
        norm.bias.data.normal_()
    return [norm, *([StochasticMaxPool2d(2)] if pooled else []), StochasticSign(tau, hard)]


def block(parts: list[nn.Module], passes: Passes = PLAIN) -> NormPoolSign:
    (made,) = fused(nn.Sequential(*parts), lambda: passes)
    assert isinstance(made, NormPoolSign)
    return made.double()


def maps(n: int, c: int, h: int, w: int, rows: int, seed: int = 0) -> Gaussian:
    rng = torch.Generator().manual_seed(seed)
    mean = torch.randn(n, h, w, c, generator=rng, dtype=torch.float64) * 3 + 1
    var = torch.rand(rows, h, w, c, generator=rng, dtype=torch.float64)
    return Gaussian(*(x.permute(0, 3, 1, 2).requires_grad_() for x in (mean, var)))


def outcome(network: nn.Module, norm: nn.Module, x: Gaussian) -> dict[str, torch.Tensor]:
    """Samples, gradients and statistics of one step."""
    leaves = Gaussian(*(t.detach().clone(memory_format=torch.preserve_format).requires_grad_() for t in x))
    torch.manual_seed(1)
    out = network(leaves)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2), dtype=out.dtype)
    (weights * out).sum().backward()
    found = {name: p.grad for name, p in norm.named_parameters() if p.grad is not None}
    assert leaves.mean.grad is not None and leaves.var.grad is not None
    return {"out": out.detach(), "mean": leaves.mean.grad, "var": leaves.var.grad, **found, **norm.state_dict()}


@given(
    n=st.integers(2, 5),
    c=st.integers(1, 7),
    half=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    shared=st.booleans(),
    pooled=st.booleans(),
    hard=st.booleans(),
    affine=st.booleans(),
    tau=st.sampled_from([0.5, 1.0, 1.7]),
    eps=st.sampled_from([1e-5, 0.5]),
    seed=st.integers(0, 1000),
)
def test_samples_gradients_and_statistics_are_those_of_the_layers(
    n: int,
    c: int,
    half: tuple[int, int],
    shared: bool,
    pooled: bool,
    hard: bool,
    affine: bool,
    tau: float,
    eps: float,
    seed: int,
) -> None:
    x = maps(n, c, 2 * half[0], 2 * half[1], 1 if shared else n, seed)
    parts = layers(c, pooled, hard, tau, affine, eps)
    copies = deepcopy(parts)
    apart, together = outcome(nn.Sequential(*parts), parts[0], x), outcome(block(copies), copies[0], x)
    assert apart.keys() == together.keys() and together["num_batches_tracked"] == 1
    for name, value in apart.items():
        torch.testing.assert_close(together[name], value, rtol=1e-9, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")
    assert together["out"].is_contiguous(memory_format=torch.channels_last) and together["mean"].abs().max() > 0


@pytest.mark.parametrize("value", [1e6, -1e6])
def test_a_sure_sign_has_a_finite_gradient(value: float) -> None:
    """z beyond its clamp, variance 0."""
    parts = layers(1, pooled=True, hard=True, tau=1.0)
    x = maps(2, 1, 2, 2, 2)
    x = Gaussian(x.mean.detach().clone() + value, torch.zeros_like(x.var))
    found = outcome(block(parts), parts[0], x)
    assert all(bool(value.isfinite().all()) for value in found.values())


def test_a_tie_gives_plus_one() -> None:
    parts = [StochasticBatchNorm2d(2, dtype=torch.float64), StochasticSign()]
    parts[1].noise.draw = torch.Tensor.zero_
    made = block(parts)
    zeros = torch.zeros(2, 2, 2, 2, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    assert torch.equal(made(Gaussian(zeros, zeros + 1)), zeros + 1) and made.batch == 2


def refuse(*_: Any) -> Any:
    raise AssertionError("a fused pass was taken")


NONE = Passes(*(refuse for _ in fields(Passes)))


@pytest.mark.parametrize("what", ["eval", "batch", "layout", "exact", "window", "padding", "odd", "flat", "broadcast"])
def test_what_is_not_fused_goes_through_the_layers(what: str) -> None:
    parts: list[Any] = layers(3, pooled=True, hard=True, tau=1.0)
    x = maps(4, 3, 5 if what == "odd" else 6, 6, 4)
    made = block(parts, NONE)
    if what == "batch":
        made.batch = 8
    if what == "layout":
        x = Gaussian(*(t.detach().contiguous() for t in x))
    if what == "exact":
        parts[2].exact = True
    if what == "window":
        made.pool.kernel_size = (3, 3)
    if what == "padding":
        made.pool.padding = (1, 1)
    if what == "broadcast":
        x = Gaussian(x.mean, x.var[:, :, :1, :1])
    if what == "flat":
        parts = [StochasticBatchNorm1d(3, dtype=torch.float64), StochasticSign()]
        made, x = block(parts, NONE), Gaussian(x.mean[:, :, 0, 0], x.var[:, :, 0, 0])
    parts[0].train(what != "eval")
    torch.manual_seed(1)
    found = made(x)
    torch.manual_seed(1)
    assert torch.equal(found, nn.Sequential(*parts)(x))
    with pytest.raises(AssertionError, match="a fused pass was taken"):
        block(layers(3, pooled=True, hard=True, tau=1.0), NONE)(maps(4, 3, 6, 6, 4))


def test_wrong_input_gets_the_layers_own_message() -> None:
    parts = layers(3, pooled=False, hard=True, tau=1.0)
    with pytest.raises(BlrcError, match="takes a Gaussian"):
        block(parts)(torch.zeros(1))
    with pytest.raises(BlrcError, match=r"StochasticBatchNorm2d takes a Gaussian of \(N, 3, H, W\)"):
        block(parts)(maps(4, 2, 6, 6, 4))
    with pytest.raises(BlrcError, match="more than one value per channel"):
        block(parts)(maps(1, 3, 1, 1, 1))


def test_a_fused_network_shares_what_the_network_holds() -> None:
    for flavour in (models.mnist(), models.cifar10(width=0.125)):
        made = fused(flavour)
        blocks = [layer for layer in made if isinstance(layer, NormPoolSign)]
        assert len(blocks) == sum(name.startswith("norm") for name, _ in flavour.named_children())
        assert [id(p) for p in made.parameters()] == [id(p) for p in flavour.parameters()]
        made.train()
        assert flavour[1].training and fused(flavour).training
        flavour.eval()
        assert not made[1].norm.training and not fused(flavour).training
        assert [tensor.shape for tensor in made.state_dict().values()] == [
            tensor.shape for tensor in flavour.state_dict().values()
        ]
    alone = nn.Sequential(StochasticBatchNorm2d(3), StochasticMaxPool2d(2), nn.Identity(), StochasticBatchNorm2d(3))
    assert list(fused(alone)) == list(alone)


def test_regression_a_fused_network_lies_where_the_network_does() -> None:
    """A tensor of its own was on the CPU: on a GPU the first backward pass failed."""
    made = fused(models.mnist().to("meta"))
    assert {tensor.device.type for tensor in (*made.parameters(), *made.buffers())} == {"meta"}

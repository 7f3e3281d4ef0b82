"""Noise comes from torch's default generator, has the layout asked for, and is new where it must be."""

from __future__ import annotations

import pytest
import torch

from blrc.errors import BlrcError
from blrc.nn import BinaryLinear, Gaussian, StochasticMaxPool2d, StochasticSign, reuse_noise
from blrc.nn.noise import SLACK, Noise


@pytest.mark.parametrize("reuse", [False, True])
def test_layout_and_distinct_values(reuse: bool) -> None:
    noise = Noise(torch.Tensor.normal_, reuse)
    for x in (
        torch.empty(3, 4, 5, 6),
        torch.empty(3, 4, 5, 6).to(memory_format=torch.channels_last),
        torch.empty(7, 8),
    ):
        for _ in range(3):  # reused noise begins elsewhere each time
            drawn = noise.like(x.double())
            assert drawn.shape == x.shape and drawn.stride() == x.stride() and drawn.dtype == torch.float64
            assert drawn.unique().numel() == x.numel()


@pytest.mark.parametrize("reuse", [False, True])
def test_expanded_and_sliced_tensors_get_independent_noise(reuse: bool) -> None:
    noise = Noise(torch.Tensor.normal_, reuse)
    for x in (torch.empty(1, 4).expand(5, 4), torch.empty(5, 8)[:, ::2]):
        assert noise.like(x).unique().numel() == x.numel()


@pytest.mark.parametrize("reuse", [False, True])
def test_the_seed_decides(reuse: bool) -> None:
    sign = StochasticSign()
    reuse_noise(sign, reuse)
    x = Gaussian(torch.zeros(500), torch.ones(1))

    def draws(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        sign.train()  # forgets the buffer
        return torch.stack([sign(x) for _ in range(3)])

    assert torch.equal(draws(1), draws(1))
    assert not torch.equal(draws(1), draws(2))


def test_reused_noise_is_drawn_once_at_another_offset_each_time() -> None:
    fills = []
    noise = Noise(lambda flat: (fills.append(flat.numel()), flat.normal_())[1], reuse=True)
    first, second = noise.like(torch.empty(100)), noise.like(torch.empty(100))
    assert fills == [100 + SLACK] and not torch.equal(first, second)
    noise.like(torch.empty(200))  # larger than the buffer was made for
    assert fills == [100 + SLACK, 200 + SLACK]
    noise.forget()
    noise.like(torch.empty(10))
    assert fills[-1] == 10 + SLACK


def test_train_and_eval_of_the_whole_network_forget() -> None:
    model = torch.nn.Sequential(torch.nn.Sequential(StochasticMaxPool2d(2)), StochasticSign())
    reuse_noise(model)
    model(Gaussian(torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 1, 1)))
    assert all(layer.noise.buffer is not None for layer in (model[0][0], model[1]))
    model.eval()
    assert all(layer.noise.buffer is None for layer in (model[0][0], model[1]))


def test_a_network_without_noise_is_refused() -> None:
    with pytest.raises(BlrcError, match="no stochastic layer"):
        reuse_noise(BinaryLinear(2, 2))

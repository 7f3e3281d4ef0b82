"""Weights of up to 8 bits in networks of plain PyTorch: they are recognised by value, whatever computes them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from random_networks import encoding_of, raw_samples
from torch import nn
from torch.nn import functional

from blrc.errors import BlrcError
from blrc.frontend.sample import MAP, sample
from blrc.frontend.saving import from_model
from blrc.lowering.lower import lower
from blrc.net.encoding import device_layout, pixels
from blrc.program import reference
from blrc.program.program import Conv, Program, Scores


def signs(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))


class Sign(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return signs(x)


class Rounded(nn.Conv2d):
    """Fake quantisation as textbooks have it, with a scale for each channel and numbers up to `most`."""

    most = 127.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        scale = self.weight.detach().abs().amax(dim=(1, 2, 3), keepdim=True) / self.most
        weight = torch.clamp(torch.round(self.weight / scale), -self.most, self.most) * scale
        return self._conv_forward(input, self.weight + (weight - self.weight).detach(), self.bias)


class Plain(Rounded):
    """The same without an estimator of gradients, whose sum rounds."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        scale = self.weight.detach().abs().amax(dim=(1, 2, 3), keepdim=True) / self.most
        return self._conv_forward(input, torch.round(self.weight / scale) * scale, self.bias)


class Stored(nn.Linear):
    """Numbers of int8 and a scale, as a checkpoint of another tool holds them."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        numbers = self.weight.detach().mul(40).round().clamp(-127, 127).to(torch.int8)
        return functional.linear(input, numbers.float() * 0.03125, self.bias)


class Ternary(nn.Linear):
    """Signs that are 0 where a weight is small, times the mean of the others."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        numbers = torch.sign((5 * self.weight).round())
        scale = (self.weight.abs() * numbers.abs()).sum(1, keepdim=True) / numbers.abs().sum(1, keepdim=True)
        return functional.linear(input, numbers * scale, self.bias)


def program_of(model: nn.Module, kind: str = "bits", shape: tuple[int, int, int] = (2, 9, 8)) -> Program:
    """The program, whose scores are those of the module but for the last layer's rounding."""
    encoding = pixels(shape, mean=[0.5] * 2, std=[0.25] * 2) if kind == "uint8" else encoding_of(kind, shape)
    raw = raw_samples(encoding, 30, 0)
    exact = (raw.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.25)
    x = torch.from_numpy(exact if kind == "uint8" else encoding.real(raw))
    model.train()(x)  # norms get statistics of what arrives
    found = from_model(model.eval(), encoding, raw, source="net.pt")
    program = lower([sample(found, MAP, running=True)])
    device = device_layout(raw)
    ours = reference.scores(program, device.astype(bool) if kind == "bits" else device) * program.score_scale
    with torch.no_grad():
        theirs = model(x).numpy()
    assert np.abs(ours - theirs).max() <= program.score_scale * (program.ops[-1].fan_in + 2) / 2 * 1.001
    return program


@pytest.mark.parametrize("most", [127.0, 7.0, 1.0])
@pytest.mark.parametrize(("cls", "kind"), [(Plain, "bits"), (Plain, "uint8"), (Rounded, "uint8")])
def test_convolutions_that_round_their_weights(cls: type[Rounded], most: float, kind: str) -> None:
    """A straight-through estimator adds what it subtracts, and so leaves weights off by roundings."""
    torch.manual_seed(int(most))
    first, depthwise = cls(2, 6, 3, stride=2), cls(6, 6, 3, padding=1, groups=6, bias=False)
    first.most = depthwise.most = most
    model = nn.Sequential(
        first, nn.BatchNorm2d(6), Sign(), depthwise, nn.BatchNorm2d(6), nn.ReLU(), nn.Hardtanh(), nn.BatchNorm2d(6),
        Sign(), nn.Flatten(), nn.Linear(6 * 4 * 3, 5),
    )  # fmt: skip
    program = program_of(model, kind=kind)
    convs = [op for op in program.ops if isinstance(op, Conv)]
    assert [(op.whole, op.ternary) for op in convs] == [(most > 1, most == 1)] * 2


def test_ternary_weights_take_two_bits() -> None:
    torch.manual_seed(2)
    dense = Ternary(144, 20)
    dense.weight.data.mul_(4)
    program = program_of(nn.Sequential(nn.Flatten(), dense, nn.BatchNorm1d(20), Sign(), nn.Linear(20, 4)))
    assert [op.ternary for op in program.ops if isinstance(op, Conv)] == [True]


def test_a_last_layer_of_whole_numbers_is_one_of_real_weights_that_are_not_rounded() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), Stored(144, 20), nn.BatchNorm1d(20), Sign(), Stored(20, 4))
    program = program_of(model)
    first = next(op for op in program.ops if isinstance(op, Conv))
    assert first.whole and isinstance(program.ops[-1], Scores)
    last = model[-1]
    numbers = last.weight.detach().mul(40).round().clamp(-127, 127).numpy()  # type: ignore[operator]
    held = program.constant(program.ops[-1].weights).reshape(4, 20)
    assert (held == numbers * (127 // np.abs(numbers).max())).all()


def test_the_number_minus_128_is_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 20, bias=False), nn.BatchNorm1d(20), Sign(), nn.Linear(20, 4))
    numbers = torch.randint(-127, 128, (20, 144)).float()
    numbers[3, :2] = torch.tensor([-128.0, 127.0])
    model[1].weight.data.copy_(numbers * 0.5)
    encoding = encoding_of("bits", (2, 9, 8))
    with pytest.raises(BlrcError) as error:
        from_model(model.eval(), encoding, raw_samples(encoding, 4, 0), source="net.pt")
    assert re.search(r"layer '1' .*of which one is -128", str(error.value))


def test_real_weights_are_still_refused_by_layer() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 20), nn.BatchNorm1d(20), Sign(), nn.Linear(20, 4))
    encoding = encoding_of("bits", (2, 9, 8))
    with pytest.raises(BlrcError, match=r"layer '1' .*its weights take 144 values in output channel 0"):
        from_model(model.eval(), encoding, raw_samples(encoding, 4, 0), source="net.pt")

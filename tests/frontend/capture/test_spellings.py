"""Signs and padding in the spellings of plain PyTorch, on integers of which many are 0, in layers of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from spelled_networks import SHAPE, Network, Step, sign, taken
from torch import nn

import blrc
from blrc.app.export import build
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.lowering.lower import score_scale
from blrc.net.encoding import device_layout
from blrc.program import reference

Function = Callable[[torch.Tensor], torch.Tensor]


def filled(x: torch.Tensor) -> torch.Tensor:
    x = x.sign()
    x[x == 0] = 1
    return x


def in_place(x: torch.Tensor) -> torch.Tensor:
    x.data = torch.where(x.data >= 0, 2.0, -2.0).to(x)
    return x.mul_(0.5)


SIGNS: dict[str, Function] = {
    "where >=": lambda x: torch.where(x >= 0, 1.0, -1.0).to(x),
    "where >": lambda x: torch.where(x > 0, torch.tensor(1.0), torch.tensor(-1.0)).to(x),
    "where <": lambda x: torch.where(x < 0, -torch.ones_like(x), torch.ones_like(x)),
    "where <=": lambda x: torch.where(x <= 0, 1, -1).to(x),
    "where constant <=": lambda x: torch.where(torch.zeros((), dtype=x.dtype) <= x, 1, -1).to(x),
    "where, at 2": lambda x: torch.where(x >= 2, 1.0, -1.0).to(x),
    "where, above -2": lambda x: torch.where(x > -2, 0.25, -0.25).to(x),
    "by channel": lambda x: torch.where(x > torch.arange(-2, 4).to(x).view(-1, 1, 1), -1, 1).to(x),
    "float": lambda x: (x >= 0).to(x) * 2 - 1,
    "float, from 1": lambda x: 1 - 2 * (x < 0).to(x),
    "zero or one": lambda x: (x > 0).to(x),
    "other values": lambda x: torch.where(x >= 0, 3.0, -0.5).to(x),
    "autograd function": lambda x: Step.apply(x),  # type: ignore[no-untyped-call]
    "filled": filled,
    "masked": lambda x: x.sign().masked_fill(x == 0, 1),
    "sign + 0.1": lambda x: torch.sign(torch.sign(x) + 0.1),
    "sign of x + 0.1": lambda x: torch.sign(x + 0.1),
    "in place": in_place,
    "estimator": lambda x: x + (torch.where(x >= 0, 1.0, -1.0).to(x) - x).detach(),
    "estimator of a clip": lambda x: F.hardtanh(x) + (torch.sign(x - 0.5) - F.hardtanh(x)).detach(),
    "estimator of tanh": lambda x: torch.sign(x + 1e-3).detach() - torch.tanh(x).detach() + torch.tanh(x),
    "sign of tanh": lambda x: torch.where(torch.tanh(x) >= 0, 1.0, -1.0).to(x),
    "heaviside": lambda x: 2 * torch.heaviside(x, torch.tensor(1.0).to(x)) - 1,
    "clamp": lambda x: torch.where(x.clamp(-1, 1) >= 0, 1.0, -1.0).to(x),
    "negative": lambda x: -torch.where(-x >= 0, 1.0, -1.0).to(x),
    "1 - x": lambda x: torch.where(1 - x >= 0, 1.0, -1.0).to(x),
    "logic": lambda x: torch.where(~(x < 0) & (x >= 0), 1.0, -1.0).to(x),
    "sign twice": lambda x: torch.sign(torch.where(x >= 0, 1.0, -1.0).to(x)),
    "minimum": lambda x: torch.where(torch.minimum(x, torch.ones(()).to(x)).clamp(min=-0.5) >= 0, 1.0, -1.0).to(x),
    "divided": lambda x: torch.where((x * 0.3 - 0.6) / -3 >= 0, 1.0, -1.0).to(x),
    "PReLU": lambda x: torch.where(F.prelu(x - 2, torch.tensor([0.25]).to(x)) + 0.5 >= 0, 1.0, -1.0).to(x),
    "rounded": lambda x: ((x + 1) / 2).clamp(0, 1).round() * 2 - 1,
    "clipped, then rounded": lambda x: ((F.hardtanh(x) + 1) / 2).round() * 2 - 1,
    "rounded to 1 or 2": lambda x: ((x + 3) / -2).clamp(-2, -1).round(),
    "rounded down": lambda x: ((x + 1) / 2).clamp(0, 1).floor(),
    "rounded up": lambda x: F.relu((x + 1) / 2).clamp(max=1).ceil() * 2 - 1,
    "hard sigmoid": lambda x: 2 * F.hardsigmoid(x).round() - 1,
    "estimator of a hard sigmoid": lambda x: F.hardsigmoid(x) + (F.hardsigmoid(x).round() - F.hardsigmoid(x)).detach(),
    "ReLU": lambda x: torch.where(F.relu_(x + 0.0) - 2 >= 0, 1.0, -1.0).to(x),
}


@pytest.mark.parametrize("name", SIGNS)
def test_every_spelling_of_a_sign(name: str) -> None:
    model = Network(SIGNS[name]).eval()
    program, nets = build(taken(model), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (200, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        x = torch.from_numpy(raw * 2.0 - 1)
        z = model.conv.double()(x)
        signs = SIGNS[name](z.clone())
    assert (z == 0).any() or name == "by channel"
    bits = dict(reference.trace(program, device_layout(raw), 0))[program.ops[0].y.name].transpose(0, 3, 1, 2)
    for channel in range(6):
        values = signs[:, channel].numpy()
        above = values > (signs.max() + signs.min()).item() / 2
        same = bits[:, channel] == above
        assert same.all() or not same.any()  # it may stand for its opposite, which the next layer's weights undo
    with torch.no_grad():
        expected = model.double()(x).numpy()
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.abs(found - expected).max() <= 37.001 * score_scale(nets) / 2


PADDED: dict[str, tuple[tuple[int, int, int, int], Callable[..., Any]]] = {
    "before a convolution": (
        (0, 0, 1, 1),
        lambda x, w: F.conv2d(F.pad(x, (0, 1, 0, 1)), w, stride=2),
    ),
    "beside its own padding": ((3, 1, 1, 2), lambda x, w: F.conv2d(F.pad(x, (0, 1, 2, 0)), w, stride=2, padding=1)),
    "twice": ((0, 1, 1, 2), lambda x, w: F.conv2d(nn.ZeroPad2d((1, 1, 0, 0))(F.pad(x, (0, 1, 0, 1))), w, stride=2)),
    "of columns": ((0, 0, 0, 2), lambda x, w: F.conv2d(F.pad(x, (0, 2)), w, stride=2)),
    "same": ((0, 0, 1, 1), lambda x, w: F.conv2d(x, w[:, :, :2, :2], padding="same")),
}


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", PADDED)
def test_zeros_around_what_a_convolution_reads(name: str) -> None:
    """Pad a first layer on bits, and one behind a sign; torch computes with the zeros."""
    sides, function = PADDED[name]
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(0, 2, (6, 6, 3, 3), generator=generator) * 2.0 - 1

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = self.features(torch.ones(1, 2, 9, 8)).numel()
            self.fc = nn.Linear(width, 4)

        def features(self, x: torch.Tensor) -> torch.Tensor:
            for inputs in (2, 6):
                z = function(x, weight[:, :inputs].to(x)) + 0.5
                x = sign(F.max_pool2d(F.pad(z, (0, 1, 1, 0), value=-torch.inf), 2, 1))
            return F.max_pool2d(F.pad(x, (1, 0, 1, 0), value=-1.0), 2, ceil_mode=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.features(x).flatten(1))

    torch.manual_seed(4)
    model = Padded().eval()
    shape = (2, 9, 8)
    checkpoint = taken(model, blrc.bits(shape))
    found = [node.options["padding"] for node in checkpoint.nodes if "padding" in node.options]
    assert found[0] == list(sides) and found[1] == [1, 0, 0, 1]
    program, nets = build(checkpoint, [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (100, *shape)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    scale = score_scale(nets)
    bound = model.fc.in_features * scale / 2 + 1e-9  # of weights rounded to steps of `scale`
    assert np.abs(reference.scores(program, device_layout(raw)) * scale - expected).max() <= bound


FILLED: dict[str, Callable[..., Any]] = {
    "+1": lambda x, w: F.conv2d(F.pad(x, (1, 0, 2, 1), value=1.0), w[:, :, :2, :2]),
    "-1": lambda x, w: F.conv2d(F.pad(x, (1, 2), value=-1.0), w, padding=1),
    "0 and 1": lambda x, w: F.conv2d(F.pad((x + 1) / 2, (0, 1, 1, 0), value=1.0), w, padding=(1, 0)),
    "0 and 1, its own": lambda x, w: F.conv2d((x + 1) / 2, w, padding=1),
    "times -3": lambda x, w: F.conv2d(F.pad(-3 * x, (1, 1, 1, 1), value=3.0), w),
    "-1 and 3": lambda x, w: F.conv2d(F.pad(1 - 2 * x, (0, 2, 1, 1), value=3.0), w),
    "groups": lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), value=1.0), w[:, ::2], groups=2),
    "a line": lambda x, w: F.conv1d(F.pad(x, (2, 1), value=1.0), w[:, :, 0]),
}


@pytest.mark.parametrize("name", FILLED)
def test_bits_around_what_a_convolution_reads(name: str) -> None:
    """Pad bits with one of their values, on bits of the input and of a sign; torch computes with the numbers."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(0, 2, (6, 6, 3, 3), generator=generator) * 2.0 - 1
    line = name == "a line"
    shape = (2, 9) if line else SHAPE

    class Filled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(6) if line else nn.BatchNorm2d(6)
            self.norm.weight.data = torch.tensor([1.0, -1.0, 0.5, -0.5, 2.0, -2.0])
            self.norm.running_mean = torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0, 0.0])
            self.fc = nn.Linear(self.eval().features(torch.ones(1, *shape)).numel(), 4)
            self.fc.weight.data.sign_()

        def features(self, x: torch.Tensor) -> torch.Tensor:
            for inputs in (2, 6):
                x = sign(self.norm(FILLED[name](x, weight[:, :inputs].to(x))))
            return x

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.features(x).flatten(1))  # type: ignore[no-any-return]

    torch.manual_seed(4)
    model = Filled().eval()
    encoding = blrc.bits(shape)
    program, nets = build(taken(model, encoding), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (100, *shape)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    assert len(np.unique(expected)) > 10
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.allclose(found, expected, rtol=0, atol=0.02)


def test_the_layer_that_only_pads_leaves_its_name_to_the_convolution() -> None:
    """It was named as the module, and the module's own convolution NAME_2."""

    class Padding(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.conv2d(F.pad(x, (1, 1, 1, 1), value=1.0), sign(self.weight))

    class Within(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = Padding(2, 6, 3), nn.BatchNorm2d(6), nn.Linear(6 * 20, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(sign(self.norm(self.conv(x))).flatten(1))  # type: ignore[no-any-return]

    nodes = taken(Within().eval(), blrc.bits(SHAPE)).nodes
    assert [(node.name, node.kind) for node in nodes[:3]] == [
        ("conv_pad", "ste_conv2d"),
        ("conv_threshold", "threshold"),
        ("conv", "ste_conv2d"),
    ]


class PooledWhole(nn.Module):
    """Pads a map on some sides, and pools all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Linear(6, 3, bias=False)
        for layer in (self.conv, self.last):
            layer.weight.data = sign(torch.randn_like(layer.weight))
        self.norm.weight.data, self.norm.bias.data = torch.randn(6), torch.randn(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = F.pad(self.norm(self.conv(x)), (1, 0, 0, 2), value=-torch.inf)
        scores: torch.Tensor = self.last(sign(F.adaptive_max_pool2d(padded, 1)).flatten(1))
        return scores


def test_regression_a_padded_map_is_pooled_whole() -> None:
    """The pool had the padded size, but not the padding, and was refused."""
    torch.manual_seed(0)
    model, encoding = PooledWhole().eval(), blrc.int8_codes(SHAPE, scale=1)
    program = build(from_model(model, encoding), [MAP])[0]
    raw = np.random.default_rng(0).integers(-128, 128, (80, *SHAPE)).astype(np.int8)
    with torch.no_grad():
        wanted = model(torch.from_numpy(raw).float()).numpy()
    assert (reference.scores(program, device_layout(raw)) * program.score_scale == wanted).all()
    assert len({*map(tuple, wanted)}) == 3  # the bits that a whole map reaches are few

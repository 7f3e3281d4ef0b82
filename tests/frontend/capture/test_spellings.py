"""Signs and scales in the spellings of plain PyTorch, on integers of which many are 0; and what is refused, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.checkpoint import Checkpoint
from blrc.frontend.sample import MAP
from blrc.frontend.saving import from_model
from blrc.lowering.lower import score_scale
from blrc.net.encoding import device_layout
from blrc.program import reference

Function = Callable[[torch.Tensor], torch.Tensor]
SHAPE = (2, 5, 4)
BITS = blrc.bits(SHAPE)


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[x < 0] = -1
        out[x >= 0] = 1
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


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


class Network(nn.Module):
    """A binary convolution of 18 or fewer inputs, a function, and real scores."""

    def __init__(self, function: Callable[..., Any], last: Callable[..., Any] | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv = nn.Conv2d(2, 6, (3, 3), bias=False)
        self.conv.weight.data.sign_()
        self.function, self.last = function, last
        self.fc = nn.Linear(36, 4)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.function(self.conv(x))
        return self.fc(x.flatten(1)) if self.last is None else self.last(self, x)


def taken(model: nn.Module, encoding: blrc.InputEncoding = BITS, **options: Any) -> Checkpoint:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return from_model(model, encoding, **options)


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


def scaled_by_data(m: Network, x: torch.Tensor) -> torch.Tensor:
    return m.fc((x.sign() * x.abs().mean(1, keepdim=True)).flatten(1))  # type: ignore[no-any-return]


def condition(m: Network, x: torch.Tensor) -> torch.Tensor:
    return m.fc((x if x.sum() > 0 else -x).sign().flatten(1))  # type: ignore[no-any-return]


def written(m: Network, x: torch.Tensor) -> torch.Tensor:
    x = sign(x)
    x[:, 0] = 1.0
    return m.fc(x.flatten(1))  # type: ignore[no-any-return]


COUNT = [0]


def counted(m: Network, x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return m.fc((x + COUNT[0]).sign().flatten(1))  # type: ignore[no-any-return]


def sign(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0).to(x)


def identity(x: torch.Tensor) -> torch.Tensor:
    return x


def scores(m: Network, x: torch.Tensor) -> torch.Tensor:
    return m.fc(sign(x).flatten(1))  # type: ignore[no-any-return]


REFUSED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "real activations": (
        lambda m, x: m.fc(torch.relu(x).flatten(1)),
        ["layer 'fc' (Linear)", "whose input is not binary", "'relu'", "put a sign"],
    ),
    "K of XNOR-Net": (scaled_by_data, ["multiplies two values that both depend on the input", "K of XNOR-Net"]),
    "weights from data": (
        lambda m, x: F.linear(sign(x).flatten(1), x[:4].flatten(1)),
        ["weights or a bias that depend on the input"],
    ),
    "residual": (lambda m, x: m.fc(sign(x + F.relu(x)).flatten(1)), ["adds what", "residual", "chain of layers"]),
    "maximum of a batch": (lambda m, x: scores(m, x).max(), ["takes max along another dimension than that of the"]),
    "mean": (lambda m, x: m.fc(sign(x).mean((2, 3)).repeat(1, 6)), ["computes mean", "max pooling"]),
    "dropout": (lambda m, x: scores(m, F.dropout(x)), ["training=self.training"]),
    "sigmoid": (lambda m, x: m.fc(torch.sigmoid(x).flatten(1)), ["computes sigmoid"]),
    "condition": (condition, ["forward looks at a single value", "condition"]),
    "counter": (counted, ["for another input, or at each call"]),
    "batch": (lambda m, x: scores(m, x + len(x)), ["for another input, or at each call"]),
    "two outputs that are no scores": (lambda m, x: (x, x), ["no sign follows"]),
    "NumPy": (lambda m, x: torch.from_numpy(x.numpy().copy()), ["do not depend on its input", "NumPy"]),
    "no sign": (lambda m, x: x.flatten(1) * 2, ["no sign follows"]),
    "ends in a sign": (lambda m, x: sign(x).flatten(1), ["no softmax layer at its end"]),
    "three values": (lambda m, x: m.fc((x > 0).to(x).add(x < 0).flatten(1)), ["other values than two"]),
    "part": (lambda m, x: m.fc(torch.cat([x, -x], 1)[:, :6].sign().flatten(1)), ["computes cat", "chain"]),
    "written in part": (written, ["part of a tensor"]),
    "batch norm": (
        lambda m, x: scores(m, F.batch_norm(x, torch.zeros(6), torch.ones(6), training=True)),
        ["statistics of its batch"],
    ),
    "softmax of maps": (lambda m, x: scores(m, x.softmax(1)), ["softmax along another dimension"]),
    "error": (lambda m, x: m.fc(x), ["fails on an input of shape", "mat1 and mat2"]),
    "transposed": (lambda m, x: m.fc(sign(x).permute(0, 2, 3, 1).flatten(1)), ["permute", "(N, C, H, W)"]),
    "padded": (
        lambda m, x: m.fc(F.pad(sign(x), (1, 0, 1, 0))[:, :, 1:, 1:].flatten(1)),
        ["pads with 0 what no convolution (for 0) or max pooling (for -inf) reads next"],
    ),
    "padded with 2": (
        lambda m, x: scores(m, F.conv2d(F.pad(sign(x), (0, 2, 0, 2), value=2.0), torch.ones(6, 6, 3, 3).to(x))),
        ["a convolution whose input was padded with 2", "pad bits, behind the sign, with 0 or with one of their"],
    ),
    "padded channels": (lambda m, x: m.fc(F.pad(sign(x), (0, 0, 0, 0, 1, 0))[:, 1:].flatten(1)), ["height and width"]),
    "padded with 0 and pooled": (
        lambda m, x: scores(m, F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 2, 1)),
        ["pools what was padded with 0, which may be the largest", "-inf"],
    ),
    "pool of a pad": (
        lambda m, x: scores(m, F.max_pool2d(F.pad(x, (0, 2, 0, 2), value=-torch.inf), 2, 1)[:, :, :3, :2]),
        ["pools with padding (0, 0, 2, 2)", "at most (1, 1)"],
    ),
    "pool": (
        lambda m, x: scores(m, F.max_pool2d(x, (2, 1), 1, dilation=2).repeat(1, 1, 3, 1)),
        ["pools with dilation"],
    ),
    "whole numbers": (lambda m, x: m.fc(x.int().to(x).flatten(1)), ["into whole numbers"]),
    "sign of -0.0": (
        lambda m, x: scores(m, torch.copysign(torch.ones_like(x), x)),
        ["computes copysign, which has no binary form", "signs"],
    ),
    "another sign far from 0": (
        lambda m, x: m.fc(torch.where(x > 6, torch.zeros(()).to(x), sign(x)).flatten(1)),
        ["combines two values that both depend on the input", "chain of layers"],
    ),
    "real inner layer": (
        lambda m, x: F.linear(sign(m.fc(sign(x).flatten(1))), torch.ones(4, 4)),
        ["'fc'", "only a last linear layer may have real ones", "sign(w)"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_refused_by_name(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(BlrcError) as error:
        taken(Network(identity, call))
    said = str(error.value)
    assert "\n" not in said
    for word in words:
        assert word in said


class OwnLinear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight.tanh())


class Ternary(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, torch.sign((5 * self.weight).round()))  # most are 0


class Drawn(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, torch.sign(torch.randn_like(self.weight)))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (OwnLinear(40, 8), ["layer '1' (OwnLinear)", "take 40 values in output channel 0", "sign(w) times a scale"]),
        (Ternary(40, 8), ["layer '1' (Ternary)", "ternary", "torch.sign(0) is 0"]),
        (Drawn(40, 8), ["layer '1': its weight is another", "at each call"]),
        (nn.Linear(40, 8), ["layer '1' (Linear)", "take 40 values"]),
        (nn.Bilinear(40, 40, 8), ["layer '1' (Bilinear)", "fails on an input"]),
    ],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.filterwarnings("ignore:.*pixels are rounded to int8 codes:UserWarning")
def test_layers_of_ones_own_that_are_not_binary(layer: nn.Module, words: list[str]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), layer, nn.BatchNorm1d(8), nn.Hardtanh(), nn.Identity(), Signs(), nn.Linear(8, 3)
    )
    with pytest.raises(BlrcError) as error:
        taken(model)
    for word in words:
        assert word in str(error.value)


class Signs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sign(x)


def test_the_shape_of_the_input() -> None:
    model = nn.Sequential(nn.Unflatten(1, SHAPE), Network(sign))
    with pytest.raises(BlrcError, match=r"reshapes \(40,\) to \(2, 5, 4\).*describe the input .* shape \(2, 5, 4\)"):
        taken(model, blrc.bits((40,)))
    with pytest.raises(BlrcError, match=r"example: has shape \(3, 40\), but the input is described as \(N, 2, 5, 4\)"):
        taken(Network(sign), example=torch.zeros(3, 40))
    with pytest.raises(BlrcError, match="example=int: expected a tensor"):
        taken(Network(sign), example=3)
    assert taken(Network(sign), example=torch.ones(7, *SHAPE)).nodes == taken(Network(sign)).nodes


def test_names_are_those_of_modules_and_differ() -> None:
    """One sign for several layers, and functions of a module that has layers, too."""
    names = [node.name for node in taken(Network(lambda x: sign(F.relu(x - 1)))).nodes]
    assert names == ["conv", "shift", "relu", "sign", "flatten", "fc"]
    one = Signs()
    linear = nn.Linear(8, 8, bias=False)
    linear.weight.data.sign_()
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 8), one, linear, one, linear, one, nn.Linear(8, 3))
    nodes = taken(model).nodes
    assert [node.name for node in nodes] == ["0", "1", "2", "3", "2_2", "3_2", "2_3", "7"]
    assert len({node.name for node in nodes}) == len(nodes)


class OnlySigns(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, sign(self.weight))


def test_plain_layers_with_binary_weights_are_binary() -> None:
    """A last nn.Linear, too, whose scale and bias become those of the scores."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 8), Signs(), nn.Linear(8, 3))
    model[3].weight.data = 0.3 * sign(model[3].weight)
    checkpoint = taken(model)
    assert [node.kind for node in checkpoint.nodes][-3:] == ["ste_linear", "scale", "shift"]
    program, nets = build(checkpoint, [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    assert np.abs(reference.scores(program, device_layout(raw)) * score_scale(nets) - expected).max() < 1e-3


def test_real_scores_take_up_the_norm_behind_them() -> None:
    torch.manual_seed(2)
    norm = nn.BatchNorm1d(3)
    norm.running_mean, norm.running_var = torch.randn(3), torch.rand(3) + 0.1
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 8), Signs(), nn.Linear(8, 3), norm).eval()
    program, nets = build(taken(model), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.abs(found - expected).max() <= 9.001 * score_scale(nets) / 2


def test_one_output_and_other_distributions_are_refused() -> None:
    model = nn.Sequential(nn.Flatten(), OnlySigns(40, 64), Signs(), nn.Linear(64, 1))
    with pytest.raises(BlrcError, match="layer '3': one output is no choice"):
        build(taken(model), [MAP])

    class Halves(bnn.Bernoulli):
        """Weights of another size, by another law."""

        def moments(self) -> Any:
            return tuple(each / 2 for each in super().moments())

    layer = bnn.BinaryLinear(40, 64)
    layer.weight = Halves((64, 40))
    net = nn.Sequential(nn.Flatten(), layer, bnn.StochasticSign(), bnn.SoftmaxLinear(64, 3))
    with pytest.raises(BlrcError, match="layer '1': its weights: Halves has a moments of its own"):
        taken(net)


class Stepping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Step.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class Anew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(x)


def test_layers_of_blrc_are_still_read_by_class() -> None:
    """With words that say what stands in the way, and not torch's own."""
    for strange, words in (
        (Stepping(), "does not support item"),
        (Anew(), "a function of torch that takes tensors only"),
    ):
        model = nn.Sequential(nn.Flatten(), bnn.SteLinear(40, 64), strange, nn.Linear(64, 3))
        with pytest.raises(BlrcError, match=f"forward cannot be followed .*{words}"):
            taken(model)


class Deterministic(nn.Module):
    """Layers of blrc with weights that are not random, and a forward that calls functions of torch."""

    def __init__(self, function: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer, self.norm, self.sign = bnn.SteLinear(40, 8), nn.BatchNorm1d(8), bnn.SteSign()
        self.out, self.factor, self.function = bnn.SoftmaxLinear(8, 3), nn.Parameter(torch.tensor(2.0)), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


MESSAGES: dict[str, tuple[Callable[[Any, torch.Tensor], torch.Tensor], str]] = {
    "view": (lambda m, x: m.out(m.sign(m.norm(m.layer(x.view(-1, 40))))), "'view' .*nn.Flatten"),
    "sign": (lambda m, x: m.out(torch.sign(m.norm(m.layer(x.flatten(1))))), "'sign' .*use blrc.nn.SteSign"),
    "log_softmax": (
        lambda m, x: F.log_softmax(m.out(m.sign(m.norm(m.layer(x.flatten(1))))), 1),
        "'log_softmax' .*leave it out where it ends the network: the labels are the same",
    ),
    "twice": (
        lambda m, x: m.out(m.sign(m.norm(m.layer(m.sign(x.flatten(1)))))),
        "layer 'sign' is used twice; make a layer of its own",
    ),
    "parameter": (
        lambda m, x: m.out(m.sign(m.factor * m.norm(m.layer(x.flatten(1))))),
        "computes with the parameter or buffer 'factor' itself; use a layer for that: blrc.nn.ChannelScale",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_layers_of_blrc_are_not_called_with_is_told_with_its_remedy(name: str) -> None:
    function, words = MESSAGES[name]
    with pytest.raises(BlrcError, match=words):
        taken(Deterministic(function))


class Lines(nn.Module):
    """Do what has no form, in lines that a message can name."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.conv, self.fc, self.kind = nn.Conv2d(2, 6, 3), nn.Linear(36, 4), kind
        self.conv.weight.data.sign_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        if self.kind == "mean":
            x = x * torch.where(x.mean(1, keepdim=True) > 0, 1.0, -1.0)  # mean
        if self.kind == "condition" and x.sum() > 0:  # condition
            x = -x
        if self.kind == "sine":
            x = torch.sin(x)  # sine
        return self.fc(torch.sign(x).flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["mean", "condition", "sine"])
def test_a_refusal_names_the_line_of_the_modules_code(kind: str) -> None:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(i for i, text in enumerate(lines, 1) if text.endswith(f"  # {kind}"))
    words = {"mean": "multiplies two values", "condition": "a single value", "sine": "computes sin, which"}[kind]
    with pytest.raises(BlrcError) as error:
        taken(Lines(kind))
    assert words in str(error.value) and str(error.value).endswith(f" (test_spellings.py line {number})")


def test_a_refusal_names_no_line_where_there_is_none() -> None:
    with pytest.raises(BlrcError, match=r"^layer '2' \(Sigmoid\): computes sigmoid.*signs$"):
        taken(nn.Sequential(nn.Conv2d(2, 6, 3), nn.Flatten(), nn.Sigmoid(), nn.Linear(36, 4)).apply(_signs))


def _signs(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        module.weight.data.sign_()


def test_a_softmax_layer_at_the_end_is_told_to_be_left_out() -> None:
    model = nn.Sequential(nn.Flatten(), bnn.SteLinear(40, 8), bnn.SteSign(), bnn.SoftmaxLinear(8, 3), nn.LogSoftmax(1))
    with pytest.raises(BlrcError, match=r"layer '4' \(LogSoftmax\) .*leave it out where it ends the network"):
        taken(model)


@pytest.mark.parametrize("kind", [nn.LogSoftmax, nn.Softmax])
def test_a_softmax_at_the_end_of_plain_pytorch_is_left_out_with_a_word(kind: type[nn.Module]) -> None:
    model = nn.Sequential(Network(sign), kind(dim=1))
    with pytest.warns(UserWarning, match=r"leaves out the softmax at the end \(1\): the labels are the same"):
        found = from_model(model, BITS)
    assert found.nodes[-1].kind == "softmax" and found.nodes[-1].options["out_features"] == 4


def test_two_random_variables_are_not_joined_by_plus() -> None:
    """It made a tuple of four, which the next layer took for something else."""
    x = bnn.BinaryLinear(4, 3)(torch.ones(2, 4))
    with pytest.raises(TypeError, match=r"a Gaussian .* takes no \+"):
        x + x


class Quantised(NamedTuple):
    """A value with its scale, as Brevitas hands it from layer to layer."""

    value: torch.Tensor
    scale: torch.Tensor


class QuantSign(nn.Module):
    def forward(self, x: Any) -> Quantised:
        x = x.value if isinstance(x, Quantised) else x
        return Quantised(0.5 * sign(x), torch.tensor(0.5))


class QuantLinear(nn.Linear):
    def forward(self, x: Any) -> Quantised:  # type: ignore[override]
        scale = torch.tensor(0.25)
        return Quantised(F.linear(x.value, scale.to(x.value) * sign(self.weight), self.bias), x.scale * scale)


class Quantising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.fc1, self.act, self.fc2 = QuantSign(), QuantLinear(40, 8), QuantSign(), QuantLinear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(self.first(x.flatten(1))))).value  # type: ignore[no-any-return]


def test_values_that_travel_with_their_scale_are_taken() -> None:
    """Such modules ended in a message of NumPy's about `__cuda_array_interface__`."""
    model = Quantising()
    program, nets = build(taken(model), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, *SHAPE)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    assert np.abs(reference.scores(program, device_layout(raw)) * score_scale(nets) - expected).max() < 1e-3


def test_pixels_that_are_rounded_are_named_for_plain_pytorch_alone() -> None:
    """A network of blrc's layers is trained on the codes; nobody trains plain PyTorch on them."""
    pixels = blrc.pixels(SHAPE, mean=[0.5] * 2, std=[0.25, 0.3])
    with pytest.warns(UserWarning, match="pixels are rounded to int8 codes"):
        from_model(Network(sign), pixels)
    ours = nn.Sequential(nn.Flatten(), bnn.SteLinear(40, 8), bnn.SteSign(), bnn.SteLinear(8, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_model(Network(sign), blrc.int8_codes(SHAPE, scale=64))
        from_model(Network(sign), blrc.pixel_codes(SHAPE, table=np.arange(-128, 128)))
        from_model(Network(sign), blrc.pixels(SHAPE, mean=[0.5] * 2, std=[0.25, 0.3], exact=False))
        from_model(Network(sign), blrc.pixels(SHAPE, mean=[0.5] * 2, std=[0.25] * 2))
        from_model(ours, pixels)


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

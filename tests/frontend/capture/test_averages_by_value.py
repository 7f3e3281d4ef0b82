"""Take average pooling in plain PyTorch, in all its spellings: programs are those of networks of `blrc.nn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from by_night import first
from spelled_networks import Signs, sign, taken
from torch import nn

import blrc
from blrc import nn as bnn
from blrc.app.export import build
from blrc.errors import BlrcError
from blrc.frontend.sample import MAP
from blrc.lowering.lower import score_scale
from blrc.net.encoding import device_layout
from blrc.program import reference
from blrc.program.program import Program

Spelling = Callable[[torch.Tensor, list[int], list[int]], torch.Tensor]


class Conv1d(nn.Conv1d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, sign(self.weight), self.bias, self.stride, self.padding, self.dilation, self.groups)  # type: ignore[arg-type]


class Conv2d(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, sign(self.weight), self.bias, self.stride, self.padding, self.dilation, self.groups)  # type: ignore[arg-type]


class Linear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, sign(self.weight), self.bias)


class Average(nn.Module):
    """Average windows as a test spells it."""

    def __init__(self, spelling: Spelling, kernel: list[int], stride: list[int]) -> None:
        super().__init__()
        self.spelling, self.kernel, self.stride = spelling, kernel, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.spelling(x, self.kernel, self.stride)


def _pool(x: torch.Tensor, kernel: list[int], stride: list[int]) -> torch.Tensor:
    pool: Any = F.avg_pool2d if x.ndim == 4 else F.avg_pool1d
    return pool(x, kernel, stride)  # type: ignore[no-any-return]


def _of_zeros_and_ones(x: torch.Tensor, kernel: list[int], stride: list[int]) -> torch.Tensor:
    return _pool((x + 1) / 2, kernel, stride) * 2 - 1


def _turned(x: torch.Tensor, kernel: list[int], stride: list[int]) -> torch.Tensor:
    return -_pool(torch.where(x >= 0, -0.5, 0.5).to(x), kernel, stride) / 0.5


def _module(x: torch.Tensor, kernel: list[int], stride: list[int]) -> torch.Tensor:
    kind: Any = nn.AvgPool2d if x.ndim == 4 else nn.AvgPool1d
    return kind(kernel, stride, ceil_mode=False, count_include_pad=False)(x)  # type: ignore[no-any-return]


WINDOWS: list[Spelling] = [_pool, _of_zeros_and_ones, _turned, _module]


def _dims(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _adaptive(x: torch.Tensor, kernel: list[int], stride: list[int]) -> torch.Tensor:
    pool: Any = F.adaptive_avg_pool2d if x.ndim == 4 else F.adaptive_avg_pool1d
    return pool(x, 1).flatten(1)  # type: ignore[no-any-return]


WHOLE: list[Spelling] = [
    _adaptive,
    lambda x, kernel, stride: x.mean(_dims(x)),
    lambda x, kernel, stride: torch.mean(x, dim=[-i - 1 for i in range(x.ndim - 2)], keepdim=True).flatten(1),
    lambda x, kernel, stride: x.sum(_dims(x)) / float(np.prod(kernel)),
    lambda x, kernel, stride: _pool(x, kernel, [1] * len(kernel)).reshape(len(x), -1),
]


def networks(seed: int) -> tuple[nn.Sequential, nn.Sequential, blrc.InputEncoding]:
    """Draw a network of averages and max pools of random windows, of `blrc.nn` and the same of plain PyTorch."""
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    rank = 1 + seed % 2
    shape = [int(n) for n in rng.integers(9, 15, rank)] if rank == 2 else [int(rng.integers(20, 40))]
    encoding = [blrc.bits, lambda s: blrc.int8_codes(s, scale=16.0)][seed // 2 % 2]((2, *shape))  # type: ignore[operator]
    ours: list[nn.Module] = []
    plain: list[nn.Module] = []

    def fill(layer: Any, other: Any, size: float = 1.0) -> None:
        ours.append(layer)
        plain.append(other)
        for name, values in layer.state_dict().items():
            if values.is_floating_point():
                values.copy_(torch.randn(values.shape, generator=generator) * (size / 3 if "mean" in name else 1))
                if "var" in name:
                    values.copy_(values.abs() * size**2 + 0.01)
        other.load_state_dict(layer.state_dict())

    def conv(inputs: int, outputs: int, groups: int) -> None:
        kinds: Any = [(bnn.SteConv1d, Conv1d, nn.BatchNorm1d), (bnn.SteConv2d, Conv2d, nn.BatchNorm2d)][rank - 1]
        stride, bias = int(rng.integers(1, 3)), bool(rng.integers(2))
        kernel = [int(rng.integers(1, min(3, n) + 1)) for n in shape]
        fill(*(kind(inputs, outputs, kernel, stride, groups=groups, bias=bias) for kind in kinds[:2]))
        fill(kinds[2](outputs), kinds[2](outputs), float(inputs // groups * np.prod(kernel)) ** 0.5)
        ours.append(bnn.SteSign())
        plain.append(Signs())
        shape[:] = [(n - k) // stride + 1 for n, k in zip(shape, kernel, strict=True)]

    def windows(spelling: Spelling) -> None:
        kernel = [int(rng.integers(1, min(3, n) + 1)) for n in shape[:-1]] + [min(2, shape[-1])]
        stride = [int(n) for n in rng.integers(1, 3, rank)]
        ours.append([nn.AvgPool1d, nn.AvgPool2d][rank - 1](kernel, stride))  # type: ignore[arg-type,operator]
        plain.append(Average(spelling, kernel, stride))
        shape[:] = [(n - k) // s + 1 for n, k, s in zip(shape, kernel, stride, strict=True)]

    conv(2, 6, 1)
    windows(WINDOWS[seed % len(WINDOWS)])
    if rng.integers(3) == 0:
        windows(_pool)
    if rng.integers(3) == 0 and min(shape) > 1:
        kind: Any = [nn.MaxPool1d, nn.MaxPool2d][rank - 1]
        ours.append(kind(2, 1, padding=1))
        plain.append(kind(2, 1, padding=1))
        shape[:] = [n + 1 for n in shape]
    conv(6, 9, int(rng.choice([1, 3])))
    if max(shape) > 1:  # an average of single values is left out of plain PyTorch
        ours.append([nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d][rank - 1](1))
    ours.append(nn.Flatten())
    plain.append(Average(WHOLE[seed % len(WHOLE)], [*shape], [*shape]))
    if rng.integers(2):
        fill(bnn.SoftmaxLinear(9, 4), nn.Linear(9, 4))
    else:
        fill(bnn.SteLinear(9, 4, bias=True), Linear(9, 4))
    return nn.Sequential(*ours).eval(), nn.Sequential(*plain).eval(), encoding


def content(program: Program) -> list[Any]:
    """Return all that a program computes with, without names."""
    ops = [(op.kind, op.x.shape, op.x.dtype, op.y.shape, op.y.dtype, getattr(op, "window", None)) for op in program.ops]
    tables = [[table.tolist() for table in held.tables] for held in program.constants.values()]
    return [ops, program.score_scale, tables]


@pytest.mark.parametrize("seed", first(10, range(40)))
def test_programs_are_those_of_the_same_network_of_blrc_nn(seed: int) -> None:
    ours, plain, encoding = networks(seed)
    found, nets = build(taken(plain, encoding), [MAP])
    assert content(found) == content(build(taken(ours, encoding), [MAP])[0])
    low, high = {"int8": (-128, 128), "bits": (0, 2)}[encoding.kind]
    raw = np.random.default_rng(seed).integers(low, high, (60, *encoding.shape)).astype(encoding.dtype)
    x = raw / 16.0 if encoding.kind == "int8" else raw * 2.0 - 1
    with torch.no_grad():
        expected = plain.double()(torch.from_numpy(x)).numpy()
    scale = score_scale(nets)  # each of nine counts of up to 255 has a rounded factor, and the bias is rounded
    assert np.abs(reference.scores(found, device_layout(raw)) * scale - expected).max() <= (9 * 255 + 3) * scale / 2


class Windows(nn.Module):
    """Hold a binary convolution, what a test makes of its signs, and a last layer."""

    def __init__(self, function: Callable[..., Any], features: int, last: type[nn.Linear] = nn.Linear) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.norm, self.function = Conv2d(2, 6, 3), nn.BatchNorm2d(6), function
        self.second, self.middle = Conv2d(6, 6, 3), nn.BatchNorm2d(6)
        self.norm.running_mean, self.middle.running_mean = torch.randn(6), torch.randn(6)
        self.fc = last(features, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.function(self, sign(self.norm(self.conv(x)))).flatten(1))  # type: ignore[no-any-return]


TAKEN: dict[str, tuple[Callable[..., Any], int]] = {
    "single values": (lambda m, x: F.avg_pool2d(x, 1), 600),
    "single values of a vector": (lambda m, x: F.max_pool2d(x, 10).mean((2, 3)), 6),
    "a stride of single values": (lambda m, x: F.avg_pool2d(x, 1, 3), 96),
    "ceil_mode that adds no window": (lambda m, x: F.avg_pool2d(x, 2, ceil_mode=True), 150),
    "a divisor that is the window's": (lambda m, x: F.avg_pool2d(x, 2, divisor_override=4), 150),
    "zeros around zeros and ones": (lambda m, x: F.avg_pool2d((x + 1) / 2, 3, 2, padding=1), 150),
    "ones around signs": (lambda m, x: F.avg_pool2d(F.pad(x, (1, 0, 0, 1), value=1.0), 3, 2), 150),
    "parts of one size": (lambda m, x: F.adaptive_avg_pool2d(x, (5, 2)), 60),
    "an area": (lambda m, x: F.interpolate(x, scale_factor=0.5, mode="area"), 150),
    "parts of single values": (lambda m, x: F.adaptive_avg_pool2d(x, 10), 600),
    "one dimension after the other": (lambda m, x: x.mean(2, keepdim=True).mean(-1, keepdim=True), 6),
    "a sum": (lambda m, x: x.sum((-1, -2)), 6),
    "other numbers": (lambda m, x: F.avg_pool2d(torch.where(x > 0, 0.7, -0.2).to(x), 2) * 3 - 1, 150),
    "numbers far from 0": (lambda m, x: F.avg_pool2d(torch.where(x > 0, 100.3, 99.8).to(x), 3, 2), 96),
    "behind a layer": (lambda m, x: F.avg_pool2d(sign(m.middle(m.second(F.avg_pool2d(0.1 * x, 2)))), 3), 6),
    "the largest": (lambda m, x: F.max_pool2d(1 - F.avg_pool2d(-x, 2), 3, 2, padding=1), 54),
    "the largest of a vector": (lambda m, x: F.adaptive_max_pool2d(F.avg_pool2d(x, 2), 1), 6),
}


@pytest.mark.parametrize("name", TAKEN)
def test_scores_are_those_of_the_module(name: str) -> None:
    """Allow one rounding for each of `features` counts of up to 255, and for the bias."""
    function, features = TAKEN[name]
    model = Windows(function, features, Linear).eval()
    encoding = blrc.bits((2, 12, 12))
    program, nets = build(taken(model, encoding), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, 2, 12, 12)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.abs(found - expected).max() <= (features * 255 + 3) * score_scale(nets) / 2
    assert np.abs(found - expected).max() < 0.01


@pytest.mark.parametrize("last", [nn.Linear, Linear])
def test_averages_of_the_input_itself(last: type[nn.Linear]) -> None:
    """Average bits without a layer before; real weights take up another factor and offset for each channel."""
    torch.manual_seed(0)
    by = torch.tensor([2.0, -0.5]).reshape(2, 1, 1) if last is nn.Linear else torch.tensor(2.0)
    model = nn.Sequential(Average(lambda x, k, s: F.avg_pool2d(x, k) * by.to(x) + by.to(x), [2], []), nn.Flatten())
    model.append(last(72, 3))
    program, nets = build(taken(model, blrc.bits((2, 12, 12))), [MAP])
    raw = np.random.default_rng(0).integers(0, 2, (50, 2, 12, 12)).astype(np.uint8)
    with torch.no_grad():
        expected = model.double()(torch.from_numpy(raw * 2.0 - 1)).numpy()
    found = reference.scores(program, device_layout(raw)) * score_scale(nets)
    assert np.abs(found - expected).max() <= (72 * 2 + 3) * score_scale(nets) / 2


REFUSED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "zeros around signs": (
        lambda m, x: F.avg_pool2d(x, 3, 2, padding=1),
        ["padded with 0, which is neither of the two values", "use padding=0"],
    ),
    "two paddings": (
        lambda m, x: F.avg_pool2d(F.pad(x, (1, 1), value=1.0), 3, 2, padding=1),
        ["pads with zeros what was padded with 1", "use padding=0"],
    ),
    "padded averages": (
        lambda m, x: F.avg_pool2d(F.avg_pool2d(x, 2), 3, 2, padding=1),
        ["averages what is padded with 0; use padding=0"],
    ),
    "ceil_mode": (lambda m, x: F.avg_pool2d(x, 3, 2, ceil_mode=True), ["(ceil_mode)", "leave ceil_mode out"]),
    "the border": (
        lambda m, x: F.avg_pool2d((x + 1) / 2, 3, 2, padding=1, count_include_pad=False),
        ["count_include_pad=False with padding", "use padding=0"],
    ),
    "a divisor": (lambda m, x: F.avg_pool2d(x, 2, divisor_override=3), ["by 3 (divisor_override)", "leave divisor"]),
    "real values": (lambda m, x: F.avg_pool2d(m.second(x), 2), ["averages real values", "average behind a sign"]),
    "uneven parts": (lambda m, x: F.adaptive_avg_pool2d(x, 3), ["[3, 3] windows of several sizes", "nn.AvgPool2d"]),
    "one dimension": (lambda m, x: x.mean(3), ["computes mean over the dimensions (3,)", "x.mean((2, 3))"]),
    "channels": (lambda m, x: x.mean(1), ["computes mean over the dimensions (1,)", "x.mean((2, 3))"]),
    "everything": (lambda m, x: x.sum().repeat(32, 6), ["computes sum over the dimensions (0, 1, 2, 3)"]),
    "padding before it": (lambda m, x: F.avg_pool2d(F.pad(x, (1, 1)), 2), ["padded with 0, which is neither"]),
    "a padded convolution": (
        lambda m, x: F.conv2d(F.avg_pool2d(x, 2), sign(m.second.weight), padding=1),
        ["pads averages of two values with zeros", "pad before the average"],
    ),
    "a norm": (lambda m, x: sign(m.middle(F.avg_pool2d(x, 2))), ["averages signs", "a norm follows", "depthwise"]),
    "a sign": (lambda m, x: sign(F.avg_pool2d(x, 2) - 0.5), ["averages signs", "a sign follows", "depthwise"]),
    "a ReLU": (lambda m, x: F.relu(2 * F.avg_pool2d(x, 2)), ["averages signs", "a ReLU follows"]),
    "the largest of negative ones": (
        lambda m, x: F.max_pool2d(-F.avg_pool2d(x, 2), 2),
        ["pools averages that were multiplied by a number that is not positive", "multiply behind"],
    ),
    "channels alike": (
        lambda m, x: m.second(F.avg_pool2d(x, 2) * torch.arange(1.0, 7.0).reshape(6, 1, 1)),
        ["multiplied by another number for each channel; multiply all channels alike"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_count_is_refused_with_the_line(name: str) -> None:
    function, words = REFUSED[name]
    model = Windows(function, 6)
    model.fc = nn.Identity()  # type: ignore[assignment]
    with pytest.raises(BlrcError) as error:
        taken(model, blrc.bits((2, 12, 12)))
    said = str(error.value)
    assert "(test_averages_by_value.py line " in said and said.count(";") == 1
    for word in words:
        assert word in said


def test_modules_are_named() -> None:
    model = Windows(lambda m, x: m.pool(x), 6)
    model.pool = nn.AdaptiveAvgPool2d(1)
    assert [node.name for node in taken(model, blrc.bits((2, 12, 12))).nodes] == [
        "conv", "norm", "sign", "pool", "flatten", "fc"
    ]  # fmt: skip
    with pytest.raises(BlrcError, match=r"layer 'pool' \(AdaptiveAvgPool2d\): averages 324 bits, whose sum may be 324"):
        taken(model, blrc.bits((2, 20, 20)))


def test_a_pool_over_the_channels_of_a_line_is_refused() -> None:
    """Refuse maps without a batch, as which torch takes lines."""
    model = nn.Sequential(Conv1d(2, 6, 3), Signs(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(12, 3))
    with pytest.raises(BlrcError, match=r"layer '2' \(AvgPool2d\): averages \('N', 6, 8\), which is no map"):
        taken(model, blrc.bits((2, 10)))


def test_averages_that_end_a_network_are_refused() -> None:
    model = nn.Sequential(Conv2d(2, 6, 3), Signs(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(BlrcError, match=r"layer '2' \(AdaptiveAvgPool2d\): averages signs, and they end the network"):
        taken(model, blrc.bits((2, 12, 12)))

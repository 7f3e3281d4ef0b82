"""Define public architectures as their papers and repositories do, in plain PyTorch or in `blrc.nn`.

The weights are random. `tools/pages/networks.py` saves and compiles each architecture, and docs/networks.md lists what
came of it; a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from blrc import nn as bnn
from blrc.nn import models

Shape = tuple[int, int, int]
MNIST: Shape = (1, 28, 28)
CIFAR10: Shape = (3, 32, 32)
IMAGENET: Shape = (3, 224, 224)


@dataclass(frozen=True)
class Architecture:
    """Describe one network.

    Attributes:
        title: the network's name, as its paper calls it.
        source: where it is defined.
        shape: the input, (channels, height, width), of 8-bit pixels or features.
        make: builds it with random weights; the argument scales the widths of inner layers, for quick tests.
        kind: what the weights and activations are.
    """

    title: str
    source: str
    shape: Shape
    make: Callable[[float], nn.Module]
    kind: str


def signs(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x >= 0, 1.0, -1.0)


class Sign(nn.Module):
    """Give +1 from 0 on, and -1 below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return signs(x)


class BinaryConv(nn.Conv2d):
    """Convolve with the signs of the weights."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(input, signs(self.weight), self.bias)


class BinaryDense(nn.Linear):
    """Multiply with the signs of the weights."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return functional.linear(input, signs(self.weight), self.bias)


class Residual(nn.Module):
    """Add to a value what a branch makes of it, or of a shortcut."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, shortcut or nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(self.branch(x), self.shortcut(x))


class Concatenated(nn.Module):
    """Append to the channels of a value those that a branch makes of it."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.branch(x)], dim=1)


def conv(
    inputs: int, outputs: int, kernel: int | tuple[int, int] = 3, *, stride: int = 1, pad: int = 1
) -> list[nn.Module]:
    """Return a binary convolution with its norm and sign."""
    return [
        BinaryConv(inputs, outputs, kernel, stride, pad, bias=False),
        nn.BatchNorm2d(outputs),
        Sign(),
    ]


def stochastic(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int],
    *,
    stride: int = 1,
    pad: int | tuple[int, int] = 0,
    groups: int = 1,
) -> list[nn.Module]:
    """Return a convolution of `blrc.nn`, whose weights are distributions, with its norm and sign."""
    return [
        bnn.BinaryConv2d(inputs, outputs, kernel, stride=stride, padding=pad, groups=groups),
        bnn.StochasticBatchNorm2d(outputs),
        bnn.StochasticSign(),
    ]


def dense(inputs: int, outputs: int) -> list[nn.Module]:
    """Return a binary dense layer with its norm and sign."""
    return [BinaryDense(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), Sign()]


def mlp(hidden: Sequence[int], width: float, shape: Shape = MNIST) -> nn.Module:
    """Return a dense network, whose last layer is binary with a norm."""
    channels, height, wide = shape
    sizes = [channels * height * wide, *(max(8, int(width * size)) for size in hidden)]
    layers = [layer for a, b in pairwise(sizes) for layer in dense(a, b)]
    return nn.Sequential(nn.Flatten(), *layers, BinaryDense(sizes[-1], 10, bias=False), nn.BatchNorm1d(10))


def binary_net(width: float) -> nn.Module:
    """Return the convolutional network of Hubara et al.: pooling stands before the norm."""
    a, b, c, d = (max(8, int(width * size)) for size in (128, 256, 512, 1024))

    def pair(inputs: int, outputs: int) -> Iterator[nn.Module]:
        yield from conv(inputs, outputs)
        first, *rest = conv(outputs, outputs)
        yield from (first, nn.MaxPool2d(2), *rest)

    body = (*pair(3, a), *pair(a, b), *pair(b, c))
    last = (BinaryDense(d, 10, bias=False), nn.BatchNorm1d(10))
    return nn.Sequential(*body, nn.Flatten(), *dense(16 * c, d), *dense(d, d), *last)


def cnv(width: float) -> nn.Module:
    """Return FINN's convolutional network: no padding, and pooling behind the sign."""
    a, b, c, d = (max(8, int(width * size)) for size in (64, 128, 256, 512))
    body = (*conv(3, a, pad=0), *conv(a, a, pad=0), nn.MaxPool2d(2), *conv(a, b, pad=0), *conv(b, b, pad=0))
    rest = (nn.MaxPool2d(2), *conv(b, c, pad=0), *conv(c, c, pad=0), nn.Flatten(), *dense(c, d), *dense(d, d))
    return nn.Sequential(*body, *rest, BinaryDense(d, 10, bias=False))


def vgg_small(width: float) -> nn.Module:
    """Return VGG-Small: the first convolution and the last layer are real, and six layers are binary."""
    a, b, c = (max(8, int(width * size)) for size in (128, 256, 512))
    stem = (nn.Conv2d(3, a, 3, padding=1, bias=False), nn.BatchNorm2d(a), Sign())
    body: list[nn.Module] = []
    for inputs, outputs, pooled in ((a, a, True), (a, b, False), (b, b, True), (b, c, False), (c, c, True)):
        first, *rest = conv(inputs, outputs)
        body += [first, *([nn.MaxPool2d(2)] if pooled else []), *rest]
    return nn.Sequential(*stem, *body, nn.Flatten(), nn.Linear(16 * c, 10))


def xnor_net(width: float) -> nn.Module:
    """Return the AlexNet of XNOR-Net without its input-dependent scales: the first and the last layer are real."""
    a, b, c, d = (max(8, int(width * size)) for size in (96, 256, 384, 4096))
    stem = (nn.Conv2d(3, a, 11, 4, 2), nn.BatchNorm2d(a), nn.ReLU(), nn.MaxPool2d(3, 2), nn.BatchNorm2d(a), Sign())
    body = (BinaryConv(a, b, 5, padding=2), nn.MaxPool2d(3, 2), nn.BatchNorm2d(b), Sign(), *conv(b, c), *conv(c, c))
    last = (BinaryConv(c, b, 3, padding=1), nn.MaxPool2d(3, 2), nn.BatchNorm2d(b), Sign(), nn.Flatten())
    return nn.Sequential(*stem, *body, *last, *dense(36 * b, d), *dense(d, d), nn.Linear(d, 1000))


def residual_net(width: float, react: bool = False) -> nn.Module:
    """Return a Bi-Real ResNet-18: every binary convolution has a shortcut of its own."""
    a = max(8, int(width * 64))
    first: list[nn.Module] = [nn.Conv2d(3, a, 7, 2, 3, bias=False), nn.BatchNorm2d(a), nn.MaxPool2d(3, 2, 1)]
    blocks: list[nn.Module] = []
    inputs = a
    for stage, outputs in enumerate((a, 2 * a, 4 * a, 8 * a)):
        for block in range(4):
            stride = 2 if stage > 0 and block == 0 else 1
            branch = nn.Sequential(
                Sign(), BinaryConv(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            )
            down = (nn.AvgPool2d(2, 2), nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
            blocks.append(Residual(branch, nn.Sequential(*down) if stride == 2 else None))
            blocks += [nn.PReLU(outputs)] if react else []
            inputs = outputs
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * a, 1000))


def binary_dense_net(width: float) -> nn.Module:
    """Return a BinaryDenseNet-28, whose every layer appends channels; its transitions halve their number."""
    growth, at = max(8, int(width * 64)), max(8, int(width * 64))
    layers: list[nn.Module] = [
        nn.Conv2d(3, at, 7, 2, 3, bias=False),
        nn.BatchNorm2d(at),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    for stage, count in enumerate((6, 6, 6, 5)):
        for _ in range(count):
            layers.append(Concatenated(nn.Sequential(nn.BatchNorm2d(at), Sign(), BinaryConv(at, growth, 3, padding=1))))
            at += growth
        if stage < 3:
            layers += [nn.BatchNorm2d(at), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(at, at // 2, 1, bias=False)]
            at //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(at), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(at, 1000))


def ds_cnn(width: float) -> nn.Module:
    """Return MLPerf Tiny's keyword network with binary weights: four depthwise separable layers behind the first."""
    a = max(8, int(width * 64))
    layers = stochastic(1, a, (10, 4), stride=2, pad=(4, 1))
    for _ in range(4):
        layers += [*stochastic(a, a, 3, pad=1, groups=a), *stochastic(a, a, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), bnn.SoftmaxLinear(a, 12))


def mobile_net(width: float) -> nn.Module:
    """Return MLPerf Tiny's MobileNetV1 at a quarter of the width with binary weights."""
    sizes = [max(4, int(width * size)) for size in (8, 16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)]
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    layers = stochastic(3, sizes[0], 3, stride=2, pad=1)
    for inputs, outputs, stride in zip(sizes, sizes[1:], strides, strict=False):
        layers += stochastic(inputs, inputs, 3, stride=stride, pad=1, groups=inputs)
        layers += stochastic(inputs, outputs, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), bnn.SoftmaxLinear(sizes[-1], 2))


def resnet8(width: float) -> nn.Module:
    """Return MLPerf Tiny's ResNet-8 with binary weights."""
    a = max(8, int(width * 16))

    def block(inputs: int, outputs: int, stride: int) -> Residual:
        last = (BinaryConv(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        short = None if stride == 1 else BinaryConv(inputs, outputs, 1, stride, bias=False)
        return Residual(nn.Sequential(*conv(inputs, outputs, stride=stride), *last), short)

    blocks = (block(a, a, 1), Sign(), block(a, 2 * a, 2), Sign(), block(2 * a, 4 * a, 2), Sign())
    return nn.Sequential(*conv(3, a), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * a, 10))


def autoencoder(width: float) -> nn.Module:
    """Return MLPerf Tiny's anomaly detector with binary weights inside: its output is as long as its input."""
    a = max(8, int(width * 128))
    sizes = (640, a, a, a, a, 8, a, a, a, a)
    layers = [layer for x, y in pairwise(sizes) for layer in dense(x, y)]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(a, 640))


BINARY = "binary weights, signs"
PAPERS = "distributions over binary weights, signs"
REAL_ENDS = "binary inside, real first and last layers"
HUBARA = "[Hubara et al. 2016](https://arxiv.org/abs/1602.02830)"
FINN = "[Umuroglu et al. 2017](https://arxiv.org/abs/1612.07119)"
PAPER = "[Peters & Welling 2018](https://arxiv.org/abs/1809.03368)"
TINY = "[MLPerf Tiny](https://github.com/mlcommons/tiny)"

ARCHITECTURES = (
    Architecture("BinaryNet, MNIST", HUBARA, MNIST, lambda width: mlp((4096,) * 3, width), BINARY),
    Architecture("BinaryNet, CIFAR-10", HUBARA, CIFAR10, binary_net, BINARY),
    Architecture("FINN SFC", FINN, MNIST, lambda width: mlp((256,) * 3, width), BINARY),
    Architecture("FINN LFC", FINN, MNIST, lambda width: mlp((1024,) * 3, width), BINARY),
    Architecture("FINN CNV", FINN, CIFAR10, cnv, BINARY),
    Architecture("BLRNet, MNIST", PAPER, MNIST, lambda width: models.mnist(), PAPERS),
    Architecture("BLRNet, CIFAR-10", PAPER, CIFAR10, lambda width: models.cifar10(width=width), PAPERS),
    Architecture("LR-net, MNIST", PAPER, MNIST, lambda width: models.mnist("lrnet", bits=2), "activations of 2 bits"),
    Architecture(
        "LR-net, MNIST", "the same", MNIST, lambda width: models.mnist("lrnet", bits=8), "activations of 8 bits"
    ),
    Architecture(
        "BLRNet, MNIST", "the same", MNIST, lambda width: models.mnist(weights="ternary"), "ternary weights, signs"
    ),
    Architecture("VGG-Small", "[Qin et al. 2020](https://arxiv.org/abs/1909.10788)", CIFAR10, vgg_small, REAL_ENDS),
    Architecture(
        "XNOR-Net", "[Rastegari et al. 2016](https://arxiv.org/abs/1603.05279)", IMAGENET, xnor_net, REAL_ENDS
    ),
    Architecture(
        "Bi-Real Net 18", "[Liu et al. 2018](https://arxiv.org/abs/1808.00278)", IMAGENET, residual_net, REAL_ENDS
    ),
    Architecture(
        "ReActNet (ResNet-18)",
        "[Liu et al. 2020](https://arxiv.org/abs/2003.03488)",
        IMAGENET,
        lambda width: residual_net(width, react=True),
        REAL_ENDS,
    ),
    Architecture(
        "BinaryDenseNet-28",
        "[Bethge et al. 2019](https://arxiv.org/abs/1906.08637)",
        IMAGENET,
        binary_dense_net,
        REAL_ENDS,
    ),
    Architecture("DS-CNN", TINY, (1, 49, 10), ds_cnn, PAPERS),
    Architecture("MobileNetV1 0.25", TINY, (3, 96, 96), mobile_net, PAPERS),
    Architecture("ResNet-8", TINY, CIFAR10, resnet8, BINARY),
    Architecture("autoencoder", TINY, (640, 1, 1), autoencoder, f"{BINARY}, 640 scores"),
)

"""Build the paper's networks by name (Peters & Welling 2018, section 5.1).

    MNIST     32C3 - MP2 - 64C3 - MP2 - 512FC - SM10
    CIFAR-10  2x128C3 - MP2 - 2x256C3 - MP2 - 2x512C3 - MP2 - 1024FC - SM10

Convolutions have "same" zero padding. A norm follows every linear map, so there are no biases. Pooling comes before
the activation. Each network exists in four flavours:

    blrnet    stochastic binary or ternary weights, and stochastic binary activations (`blrc.nn`)
    lrnet     such weights, activations of a few bits (LR-net, paper, section 2.1)
    fp        the same layers in full precision with ReLU, the source of the weight transfer
    bnn       Binarized NN (Hubara et al. 2016): deterministic binary weights in all layers; the last layer is followed
              by a norm, which gives the scores; on CIFAR-10 one more 1024FC layer, as in that paper

Layers have the same names in all flavours, so that `blrc.nn.transfer_` finds them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal, get_args

from torch import nn

from blrc.errors import BlrcError
from blrc.nn import (
    BinaryConv2d,
    BinaryLinear,
    GaussianSample,
    SoftmaxLinear,
    SteConv2d,
    SteLevels,
    SteLinear,
    SteSign,
    StochasticBatchNorm1d,
    StochasticBatchNorm2d,
    StochasticMaxPool2d,
    StochasticSign,
)

Flavour = Literal["blrnet", "lrnet", "bnn", "fp"]
CLASSES = 10


def mnist(flavour: Flavour = "blrnet", norm: bool = True, bits: int = 2, weights: str = "binary") -> nn.Sequential:
    """Build the MNIST network, from ``(N, 1, 28, 28)`` to logits ``(N, 10)``.

    Without norms (the paper's ablation) its linear maps have biases. The activations of an LR-net have `bits` bits.
    Random weights are ``binary`` or ``ternary``.

    Example:
        >>> [name for name, _ in mnist().named_children()][:5]
        ['conv1', 'norm1', 'pool1', 'sign1', 'conv2']
    """
    return _network(
        flavour, channels=1, size=28, blocks=((32,), (64,)), dense=(512,), norm=norm, bits=bits, weights=weights
    )


def cifar10(
    flavour: Flavour = "blrnet", width: float = 1.0, norm: bool = True, bits: int = 2, weights: str = "binary"
) -> nn.Sequential:
    """Build the CIFAR-10 network, from ``(N, 3, 32, 32)`` to logits ``(N, 10)``; `width` scales all hidden layers.

    Raises:
        BlrcError: the flavour is unknown, or the width leaves a layer without channels.
    """
    if not width * 128 >= 1:
        raise BlrcError(f"cifar10: width {width} leaves no channels")
    blocks = tuple((round(width * c), round(width * c)) for c in (128, 256, 512))
    dense = (round(width * 1024),) * (2 if flavour == "bnn" else 1)
    return _network(flavour, channels=3, size=32, blocks=blocks, dense=dense, norm=norm, bits=bits, weights=weights)


def _network(
    flavour: Flavour, channels: int, size: int, blocks: Sequence[Sequence[int]], dense: Sequence[int], norm: bool,
    bits: int = 2, weights: str = "binary",
) -> nn.Sequential:  # fmt: skip
    if flavour not in get_args(Flavour):
        raise BlrcError(f"flavour {flavour!r}: expected {', '.join(map(repr, get_args(Flavour)))}")
    conv = {"blrnet": BinaryConv2d, "lrnet": BinaryConv2d, "bnn": SteConv2d, "fp": nn.Conv2d}[flavour]
    linear = {"blrnet": BinaryLinear, "lrnet": BinaryLinear, "bnn": SteLinear, "fp": nn.Linear}[flavour]
    last = {"blrnet": SoftmaxLinear, "lrnet": SoftmaxLinear, "bnn": SteLinear, "fp": nn.Linear}[flavour]
    norm1d = StochasticBatchNorm1d if flavour == "blrnet" else nn.BatchNorm1d
    norm2d = StochasticBatchNorm2d if flavour == "blrnet" else nn.BatchNorm2d
    pool = StochasticMaxPool2d if flavour == "blrnet" else nn.MaxPool2d
    random: dict[str, Any] = {"weight": weights} if flavour in ("blrnet", "lrnet") else {}
    name = {"blrnet": "sign", "lrnet": "levels", "bnn": "sign", "fp": "relu"}[flavour]

    def activation() -> nn.Module:
        return (
            SteLevels(bits)
            if flavour == "lrnet"
            else {"blrnet": StochasticSign, "bnn": SteSign, "fp": nn.ReLU}[flavour]()
        )

    layers: OrderedDict[str, nn.Module] = OrderedDict()
    number = 0
    for block in blocks:
        for position, width in enumerate(block):
            number += 1
            layers[f"conv{number}"] = conv(channels, width, 3, padding="same", bias=not norm, **random)
            if flavour == "lrnet":
                layers[f"sample{number}"] = GaussianSample()
            if norm:
                layers[f"norm{number}"] = norm2d(width)
            if position == len(block) - 1:
                layers[f"pool{number}"] = pool(2)
                size //= 2
            layers[f"{name}{number}"] = activation()
            channels = width
    layers["flatten"] = nn.Flatten()
    features = channels * size * size
    for position, width in enumerate(dense):
        number += 1
        layers["dense" if position == 0 else f"dense{position + 1}"] = linear(features, width, bias=not norm, **random)
        if flavour == "lrnet":
            layers[f"sample{number}"] = GaussianSample()
        if norm:
            layers[f"norm{number}"] = norm1d(width)
        layers[f"{name}{number}"] = activation()
        features = width
    layers["scores"] = last(features, CLASSES, bias=not (norm and flavour == "bnn"))
    if norm and flavour == "bnn":
        layers[f"norm{number + 1}"] = norm1d(CLASSES)
    return nn.Sequential(layers)

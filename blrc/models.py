"""The paper's networks by name (Peters & Welling 2018, section 5.1).

    MNIST     32C3 - MP2 - 64C3 - MP2 - 512FC - SM10
    CIFAR-10  2x128C3 - MP2 - 2x256C3 - MP2 - 2x512C3 - MP2 - 1024FC - SM10

"same" zero padding; a norm after every linear map, hence no biases; pooling before the activation. Flavours:

    blrnet    stochastic binary weights and activations (`blrc.nn`)
    fp        the same layers in full precision with ReLU: the source of the weight transfer

Layers of both flavours have the same names, so that `blrc.nn.transfer_` finds them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from torch import nn

from blrc.errors import BlrcError
from blrc.nn import (
    BinaryConv2d,
    BinaryLinear,
    SoftmaxLinear,
    StochasticBatchNorm1d,
    StochasticBatchNorm2d,
    StochasticMaxPool2d,
    StochasticSign,
)

Flavour = Literal["blrnet", "fp"]
CLASSES = 10


def mnist(flavour: Flavour = "blrnet", norm: bool = True) -> nn.Sequential:
    """The MNIST network: ``(N, 1, 28, 28)`` to logits ``(N, 10)``.

    Without norms (the paper's ablation) its linear maps have biases.

    Example:
        >>> [name for name, _ in mnist().named_children()][:5]
        ['conv1', 'norm1', 'pool1', 'sign1', 'conv2']
    """
    return _network(flavour, channels=1, size=28, blocks=((32,), (64,)), dense=512, norm=norm)


def cifar10(flavour: Flavour = "blrnet", width: float = 1.0, norm: bool = True) -> nn.Sequential:
    """The CIFAR-10 network: ``(N, 3, 32, 32)`` to logits ``(N, 10)``; `width` scales all hidden layers.

    Raises:
        BlrcError: an unknown flavour, or a width that leaves a layer without channels.
    """
    if not width * 128 >= 1:
        raise BlrcError(f"cifar10: width {width} leaves no channels")
    blocks = tuple((round(width * c), round(width * c)) for c in (128, 256, 512))
    return _network(flavour, channels=3, size=32, blocks=blocks, dense=round(width * 1024), norm=norm)


def _network(
    flavour: Flavour, channels: int, size: int, blocks: Sequence[Sequence[int]], dense: int, norm: bool
) -> nn.Sequential:
    if flavour not in ("blrnet", "fp"):
        raise BlrcError(f"flavour {flavour!r}: expected 'blrnet' or 'fp'")
    binary = flavour == "blrnet"
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    number = 0
    for block in blocks:
        for position, width in enumerate(block):
            number += 1
            conv = BinaryConv2d if binary else nn.Conv2d
            layers[f"conv{number}"] = conv(channels, width, 3, padding="same", bias=not norm)
            if norm:
                layers[f"norm{number}"] = StochasticBatchNorm2d(width) if binary else nn.BatchNorm2d(width)
            if position == len(block) - 1:
                layers[f"pool{number}"] = StochasticMaxPool2d(2) if binary else nn.MaxPool2d(2)
                size //= 2
            layers |= _activation(binary, number)
            channels = width
    number += 1
    features = channels * size * size
    layers["flatten"] = nn.Flatten()
    layers["dense"] = (BinaryLinear if binary else nn.Linear)(features, dense, bias=not norm)
    if norm:
        layers[f"norm{number}"] = StochasticBatchNorm1d(dense) if binary else nn.BatchNorm1d(dense)
    layers |= _activation(binary, number)
    layers["scores"] = SoftmaxLinear(dense, CLASSES) if binary else nn.Linear(dense, CLASSES)
    return nn.Sequential(layers)


def _activation(binary: bool, number: int) -> dict[str, nn.Module]:
    return {f"sign{number}": StochasticSign()} if binary else {f"relu{number}": nn.ReLU()}

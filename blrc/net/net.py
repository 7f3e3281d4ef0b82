"""Define the net: one sampled network, +-1 weights with float norms, the compiler's first intermediate form (IR 1).

A net is a list of layers in SSA form: each reads one named value (``input`` or an earlier layer's name), and its
output bears its own name. Layers keep the names that the user gave them. Maps are C, H, W as in torch;
`blrc.lowering.lower` turns them. Real numbers stay exactly as trained (float64 holds float32).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.encoding import InputEncoding
from blrc.net.window import Window

INPUT = "input"
Reals = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sums:
    """Hold norm statistics as exact integer sums over M pre-activations per channel.

    With the sum S (`total`) and the sum of squares Q (`squares`), m = S/M and v = (Q - S^2/M)/(M-1).
    """

    count: int
    total: tuple[int, ...]
    squares: tuple[int, ...]

    def mean(self, channel: int) -> Fraction:
        return Fraction(self.total[channel], self.count)

    def variance(self, channel: int) -> Fraction:
        s, q, m = self.total[channel], self.squares[channel], self.count
        return Fraction(q * m - s * s, m * (m - 1))


@dataclass(frozen=True, eq=False)
class Moments:
    """Hold norm statistics as floats (running averages from training).

    They are in real units of the pre-activation with its bias.
    """

    means: Reals
    variances: Reals


@dataclass(frozen=True, eq=False)
class Conv:
    """Describe a binary convolution.

    ``weights`` are int8 +-1 (out, in / groups, kernel h, kernel w), and ``bias`` is real (out,) or None.
    """

    name: str
    x: str
    weights: NDArray[np.int8]
    bias: Reals | None
    window: Window
    groups: int


@dataclass(frozen=True, eq=False)
class Dense:
    """Describe a binary linear layer: ``weights`` int8 +-1 (out, in), ``bias`` real (out,) or None."""

    name: str
    x: str
    weights: NDArray[np.int8]
    bias: Reals | None


@dataclass(frozen=True, eq=False)
class Norm:
    """Describe a norm: gamma (z - m) / sqrt(v + eps) + beta, each (channels,).

    ``statistics`` is None where they have yet to be calibrated.
    """

    name: str
    x: str
    gamma: Reals
    beta: Reals
    eps: float
    statistics: Sums | Moments | None


@dataclass(frozen=True, eq=False)
class MaxPool:
    name: str
    x: str
    window: Window


@dataclass(frozen=True, eq=False)
class Sign:
    """Describe a sign: b(a) = +1 if a >= 0 else -1."""

    name: str
    x: str


@dataclass(frozen=True, eq=False)
class Flatten:
    """Describe the flattening of a map to one vector, in the order C, H, W."""

    name: str
    x: str


@dataclass(frozen=True, eq=False)
class Softmax:
    """Describe a last layer with real ``weights`` (classes, in) and ``bias`` (classes,) on +-1 inputs."""

    name: str
    x: str
    weights: Reals
    bias: Reals


Layer = Conv | Dense | Norm | MaxPool | Sign | Flatten | Softmax


@dataclass(frozen=True, eq=False)
class Net:
    """Describe one deterministic network.

    Attributes:
        encoding: how raw input becomes codes.
        layers: the layers in order of execution.
        member: where the weights come from, ``map`` or ``sample SEED:INDEX``.
    """

    encoding: InputEncoding
    layers: tuple[Layer, ...]
    member: str


@dataclass(frozen=True)
class Stage:
    """Group a binary layer with what follows it up to the sign: the unit that folds into one op of the program."""

    linear: Conv | Dense
    norm: Norm | None
    pools: tuple[MaxPool, ...]
    output: str


@dataclass(frozen=True)
class ScoreStage:
    """Group a last binary dense layer with its norm, if any; its normalised pre-activations are the class scores."""

    linear: Dense
    norm: Norm | None


Piece = Stage | MaxPool | Flatten | Softmax | ScoreStage


def pieces(net: Net) -> list[Piece]:
    """Group a net's layers: binary layer [norm] [max pool] sign, with pools and flattens of bits between.

    The last piece gives the scores: a softmax layer, or a binary dense layer [norm] without a sign.

    Raises:
        BlrcError: the order of layers has no exact integer form; the message names the layer and says what to do.
    """
    layers = list(net.layers)
    _check_chain(layers)
    found: list[Piece] = []
    signed = net.encoding.kind == "bits"
    while layers:
        layer = layers.pop(0)
        if isinstance(layer, Dense) and (not layers or (len(layers) == 1 and isinstance(layers[0], Norm))):
            if not signed:
                raise BlrcError(
                    f"layer {layer.name!r}: gives the scores, which needs +-1 inputs; put a binary layer and a sign "
                    "before it"
                )
            norm = layers[0] if layers else None
            assert norm is None or isinstance(norm, Norm)
            found.append(ScoreStage(layer, norm))
            return found
        if isinstance(layer, Conv | Dense):
            found.append(_stage(layer, layers))
            signed = True
        elif isinstance(layer, Softmax):
            if not signed:
                raise BlrcError(
                    f"layer {layer.name!r}: the softmax layer needs +-1 inputs; put a binary layer and a sign before it"
                )
            if layers:
                raise BlrcError(
                    f"layer {layers[0].name!r}: comes after the softmax layer {layer.name!r}, which must be the last"
                )
            found.append(layer)
            return found
        elif isinstance(layer, MaxPool):
            if not signed:
                raise BlrcError(
                    f"layer {layer.name!r}: max pooling of the raw input is not supported; start with a binary layer"
                )
            found.append(layer)
        elif isinstance(layer, Flatten):
            found.append(layer)
        elif isinstance(layer, Norm):
            raise BlrcError(
                f"layer {layer.name!r}: a norm must follow a binary layer directly (before pooling and sign)"
            )
        elif not signed:
            raise BlrcError(
                f"layer {layer.name!r}: the sign of the raw input is not supported; declare the input as bits instead"
            )
        # A second sign changes nothing.
    raise BlrcError(
        "the network has no softmax layer at its end: add a SoftmaxLinear (or a binary dense layer) that gives the "
        "class scores"
    )


def _stage(linear: Conv | Dense, rest: list[Layer]) -> Stage:
    norm: Norm | None = None
    pools: list[MaxPool] = []
    while rest:
        layer = rest.pop(0)
        if isinstance(layer, Sign):
            return Stage(linear, norm, tuple(pools), layer.name)
        if isinstance(layer, MaxPool):
            pools.append(layer)
        elif isinstance(layer, Norm):
            if pools:
                raise BlrcError(
                    f"layer {layer.name!r}: norm after max pooling ({pools[0].name!r}) is another network than pooling "
                    "after norm (wrong wherever gamma < 0); put the norm before the pooling"
                )
            if norm is not None:
                raise BlrcError(
                    f"layer {layer.name!r}: a second norm after {norm.name!r}; keep one norm for each binary layer"
                )
            norm = layer
        elif isinstance(layer, Flatten):
            raise BlrcError(
                f"layer {layer.name!r}: flatten between {linear.name!r} and its sign; move it after the sign"
            )
        else:
            raise BlrcError(
                f"layer {layer.name!r}: its input, from {linear.name!r}, is not binary; "
                "put a StochasticSign between them"
            )
    raise BlrcError(
        f"layer {linear.name!r}: no sign follows it; a binary layer needs a sign and, at the end, a SoftmaxLinear"
    )


def _check_chain(layers: Sequence[Layer]) -> None:
    before = INPUT
    for layer in layers:
        if layer.x != before:
            raise BlrcError(
                f"layer {layer.name!r}: reads {layer.x!r}, not the layer before it ({before!r}); branches are not "
                "supported yet, make the network a chain of layers"
            )
        before = layer.name


def check_finite(name: str, what: str, values: NDArray[Any]) -> None:
    """Raise a `BlrcError` that names layer and channel if any of `values` (channels first) is NaN or infinite."""
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        channel = int(np.argmax(bad))
        raise BlrcError(
            f"layer {name!r}: {what} of channel {channel} is NaN or infinite ({int(bad.sum())} channels in all); "
            "the training diverged: use an earlier checkpoint"
        )

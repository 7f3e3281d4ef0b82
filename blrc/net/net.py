"""Define the net: one sampled network with float norms, the compiler's first intermediate form (IR 1).

A net is a list of layers in SSA form: each reads one named value (``input`` or an earlier layer's name), and its
output bears its own name. Layers keep the names that the user gave them. Maps are C, H, W as in torch;
`blrc.lowering.lower` turns them. Real numbers stay exactly as trained (float64 holds float32).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.choices import Rounding
from blrc.net.elements import Codes
from blrc.net.encoding import InputEncoding
from blrc.net.heads import Heads, Units
from blrc.net.window import Window

INPUT = "input"
Reals = NDArray[np.float64]
LARGEST_WEIGHT = 127
"""Magnitude of the largest weights of 8 bits; the opposite of each is one, too."""


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
    """Describe a convolution with binary, ternary or 8-bit weights.

    ``weights`` are int8 (out, in / groups, kernel h, kernel w), +-1 or, where ``ternary``, -1, 0 or +1. A ternary
    layer stays one where a member has no zero. ``bias`` is real (out,) or None. Where there is a ``unit``, real (out,),
    weights are whole numbers, `LARGEST_WEIGHT` at most in magnitude, that count an output's unit.
    """

    name: str
    x: str
    weights: NDArray[np.int8]
    bias: Reals | None
    window: Window
    groups: int
    ternary: bool = False
    unit: Reals | None = None


@dataclass(frozen=True, eq=False)
class Dense:
    """Describe a linear layer with binary, ternary or 8-bit weights.

    ``weights`` are int8 (out, in), +-1 or, where ``ternary``, -1, 0 or +1, or where there is a ``unit`` as in `Conv`.
    ``bias`` is real (out,) or None.
    """

    name: str
    x: str
    weights: NDArray[np.int8]
    bias: Reals | None
    ternary: bool = False
    unit: Reals | None = None


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
class Scale:
    """Multiply each channel: a ``factor`` / ``divisor``, both (channels,), or (1,) for all channels alike."""

    name: str
    x: str
    factor: Reals
    divisor: Reals


@dataclass(frozen=True, eq=False)
class Shift:
    """Add to each channel: a + ``by``, which is (channels,), or (1,) for all channels alike."""

    name: str
    x: str
    by: Reals


@dataclass(frozen=True, eq=False)
class Leak:
    """Describe a PReLU: a where a >= 0, else ``slope`` a; (channels,) or (1,). A slope of 0 is a ReLU."""

    name: str
    x: str
    slope: Reals


@dataclass(frozen=True, eq=False)
class Clip:
    """Confine each value to [``low``, ``high``]; None leaves that side open."""

    name: str
    x: str
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class MaxPool:
    name: str
    x: str
    window: Window


@dataclass(frozen=True, eq=False)
class AveragePool:
    """Average each channel over a window, in which padding counts as zeros; without one, over the whole map."""

    name: str
    x: str
    window: Window | None


@dataclass(frozen=True, eq=False)
class Sign:
    """Describe a sign: b(a) = +1 if a >= 0 else -1.

    With ``strict`` the sign of 0 is 0, as for `torch.sign`, which is +-1 only where 0 cannot occur.
    """

    name: str
    x: str
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Threshold:
    """Decide each channel: +1 if a >= ``at``, and the other way round where ``inverted``; both (channels,) or (1,)."""

    name: str
    x: str
    at: Reals
    inverted: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Levels:
    """Describe an activation of 2^bits levels: h = step c with codes c = clip(floor(a / step + 1/2), 0, 2^bits - 1).

    The clip contains a ReLU. Codes are what the next layer reads, so padding is code 0.

    With ``ends``, h = step clip(round(a / step), low, high), where a tie goes to the even number, and codes count from
    the lower end: c = h / step - low.
    """

    name: str
    x: str
    bits: int
    step: float
    ends: tuple[int, int] | None = None

    @property
    def most(self) -> int:
        """Return the largest code that `bits` hold, which is the number of thresholds; of codes there may be fewer."""
        return int(2**self.bits - 1)

    @property
    def low(self) -> int:
        """Return the number of steps that code 0 stands for."""
        return 0 if self.ends is None else self.ends[0]

    @property
    def codes(self) -> Codes:
        """Return what the codes stand for."""
        return Codes(self.name, self.most, Fraction(self.step), -self.low * Fraction(self.step))

    @property
    def top(self) -> int:
        """Return the largest code that occurs."""
        return self.most if self.ends is None else self.ends[1] - self.ends[0]


@dataclass(frozen=True, eq=False)
class Flatten:
    """Describe the flattening of a map to one vector, in the order C, H, W."""

    name: str
    x: str


@dataclass(frozen=True, eq=False)
class Softmax:
    """Describe a last layer with real ``weights`` (classes, in) and ``bias`` (classes,) on +-1 inputs or codes.

    Weights are for codes less the ``middle``, which is the code that stands for 0.
    """

    name: str
    x: str
    weights: Reals
    bias: Reals
    middle: Fraction = Fraction(0)

    def biases(self, weights: NDArray[np.int64], scale: float) -> Reals:
        """Return the whole numbers that scores in units of `scale` add, for integer weights (classes, in).

        That is the bias, less what the weights make of the middle code. Both are rounded at once, so that a score is
        off by half a unit for it at most.
        """
        below = weights.sum(axis=1) * self.middle.numerator
        whole, rest = np.divmod(below, self.middle.denominator)
        return np.asarray(np.rint(self.bias / scale - rest / self.middle.denominator) - whole)


Pointwise = Norm | Scale | Shift | Leak | Clip
"""What may stand between a binary layer and its sign, besides pooling: a monotone function for each channel."""

Layer = Conv | Dense | Pointwise | MaxPool | AveragePool | Sign | Threshold | Levels | Flatten | Softmax


@dataclass(frozen=True, eq=False)
class Net:
    """Describe one deterministic network.

    Attributes:
        encoding: how raw input becomes codes.
        layers: the layers in order of execution.
        member: where the weights come from, ``map`` or ``sample SEED:INDEX``.
        rounding: what decides a bit: ``exact``, rational numbers; or ``float32``, each step rounded as frameworks do
            (`blrc.lowering.single`).
        heads: the heads of a network that has several; it is a chain of layers up to them.
        values: the units of a network that gives values; empty for one that gives labels.
    """

    encoding: InputEncoding
    layers: tuple[Layer, ...]
    member: str
    rounding: Rounding = "exact"
    heads: Heads = ()
    values: Units = ()

    def upto(self, last: str) -> Net:
        """Return the network without heads that ends with layer `last`: the layers that this one needs."""
        needed = {last}
        for layer in reversed(self.layers):
            needed |= {layer.x} if layer.name in needed else set()
        layers = tuple(layer for layer in self.layers if layer.name in needed)
        units = zip([layer for _, layer in self.heads] or [self.layers[-1].name], self.values, strict=False)
        return replace(self, layers=layers, heads=(), values=tuple(unit for name, unit in units if name == last)[:1])


def reach(linear: Conv | Dense) -> int:
    """Return the largest magnitude that a layer's sums can have for inputs of magnitude 1."""
    rows = linear.weights.reshape(len(linear.weights), -1)
    if linear.unit is None:
        return int(rows.shape[1])
    return int(np.abs(rows.astype(np.int64)).sum(axis=1).max(initial=0))


def unit_of(linear: Conv | Dense, c: int) -> Fraction:
    """Return what 1 of an integer weight of output c stands for."""
    return Fraction(1) if linear.unit is None else Fraction(linear.unit[c])


def check_finite(name: str, what: str, values: NDArray[Any]) -> None:
    """Raise a `BlrcError` that names layer and channel if any of `values` (channels first) is NaN or infinite."""
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        channel = int(np.argmax(bad))
        raise BlrcError(
            f"layer {name!r}: {what} of channel {channel} is NaN or infinite ({int(bad.sum())} channels in all); "
            "the training diverged: use an earlier checkpoint"
        )

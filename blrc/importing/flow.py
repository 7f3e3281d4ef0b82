"""Define the types of tensors on their way through the graph, and how a file's axes lie in a layer's map.

A layer of a checkpoint computes a map (C, H, W) or a vector (features,). A file sees it as it likes: channels last,
flat, without axes of size 1. So a flow says for every axis of the file, after the batch, which axes of the map lie in
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blrc.importing.file import Op
from blrc.importing.numbers import Reals
from blrc.importing.refusal import RefusalError

Axes = tuple[tuple[int, ...], ...]
Pads = tuple[int, int, int, int]
"""Numbers around a map: top, left, bottom, right."""
NO_PADS: Pads = (0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class Constant:
    """Hold what depends on no input."""

    array: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Flow:
    """Describe a tensor that depends on the input.

    Attributes:
        layer: the checkpoint's layer that computes it.
        shape: what that layer computes, (C, H, W) or (features,); of the raw input whatever the file says.
        axes: for every axis of the file after the batch, the axes of `shape` in it, slowest first.
        pads: what a Pad put around it, which the next convolution or pool takes over.
        fill: the number in these pads.
        bound: of the raw input, the axis of `shape` along which its thresholds or tables lie, which has to become its
            channels; None where all values have the same.
    """

    layer: str
    shape: tuple[int, ...]
    axes: Axes
    pads: Pads = NO_PADS
    bound: int | None = None
    fill: Fraction | float = 0

    @property
    def dims(self) -> tuple[int, ...]:
        """Return the file's sizes after the batch, without pending pads."""
        return tuple(math.prod(self.shape[axis] for axis in group) for group in self.axes)

    @property
    def is_natural(self) -> bool:
        """Return whether the file sees the layer's own shape."""
        return self.axes == natural(self.shape)


@dataclass(frozen=True, eq=False)
class Raw(Flow):
    """Describe the raw input.

    Attributes:
        factor, offset: value = factor x + offset, exact rationals that broadcast to `dims`.
        seen: of pixels, the value of each of the 256, computed as the file does it, in floats: (256, ...).
        integer: whether the file's type of it is an integer.
        bent: a clip to both sides of 0, after which the value is only compared with 0; of pixels, any that `seen` has.
    """

    factor: NDArray[Any] = None  # type: ignore[assignment]
    offset: NDArray[Any] = None  # type: ignore[assignment]
    seen: NDArray[Any] | None = None
    integer: bool = False
    bent: str | None = None


@dataclass(frozen=True, eq=False)
class Bits(Flow):
    """Describe bits b = +-1 that stand for scale b + offset; the scale is the product of `scales`."""

    scales: tuple[Fraction, ...] = (Fraction(1),)
    offset: Fraction = Fraction(0)

    @property
    def scale(self) -> Fraction:
        return math.prod(self.scales, start=Fraction(1))

    @property
    def values(self) -> tuple[Fraction, Fraction]:
        """Return what b = -1 and b = +1 stand for."""
        return self.offset - self.scale, self.offset + self.scale


@dataclass(frozen=True, eq=False)
class Averages(Bits):
    """Describe averages of bits: b is not only -1 and +1, but may lie between them."""


@dataclass(frozen=True, eq=False)
class Levels(Averages):
    """Describe levels: b is a whole number of steps, from `least` to `most`, which are in the layer's own units."""

    least: Fraction = Fraction(0)
    most: Fraction = Fraction(1)

    @property
    def values(self) -> tuple[Fraction, Fraction]:
        """Return what the least and the largest level stand for."""
        return self.offset + self.scale * self.least, self.offset + self.scale * self.most


@dataclass(frozen=True, eq=False)
class Sums(Flow):
    """Describe what follows a binary layer, up to its sign.

    Attributes:
        bent: the first node on the way that is not affine, such as a ReLU; None if all are.
        dense: whether the binary layer is a dense one, which may give scores.
    """

    bent: str | None = None
    dense: bool = False


@dataclass(frozen=True, eq=False)
class Signed(Flow):
    """Describe sign(base) + offset with sign(0) = 0, where what follows decides what becomes of 0."""

    base: Flow = None  # type: ignore[assignment]
    op: Op = None  # type: ignore[assignment]
    offset: Fraction = Fraction(0)


@dataclass(frozen=True, eq=False)
class Test(Flow):
    """Describe a comparison of `base` with 0: x >= 0, or x > 0 if ``strict``, or the opposite if ``negated``."""

    base: Flow = None  # type: ignore[assignment]
    strict: bool = False
    negated: bool = False


@dataclass(frozen=True, eq=False)
class Scores(Flow):
    """Describe the scores of a last layer with real weights (classes, in) on the bits of `layer`.

    Attributes:
        node: what messages call the layer.
        hold, remedy: why its weights are not binary, and what to do where it is not the last layer.
    """

    weights: Reals = None  # type: ignore[assignment]
    bias: Reals = None  # type: ignore[assignment]
    node: str = ""
    hold: str = "are not -s and +s for each channel, nor whole numbers of 8 bits times s"
    remedy: str = (
        "only the last layer may have real weights; quantise them to 8 bits or fewer in the file, or binarise them"
    )


@dataclass(frozen=True, eq=False)
class Answer:
    """Stand for what was computed from scores and is left out: probabilities, or the label."""

    scores: Sums | Scores


Value = Constant | Flow | Answer
Some = TypeVar("Some", bound=Flow)


def natural(shape: tuple[int, ...]) -> Axes:
    return tuple((axis,) for axis in range(len(shape)))


def by_channel(what: str, flow: Flow, values: NDArray[Any]) -> NDArray[Any]:
    """Return a constant that broadcasts against a flow as one value for each channel, or as one for all.

    Raises:
        RefusalError: it does not broadcast, or differs between the positions of a map.
    """
    if values.size == 1:
        return values.reshape(1)
    dims = flow.dims
    held = values
    if held.ndim == len(dims) + 1 and held.shape[0] == 1:  # the batch
        held = held[0]
    if held.ndim > len(dims) or any(n not in (1, size) for n, size in zip(held.shape[::-1], dims[::-1], strict=False)):
        raise RefusalError(
            f"{what} has the shape {values.shape}, which does not fit its input of {('N', *dims)}",
            "give one value for each channel, or one for all",
        )
    held = held.reshape((1,) * (len(dims) - held.ndim) + held.shape)
    return _rows(what, flow, to_map(flow, np.broadcast_to(held, dims)))


def _rows(what: str, flow: Flow, held: NDArray[Any]) -> NDArray[Any]:
    rows: NDArray[Any] = held.reshape(flow.shape[0], -1)
    if not (rows == rows[:, :1]).all():
        raise RefusalError(
            f"{what} differs between the positions of a map of {flow.shape}", "give one value for each channel"
        )
    return np.ascontiguousarray(rows[:, 0])


def along(what: str, flow: Flow, values: NDArray[Any], axis: int = 1) -> NDArray[Any]:
    """Return a vector that runs along one axis of the file (counted with the batch) as one value for each channel."""
    if not 1 <= axis <= len(flow.dims):
        raise RefusalError(f"its input of {('N', *flow.dims)} has no axis {axis}", "give it a map or a vector")
    if values.ndim != 1 or len(values) not in (1, flow.dims[axis - 1]):
        raise RefusalError(
            f"{what} has the shape {values.shape}, but axis {axis} of its input {('N', *flow.dims)} has another size",
            "export the network again",
        )
    return by_channel(what, flow, values.reshape(-1, *[1] * (len(flow.dims) - axis)))


def to_map(flow: Flow, values: NDArray[Any]) -> NDArray[Any]:
    """Turn an array of the file's `dims` to the layer's own shape."""
    order = list(chain.from_iterable(flow.axes))
    missing = [axis for axis in range(len(flow.shape)) if axis not in order]  # of size 1
    order += missing
    laid = values.reshape([flow.shape[axis] for axis in order])
    return laid.transpose(np.argsort(order))


def reshaped(flow: Some, dims: tuple[int, ...]) -> Some:
    """Return a flow as a reshape to `dims` sees it.

    Raises:
        RefusalError: the reshape cuts an axis of the map.
    """
    order = [axis for axis in chain.from_iterable(flow.axes) if flow.shape[axis] != 1]
    groups: list[tuple[int, ...]] = []
    left = list(order)
    for size in dims:
        group: list[int] = []
        while left and size % math.prod(flow.shape[axis] for axis in [*group, left[0]]) == 0:
            if math.prod(flow.shape[axis] for axis in group) == size:
                break
            group.append(left.pop(0))
        if math.prod(flow.shape[axis] for axis in group) != size:
            raise RefusalError(
                f"it turns {('N', *flow.dims)} into {('N', *dims)}, which cuts or mixes axes",
                "reshape only to flatten a map, and give the input the shape that the first layer wants",
            )
        groups.append(tuple(group))
    if left:
        raise RefusalError(f"it turns {('N', *flow.dims)} into {('N', *dims)}", "keep the number of values")
    return replace(flow, axes=_with_ones(flow.shape, groups))


def _with_ones(shape: tuple[int, ...], groups: list[tuple[int, ...]]) -> Axes:
    """Place the axes of size 1, which may lie anywhere, so that the natural order is recognised where it is there."""
    if len(groups) == len(shape) and all(not g or g == (i,) for i, g in enumerate(groups)):
        return natural(shape)
    return tuple(groups)

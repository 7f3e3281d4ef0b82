"""Compute the shapes of a net's maps, and refuse shapes that do not fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.net.net import (
    INPUT,
    AveragePool,
    Clip,
    Conv,
    Dense,
    Flatten,
    Layer,
    Leak,
    Levels,
    MaxPool,
    Net,
    Norm,
    Scale,
    Shift,
    Sign,
    Softmax,
    Threshold,
)
from blrc.net.window import Window

Shape = tuple[int, ...]
MOST_VALUES = 2**24  # of a map: 64 channels of 512 x 512; calibration takes some 64 bytes for each


def check_shapes(net: Net) -> dict[str, Shape]:
    """Return the output shape of every layer by name, ``(C, H, W)`` or ``(features,)``.

    Raises:
        BlrcError: a layer does not fit its input (named, with both shapes), or a map has too many values.
    """
    shapes: dict[str, Shape] = {INPUT: net.encoding.map_shape}
    _check_size("the input", net.encoding.shape)
    for layer in net.layers:
        if layer.x not in shapes:
            raise BlrcError(f"layer {layer.name!r}: reads {layer.x!r}, which no layer before it computes")
        shapes[layer.name] = _output(layer, shapes[layer.x])
        _check_size(f"layer {layer.name!r}", shapes[layer.name])
    del shapes[INPUT]
    return shapes


def with_windows(net: Net) -> Net:
    """Return the net with a window for each average over a whole map.

    Raises:
        BlrcError: a layer does not fit its input.
    """
    if not any(isinstance(layer, AveragePool) and layer.window is None for layer in net.layers):
        return net
    shapes = {INPUT: net.encoding.map_shape, **check_shapes(net)}
    whole = {
        layer.name: replace(layer, window=Window((shapes[layer.x][1], shapes[layer.x][2])))
        for layer in net.layers
        if isinstance(layer, AveragePool) and layer.window is None
    }
    return replace(net, layers=tuple(whole.get(layer.name, layer) for layer in net.layers))


def _check_size(who: str, shape: Shape) -> None:
    if math.prod(shape) > MOST_VALUES:
        raise BlrcError(f"{who}: a map {shape} has more than {MOST_VALUES} values; make it smaller")


def _output(layer: Layer, x: Shape) -> Shape:
    if isinstance(layer, Conv | MaxPool | AveragePool):
        if len(x) != 3:
            raise BlrcError(f"layer {layer.name!r}: needs a map (C, H, W), but its input is a vector of {x[0]}")
        if layer.window is None:
            return (x[0], 1, 1)
        height, width = layer.window.output(x[1], x[2])
        if height < 1 or width < 1:
            raise BlrcError(
                f"layer {layer.name!r}: its kernel {layer.window.kernel} does not fit its input of {x[1]} x {x[2]} "
                "pixels; use a smaller kernel or more padding"
            )
        if isinstance(layer, MaxPool | AveragePool):
            return (x[0], height, width)
        expected = layer.weights.shape[1] * layer.groups
        if x[0] != expected:
            raise BlrcError(f"layer {layer.name!r}: made for {expected} input channels, but its input has {x[0]}")
        return (layer.weights.shape[0], height, width)
    if isinstance(layer, Dense | Softmax):
        if len(x) != 1:
            raise BlrcError(
                f"layer {layer.name!r}: needs a vector, but its input is a map {x}; put nn.Flatten() before it"
            )
        if x[0] != layer.weights.shape[1]:
            raise BlrcError(f"layer {layer.name!r}: made for {layer.weights.shape[1]} inputs, but its input has {x[0]}")
        return (layer.weights.shape[0],)
    if isinstance(layer, Flatten):
        features = 1
        for n in x:
            features *= n
        return (features,)
    for values in _by_channel(layer):
        if len(values) not in ((x[0],) if isinstance(layer, Norm) else (1, x[0])):
            raise BlrcError(f"layer {layer.name!r}: made for {len(values)} channels, but its input has {x[0]}")
    return x


def _by_channel(layer: Norm | Scale | Shift | Leak | Clip | Sign | Threshold | Levels) -> tuple[NDArray[Any], ...]:
    """Return the parameters of a layer that has one for each channel."""
    if isinstance(layer, Norm):
        return (layer.gamma,)
    if isinstance(layer, Scale):
        return layer.factor, layer.divisor
    if isinstance(layer, Shift):
        return (layer.by,)
    if isinstance(layer, Leak):
        return (layer.slope,)
    if isinstance(layer, Threshold):
        return layer.at, layer.inverted
    assert isinstance(layer, Clip | Sign | Levels)
    return ()

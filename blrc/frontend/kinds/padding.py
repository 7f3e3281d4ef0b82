"""Write the padding of bits with bits as layers that exist, since a convolution's own padding is left out of its sum.

A convolution by 1 for each channel alone passes bits on, and gives 0 in its padding. A threshold behind it then says
which bit that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.kinds.rounding import Layer
from blrc.net.net import Conv
from blrc.net.window import padding_option


def padding_layers(sides: tuple[int, int, int, int], plus: Sequence[bool], dims: int = 2) -> tuple[Layer, Layer]:
    """Return the layers that put bits around maps of bits.

    Args:
        sides: how many at the top, left, bottom and right.
        plus: for each channel, whether they are +1 and not -1.
        dims: 1 of maps (C, L).
    """
    channels, ones = len(plus), [1] * dims
    options = {
        "in_channels": channels,
        "out_channels": channels,
        "kernel_size": ones,
        "stride": ones,
        "padding": list(padding_option(sides, dims)),
        "dilation": ones,
        "groups": channels,
        "bias": False,
    }
    weight = np.ones((channels, 1, *ones), dtype=np.int8)
    at: NDArray[np.int64] = np.where(plus, 0, 1).astype(np.int64)
    at = at[:1] if (at == at[0]).all() else at
    threshold = {"at": at, "inverted": np.zeros_like(at)}
    return (
        ("ste_conv1d" if dims == 1 else "ste_conv2d", options, {"weight": weight}),
        ("threshold", {"channels": len(at)}, threshold),
    )


def is_padding(kind: str, options: Mapping[str, Any]) -> bool:
    """Return whether a layer of a checkpoint has the form of the first of `padding_layers`."""
    return (
        kind in ("ste_conv1d", "ste_conv2d")
        and options["groups"] == options["in_channels"] == options["out_channels"]
        and set(options["kernel_size"]) == {1}
        and any(options["padding"])
    )


def only_pads(layer: Conv) -> bool:
    """Return whether a convolution does nothing but pad, as the first of `padding_layers`."""
    alone = layer.weights.shape == (layer.groups, 1, 1, 1) and bool((layer.weights == 1).all())
    window = layer.window
    return alone and window.stride == (1, 1) and any(window.padding) and layer.bias is None

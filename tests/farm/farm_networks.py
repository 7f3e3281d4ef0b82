"""Random networks through the public API, at the extremes of what a layer may be: the same for the same seed.

Padding goes from 0 to twice the kernel, strides and dilations exceed it, kernels exceed the map, maps have one row or
one column, pools are larger than what is left, and there are one or 1,000 channels. Whether a network has a C form at
all is left to the export, which has to say so by the layer's name. Some kernels are chosen for few shapes only:
every second seed makes a network of one of `STYLES` in turn, those in `RARE` more often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from farm_chains import Chain, Draw, extreme, random_conv, random_pool
from given_steps import decision, step
from numpy.typing import NDArray
from random_networks import encoding_of, randomise, raw_samples
from torch import nn

from blrc import nn as bnn
from blrc.net.encoding import InputEncoding

SAMPLES = 12  # for calibration


@dataclass(frozen=True, eq=False)
class Network:
    """A module and what an export of it needs.

    Attributes:
        style: which of `STYLES` made it.
        options: of `blrc.export`: which members, and what of them is sampled.
    """

    seed: int
    style: str
    model: nn.Module
    encoding: InputEncoding
    calibration: NDArray[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def inputs(self, count: int) -> NDArray[Any]:
        """Random raw samples as a user has them, the smallest values first, then the largest, then one bit set."""
        raw = raw_samples(self.encoding, count, self.seed + 1)
        low, high = {"uint8": (0, 255), "int8": (-128, 127), "bits": (0, 1)}[self.encoding.kind]
        raw[:1], raw[1:2] = low, high
        if count > 2:
            raw[2] = low
            raw[2].reshape(-1)[-1] = high
        return raw


def network(seed: int) -> Network:
    """Network number `seed`."""
    rng = np.random.default_rng([seed, 15])
    names = [*(name for name in STYLES if name != "averaged"), *RARE]
    style = names[seed // 2 % len(names)] if seed % 2 else "anything"
    style = "averaged" if seed % AVERAGED == AVERAGED - 1 else style
    plain = style == "binarized" or (style == "anything" and rng.random() < 0.15)
    kind = str(rng.choice(["uint8", "int8", "bits"]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind, shape, model = STYLES[style](rng, kind, plain)
        randomise(model, seed, ties=bool(rng.random() < 0.8))
    encoding = encoding_of(kind, shape)
    drawn = next(bnn.distributions(model), None) is not None  # else all members are the same
    members = _members(rng, style) if drawn else {}
    return Network(seed, style, model, encoding, raw_samples(encoding, SAMPLES, seed), members)


def _members(rng: Draw, style: str) -> dict[str, Any]:
    """MAP, or a few members of which some layers may be the same."""
    if style != "ensemble" and rng.random() < 0.75:
        return {}
    options: dict[str, Any] = {"members": str(int(rng.integers(2, 4))), "seed": int(rng.integers(0, 1000))}
    if rng.random() < 0.3:
        options["freeze"] = 0.25
    if rng.random() < 0.4:
        options["gate"] = 0.9
    return options


def _size(rng: Draw) -> tuple[int, int]:
    height, width = (int(rng.integers(1, 15)) for _ in range(2))
    if rng.random() < 0.2:
        height, width = (1, int(rng.integers(1, 40))) if rng.random() < 0.5 else (int(rng.integers(1, 40)), 1)
    return height, width


def anything(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Convolutions of any geometry, one behind the other."""
    shape = (
        int(rng.choice([1, 1, 2, 3, 4, 5, 31, 32, 33, 64, 1000], p=[0.2] + [0.1] * 7 + [0.04] * 2 + [0.02])),
        *_size(rng),
    )
    chain = Chain(rng, shape, plain)
    for _ in range(int(rng.integers(1, 4))):
        random_conv(chain, rng)
        if min(chain.shape) >= 1 and rng.random() < 0.15:
            pool = random_pool(rng, chain.shape[1:])
            if pool is not None:
                chain.pool(*pool)
        if min(chain.shape) < 1:
            return kind, shape, chain.finish()
    while not chain.fits:
        chain.pool((2, 2))
    if rng.random() < 0.5:
        chain.dense(int(rng.choice([1, 31, 32, 33, 100])))
    return kind, shape, chain.finish(bool(rng.random() < 0.25))


def columns(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """A first layer of three or four codes in a kernel row, and row strips behind it."""
    channels = int(rng.choice([1, 1, 1, 2, 3, 4]))
    wide = {1: int(rng.integers(3, 5)), 2: 2, 3: 1, 4: 1}[channels]
    tall = int(rng.integers(1, 8))
    shape = (channels, *_size(rng))
    chain = Chain(rng, shape, plain)
    (sy, py, _), (sx, px, dx) = extreme(rng, tall), extreme(rng, wide)
    py, px = max(py, -(-(tall - shape[1]) // 2)), max(px, -(-(dx * (wide - 1) + 1 - shape[2]) // 2))
    size = ((shape[1] + 2 * py - tall) // sy + 1, (shape[2] + 2 * px - dx * (wide - 1) - 1) // sx + 1)
    chain.conv(int(rng.choice([8, 33, 65])), (tall, wide), (sy, sx), (py, px), (1, dx), 1, random_pool(rng, size))
    for _ in range(int(rng.integers(1, 3))):
        if min(chain.shape) >= 1:
            random_conv(chain, rng, 4)
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    return str(rng.choice(["uint8", "int8"])), shape, chain.finish()


def same(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """3x3 layers that keep the map, pooled by 2x2 or not: what is bit-sliced."""
    width = int(rng.choice([1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 24, 28, 31, 32, 33]))
    height = int(rng.choice([1, 2, 3, 4, 7, 8, 9, 16, 17, 32]))
    channels = int(rng.choice([1, 3, 8, 31, 32, 33, 64, 100]))
    if rng.random() < 0.6:  # fills the lanes
        width, height = int(rng.choice([7, 8, 14, 15, 16, 28, 31, 32])), int(rng.choice([8, 15, 16, 17, 20]))
    chain = Chain(rng, (channels, height, width), plain)
    for _ in range(int(rng.integers(1, 3))):
        out = int(rng.choice([4, 5, 8, 9, 10, 12, 13, 31, 32]))
        pool = ((2, 2),) if min(chain.shape[1:]) >= 2 and rng.random() < 0.4 else None
        while out > 4 and not chain.conv(out, (3, 3), padding=(1, 1), pool=pool):
            out //= 2
    while not chain.fits:
        chain.pool((2, 2))
    return "bits", (channels, height, width), chain.finish()


def eights(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """A first layer of at most 32 codes a row with many outputs: eight pixels at a time."""
    channels = int(rng.choice([1, 1, 2, 3, 4]))
    tall = int(rng.integers(1, 4 if channels > 2 else 6))
    wide = max(1, int(rng.integers(1, 1 + min(6, 32 // (channels * tall)))))
    width, height = int(rng.choice([5, 6, 7, 8, 13, 15, 16, 24])), int(rng.integers(1, 14))
    (sy, py, _), (sx, px, _) = extreme(rng, tall), extreme(rng, wide)
    py, px = max(py, -(-(tall - height) // 2)), max(px, -(-(wide - width) // 2))
    if rng.random() < 0.7:  # else few pixels of a row may be left
        sx, px = 1, max(px, wide // 2)
    out = int(rng.choice([16, 17, 24, 31, 32, 33, 48, 64]))
    size = ((height + 2 * py - tall) // sy + 1, (width + 2 * px - wide) // sx + 1)
    chain = Chain(rng, (channels, height, width), plain)
    pool = ((2, 2),) if min(size) >= 2 and rng.random() < 0.5 else None
    chain.conv(out, (tall, wide), (sy, sx), (py, px), pool=pool)
    while not chain.fits:
        chain.pool((2, 2))
    return str(rng.choice(["uint8", "int8"])), (channels, height, width), chain.finish()


def dense(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Dense layers alone, of vectors or of maps of whole words: what adds up columns."""
    if rng.random() < 0.5:
        inputs = int(rng.choice([1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 500, 1000]))
        kind = kind if rng.random() < 0.5 else "bits"
        shape: tuple[int, ...] = (inputs,)
        chain = Chain(rng, (inputs, 1, 1), plain)
        chain.flat = True
    else:
        shape = (int(rng.choice([32, 64])), int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        kind = "bits"
        chain = Chain(rng, shape, plain)  # type: ignore[arg-type]
    for _ in range(int(rng.integers(1, 4))):
        chain.dense(int(rng.choice([1, 31, 33, 64, 100, 127, 128, 129, 255, 256, 257, 300, 384])))
    return kind, shape, chain.finish(bool(rng.random() < 0.3))


def taps(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Large kernels with groups, or with horizontal dilation: taken tap by tap."""
    wide = bool(rng.random() < 0.3)  # more words than a vector CPU gathers, too
    if rng.random() < 0.5:
        groups = int(rng.choice([2, 2, 3, 4]))
        channels = groups * int(rng.choice([130, 150, 161, 192] if not wide else [520, 545]))
        dilation, per_group = tuple(int(n) for n in rng.integers(1, 3, 2)), int(rng.choice([1, 3, 4, 8]))
    else:
        groups, channels = 1, int(rng.choice([130, 160, 161] if not wide else [513, 545]))
        dilation, per_group = (int(rng.integers(1, 4)), int(rng.integers(2, 5))), int(rng.choice([1, 3, 4, 5, 33]))
    height, width = (int(n) for n in rng.integers(1, 6, 2))
    padding = tuple(
        max(int(rng.integers(0, 7)), -(-(2 * d + 1 - n) // 2)) for d, n in zip(dilation, (height, width), strict=True)
    )
    chain = Chain(rng, (channels, height, width), plain)
    stride = tuple(int(n) for n in rng.integers(1, 5, 2))
    size = [
        (n + 2 * p - 2 * d - 1) // s + 1 for n, p, d, s in zip((height, width), padding, dilation, stride, strict=True)
    ]
    pool = random_pool(rng, (size[0], size[1]))
    chain.conv(groups * per_group, (3, 3), stride, padding, dilation, groups, pool)  # type: ignore[arg-type]
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    return "bits", (channels, height, width), chain.finish()


def rows(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Up to 1,000 channels, or one: runs of words, depthwise layers, packed taps."""
    channels = int(rng.choice([1, 63, 129, 160, 256, 320, 1000]))
    height, width = (int(n) for n in rng.integers(1, 7, 2))
    chain = Chain(rng, (channels, height, width), plain)
    kernel = tuple(int(n) for n in rng.integers(1, 4, 2))
    padding = tuple(int(rng.integers(max(0, k - n), 2 * k + 1)) for k, n in zip(kernel, (height, width), strict=True))
    if rng.random() < 0.3:
        chain.conv(channels, kernel, (1, 1), padding, groups=channels)  # type: ignore[arg-type]
    random_conv(chain, rng, 4)
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    return "bits", (channels, height, width), chain.finish()


def pools(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Pools behind one another: a convolution takes in the first, and the others are steps of their own."""
    shape = (int(rng.choice([1, 3, 32, 33])), int(rng.integers(3, 17)), int(rng.integers(3, 17)))
    chain = Chain(rng, shape, plain)
    chain.conv(int(rng.choice([1, 31, 32, 33, 65])), (2, 3), padding=(1, 1))
    for _ in range(int(rng.integers(2, 4))):
        pool = random_pool(rng, chain.shape[1:]) if min(chain.shape) >= 1 else None
        chain.pool(*(pool or ((1, 1),)))
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    return kind, shape, chain.finish()


def ensemble(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Any network without plain layers, with several members."""
    return anything(rng, kind, False)


def binarized(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """A Binarized NN, whose last layer is binary."""
    shape = (int(rng.choice([1, 2, 3, 33])), *_size(rng))
    chain = Chain(rng, shape, True)
    random_conv(chain, rng)
    if min(chain.shape) >= 1 and chain.fits and rng.random() < 0.5:
        chain.dense(int(rng.choice([31, 32, 64])))
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    return kind, shape, chain.finish(binary=True)


def leveled(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Layers that give codes of several thresholds, of other bits in each layer, and signs; pools of codes."""
    shape = (int(rng.choice([1, 1, 2, 3, 33])), *_size(rng))
    chain = Chain(rng, shape, True)
    chain.leveled = True
    for _ in range(int(rng.integers(1, 4))):
        if min(chain.shape) >= 1:
            random_conv(chain, rng, 4)
    if min(chain.shape[1:]) >= 3:  # a convolution takes in the first of two pools at most
        chain.pool((2, 2), (1, 1), (0, 0))
        chain.pool(*(random_pool(rng, chain.shape[1:]) or ((2, 2),)))
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    if rng.random() < 0.5 and min(chain.shape) >= 1:
        chain.dense(int(rng.choice([1, 31, 33, 64])))
    return kind, shape, chain.finish(binary=bool(rng.random() < 0.5))


def given(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """What networks of other people have between a binary layer and its sign, and pixels that become bits."""
    inputs, size = int(rng.choice([1, 2, 3, 33])), 2 * int(rng.integers(2, 6))
    shape, layers = (inputs, size, size), list[nn.Module]()
    for outputs in rng.choice([3, 7, 31, 33], int(rng.integers(1, 3))).tolist():
        layers.append(bnn.SteConv2d(inputs, outputs, 3, padding=1, bias=bool(rng.random() < 0.5)))
        pools = size >= 2
        for _ in range(int(rng.integers(1, 5))):
            layers.append(step(rng, outputs, pools, True))
            size, pools = (size // 2, False) if isinstance(layers[-1], nn.MaxPool2d) else (size, pools)
        layers.append(decision(rng, outputs))
        inputs = outputs
        if size >= 2 and rng.random() < 0.3:
            layers.append(nn.MaxPool2d(2))
            size //= 2
    layers += [nn.Flatten(), bnn.SteLinear(inputs * size * size, int(rng.integers(2, 9)), bias=True)]
    return str(rng.choice([kind, "thresholds"])), shape, nn.Sequential(*layers)


def averaged(rng: Draw, kind: str, plain: bool) -> tuple[str, tuple[int, ...], nn.Module]:
    """Averages of signs or of levels, of windows and of whole maps, that convolutions, pools and scores read."""
    shape = (int(rng.choice([1, 2, 3, 33])), int(rng.integers(3, 16)), int(rng.integers(3, 16)))
    chain = Chain(rng, shape, True)
    chain.leveled = bool(rng.random() < 0.5)
    chain.conv(int(rng.choice([1, 31, 32, 33])), (3, 3), padding=(1, 1))
    chain.average()
    if rng.random() < 0.5 and min(chain.shape[1:]) >= 2:
        chain.pool((2, 2), (1, 1), (0, 0))
    if rng.random() < 0.7 and min(chain.shape[1:]) >= 2:
        chain.conv(int(rng.choice([3, 32, 65])), (2, 2))
        chain.average()
    while min(chain.shape) >= 1 and not chain.fits:
        chain.pool((2, 2))
    return kind, shape, chain.finish(binary=bool(rng.random() < 0.5))


AVERAGED = 40
"""The last of every so many seeds averages; the networks of the others are older than that style."""
RARE = ("same", "eights", "same", "dense")
"""Styles whose kernels are chosen for few of their shapes: drawn more often."""
STYLES: dict[str, Callable[[Draw, str, bool], tuple[str, tuple[int, ...], nn.Module]]] = {
    "columns": columns,
    "same": same,
    "eights": eights,
    "dense": dense,
    "taps": taps,
    "rows": rows,
    "pools": pools,
    "ensemble": ensemble,
    "binarized": binarized,
    "anything": anything,
    "given": given,
    "leveled": leveled,
    "averaged": averaged,
}

"""Re-estimate norm statistics, exactly, layer by layer.

This is the paper's "directly computing the batch statistics" (section 5). Each layer's statistics are taken over the
calibration samples as they arrive through the calibrated and folded layers before it, so they are those that the device
will see. They are integer sums (sum z, sum z^2), and do not depend on batch order, threads or machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.lowering.chain import has_affine_prefix, pick
from blrc.lowering.fold import Folded, fold_stage, inputs_of
from blrc.lowering.preactivations import max_pool, preactivation, prepare, sum_pool
from blrc.lowering.single import rounded
from blrc.net.choices import MOST_BITS as MOST_CODE_BITS
from blrc.net.elements import ELEMENTS, DType, code_type, sum_bits
from blrc.net.encoding import InputEncoding
from blrc.net.net import (
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Layer,
    Levels,
    MaxPool,
    Net,
    Norm,
    Pointwise,
    Scale,
    Sums,
    reach,
)
from blrc.net.pieces import ScoreStage, Stage, pieces
from blrc.net.shapes import check_shapes

CHUNK = 16  # samples that are summed or decided at once: small enough for caches
KEPT = 2**28  # bytes of pre-activations that are kept for deciding; where they are more, they are computed twice
AT_ONCE = 2**24  # values that are computed at once
MOST_BITS = 2**31  # of one layer for all samples together, 256 MiB


def calibrate(net: Net, samples: NDArray[Any]) -> Net:
    """Return the net with norm statistics re-estimated on raw `samples`, ``(N, *encoding.shape)``, N >= 2.

    Values between two layers are held as bits, and the number of values computed at once is bounded. So calibration
    takes some 500 MB at most, besides the samples.

    Raises:
        BlrcError: samples of the wrong type or shape, or too many of them; layers in an order that has no exact integer
            form.
    """
    net.encoding.check(samples, "calibration samples")
    if len(samples) < 2:
        raise BlrcError(f"calibration needs at least 2 samples, got {len(samples)}; a few hundred are better")
    shapes = check_shapes(net)
    _check_room(net, shapes, len(samples))
    prepare(float(len(samples)) * sum(_multiply_adds(layer, shapes) for layer in net.layers))
    x: _Maps = _Raw(net.encoding, samples)
    behind = net.encoding.is_binary
    calibrated: dict[str, Norm] = {}
    dtype: DType = "bits"
    for piece in pieces(net):
        if isinstance(piece, Stage):
            z = _Sums(piece.linear, x, inputs_of(piece, net.encoding, behind).peak, shapes[piece.linear.name])
            calibrated.update(_calibrated(piece.chain, z))
            stage = replace(piece, chain=tuple(_replaced(step, calibrated) for step in piece.chain))
            rule = folded(stage, net.encoding, behind)
            dtype = code_type(stage.sign.bits) if isinstance(stage.sign, Levels) else "bits"
            x = _Packed.of((decide(stage, rule, part) for part in z), dtype)
            behind = True
        elif isinstance(piece, MaxPool):
            x = _Packed.of((max_pool(part, piece.window) for part in x), dtype)
        elif isinstance(piece, AveragePool):
            assert piece.window is not None, "pieces gives it one"
            dtype = code_type(sum_bits(piece.window.taps, ELEMENTS[dtype].high))
            x = _Packed.of((sum_pool(part, piece.window) for part in x), dtype)
        elif isinstance(piece, Flatten):
            x = _Flat(x)
        elif isinstance(piece, ScoreStage) and piece.norm is not None:
            peak = inputs_of(piece, net.encoding, behind).peak
            calibrated.update(_calibrated(piece.chain, _Sums(piece.linear, x, peak, shapes[piece.linear.name])))
    layers: tuple[Layer, ...] = tuple(calibrated.get(layer.name, layer) for layer in net.layers)
    return replace(net, layers=layers)


def _calibrated(chain: Sequence[Pointwise | MaxPool], z: Iterable[NDArray[Any]]) -> dict[str, Norm]:
    """Return the norms of a chain with statistics of the sums z, pooled as they are before the norm."""
    found = {}
    for place, step in enumerate(chain):
        if not isinstance(step, Norm):
            continue
        if not has_affine_prefix(chain, step):
            raise BlrcError(
                f"layer {step.name!r}: its statistics cannot be estimated anew behind {chain[place - 1].name!r}; keep "
                "those of training with --norms given"
            )
        statistics = _statistics(_pooled(chain[:place], part) for part in z)
        found[step.name] = replace(step, statistics=statistics)
    return found


def _replaced(step: Pointwise | MaxPool, norms: Mapping[str, Norm]) -> Pointwise | MaxPool:
    return norms.get(step.name, step)


def _pooled(before: Sequence[Pointwise | MaxPool], z: NDArray[Any]) -> NDArray[Any]:
    """Return the sums z that pools let through; behind a negative factor these are the smallest ones."""
    sign = np.ones(z.shape[1], dtype=z.dtype)
    for step in before:
        if isinstance(step, Scale):
            turned = [pick(step.factor, c) / pick(step.divisor, c) < 0 for c in range(len(sign))]
            sign = np.where(turned, -sign, sign)
        elif isinstance(step, MaxPool):
            z = _by_channel(sign, z) * max_pool(_by_channel(sign, z) * z, step.window)
    return z


def _by_channel(values: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(1, -1, *[1] * (z.ndim - 2))


def _check_room(net: Net, shapes: Mapping[str, tuple[int, ...]], count: int) -> None:
    for layer in net.layers:
        bits = layer.bits if isinstance(layer, Levels) else MOST_CODE_BITS if isinstance(layer, AveragePool) else 1
        size = math.prod(shapes[layer.name]) * bits
        if size * count > MOST_BITS:
            what = "bits" if isinstance(layer, Levels | AveragePool) else "values"
            raise BlrcError(
                f"calibration: layer {layer.name!r} has {size} {what} for each of {count} samples, together more "
                f"than {MOST_BITS}; save the network again with at most {MOST_BITS // size} samples"
            )


def _multiply_adds(layer: Layer, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the number of multiply-adds of a binary layer for one sample, and 0 for other layers."""
    if not isinstance(layer, Conv | Dense):
        return 0
    return fan_in(layer) * math.prod(shapes[layer.name])


class _Maps(Protocol):
    """Give integer maps of all samples, some samples at a time."""

    def __iter__(self) -> Iterator[NDArray[Any]]: ...


@dataclass(frozen=True, eq=False)
class _Raw:
    """Give the codes of raw samples."""

    encoding: InputEncoding
    samples: NDArray[Any]

    def __iter__(self) -> Iterator[NDArray[np.int8]]:
        step = max(1, AT_ONCE // math.prod(self.encoding.shape))
        for i in range(0, len(self.samples), step):
            yield self.encoding.maps(self.samples[i : i + step])


@dataclass(frozen=True, eq=False)
class _Packed:
    """Hold maps of +-1 or of codes, each bit of them packed by itself."""

    parts: list[tuple[list[NDArray[np.uint8]], tuple[int, ...]]]
    dtype: DType

    @staticmethod
    def of(maps: Iterable[NDArray[Any]], dtype: DType) -> _Packed:
        """Pack maps with channels on axis 1, in the order in which they lie in memory."""
        bits = ELEMENTS[dtype].code_bits
        lines = (np.moveaxis(part, 1, -1) for part in maps)
        return _Packed(
            [
                ([np.packbits(part & 1 << p) for p in range(bits)] if bits else [np.packbits(part > 0)], part.shape)
                for part in lines
            ],
            dtype,
        )

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for packed, shape in self.parts:
            each = [np.unpackbits(bits, count=math.prod(shape)).reshape(shape) for bits in packed]
            if self.dtype == "bits":
                yield np.moveaxis(2 * each[0].view(np.int8) - np.int8(1), -1, 1)
            else:
                yield np.moveaxis(np.asarray(sum(bits << np.uint8(p) for p, bits in enumerate(each))), -1, 1)


@dataclass(frozen=True, eq=False)
class _Flat:
    """Give maps as vectors, in the order C, H, W."""

    maps: _Maps

    def __iter__(self) -> Iterator[NDArray[np.int8]]:
        for part in self.maps:
            yield part.reshape(len(part), -1)


class _Sums:
    """Give the pre-activations of a layer, some samples at a time.

    They are kept if they take at most `KEPT` bytes; otherwise each iteration computes them again.
    """

    def __init__(self, linear: Conv | Dense, x: _Maps, peak: int, shape: tuple[int, ...]) -> None:
        self.linear, self.x, self.peak = linear, x, peak
        self.step = max(1, AT_ONCE // math.prod(shape))
        self.parts: list[NDArray[Any]] = []
        self.whole = False

    def __iter__(self) -> Iterator[NDArray[Any]]:
        if self.whole:
            yield from self.parts
            return
        self.parts, kept = [], 0
        for maps in self.x:
            for i in range(0, len(maps), self.step):
                z = preactivation(self.linear, maps[i : i + self.step], self.peak)
                kept += z.nbytes
                if kept <= KEPT:
                    self.parts.append(z)
                else:
                    self.parts.clear()
                yield z
        self.whole = kept <= KEPT


def _statistics(parts: Iterable[NDArray[Any]]) -> Sums:
    """Return the exact sums over all parts together."""
    found = [sums(part) for part in parts]
    count = sum(each.count for each in found)
    total = tuple(map(sum, zip(*(each.total for each in found), strict=True)))
    return Sums(count, total, tuple(map(sum, zip(*(each.squares for each in found), strict=True))))


def sums(z: NDArray[Any]) -> Sums:
    """Return the exact sums over all axes but that of the channels (axis 1)."""
    channels = z.shape[1]
    count = z.size // channels
    peak = max(int(z.max(initial=0)), -int(z.min(initial=0)))
    if count * peak * peak >= 2**63:
        raise BlrcError(f"calibration: {count} pre-activations up to {peak} overflow 64-bit sums; use fewer samples")
    total = np.zeros(channels, dtype=np.int64)
    squares = np.zeros(channels, dtype=np.int64)
    step = max(1, min(CHUNK, AT_ONCE * len(z) // max(1, 4 * z.size)))
    for i in range(0, len(z), step):
        wide = np.moveaxis(z[i : i + step].astype(np.int64), 1, -1).reshape(-1, channels)
        total += wide.sum(axis=0)
        squares += np.einsum("mc,mc->c", wide, wide)
    return Sums(count, tuple(map(int, total)), tuple(map(int, squares)))


def folded(stage: Stage, encoding: InputEncoding, behind: bool) -> Folded:
    """Return flips and thresholds of a stage; see `inputs_of` for the arguments."""
    inputs = inputs_of(stage, encoding, behind)
    bound = reach(stage.linear) * inputs.peak
    rule = fold_stage(stage, inputs.scale, -bound, bound, inputs.binary)
    if stage.rounding == "exact":
        return rule
    return rounded(stage, rule, float(inputs.scale), -bound, bound, inputs.binary)


def decide(stage: Stage, rule: Folded, z: NDArray[Any]) -> NDArray[Any]:
    """Return the output of a stage that the folded thresholds give for pre-activations `z` (channels on axis 1).

    It is +-1 (int8), or codes (uint8).
    """
    parts = []
    for i in range(0, len(z), CHUNK):
        found = passes(rule, z[i : i + CHUNK])
        x = found if isinstance(stage.sign, Levels) else 2 * found.view(np.int8) - np.int8(1)
        for pool in stage.pools:
            x = max_pool(x, pool.window)
        parts.append(np.moveaxis(turned(stage, rule, x), 1, -1))  # in the order in which it lies in memory
    return np.moveaxis(np.concatenate(parts), -1, 1)


def turned(stage: Stage, rule: Folded, x: NDArray[Any]) -> NDArray[Any]:
    """Return what +-1 or codes, with channels on axis 1, stand for: the opposite in channels that are inverted."""
    if not rule.inverted.any():
        return x
    if isinstance(stage.sign, Levels):
        return np.asarray(np.where(_by_channel(rule.inverted, x), np.uint8(stage.sign.most) - x, x))
    return np.asarray(x * _by_channel(np.where(rule.inverted, np.int8(-1), np.int8(1)), x))


def passes(rule: Folded, z: NDArray[Any]) -> NDArray[Any]:
    """Return whether each z, with channels on axis 1, reaches its threshold after the flip; or how many it reaches."""
    z = _by_channel(np.where(rule.flip, -1, 1).astype(z.dtype), z) * z
    if rule.threshold.ndim == 1:
        return np.asarray(z >= _by_channel(rule.threshold.astype(z.dtype), z))
    codes = np.empty(z.shape, np.uint8)
    for c, limits in enumerate(rule.threshold):
        codes[:, c] = np.searchsorted(limits, z[:, c], side="right")
    return codes


def fan_in(linear: Conv | Dense) -> int:
    """Return the number of taps x channels that one output sees away from the border."""
    return int(np.prod(linear.weights.shape[1:]))

"""Take convolutions and dense layers: their weights are recognised by value, wherever they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.kinds.padding import padding_layers
from blrc.importing.file import Op
from blrc.importing.flow import NO_PADS, Averages, Bits, Flow, Levels, Pads, Raw, Scores, Sums, natural
from blrc.importing.inputs import as_real
from blrc.importing.numbers import Reals, fractions, reals, weights_of
from blrc.importing.ops.decide import HALF, settle
from blrc.importing.ops.record import Args, Context, Taken, constant, flow, number, optional
from blrc.importing.ops.window import as_map, is_single, spatial
from blrc.importing.refusal import RefusalError
from blrc.net.net import INPUT
from blrc.net.window import Window, padding_option

_REMEDIES = {
    "rounding": "sums that are 0 would fall to either side: write the file without folding constants, or with weights "
    "of exactly two values for each channel, s * sign(w)",
    "of which one is": "use symmetric quantisers of 8 bits (narrow), whose numbers are from -127 to 127",
    "real": "only the last layer may have real weights; quantise them to 8 bits or fewer in the file, or binarise them",
}


def conv(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Conv with +-s weights; one that covers its whole map is a dense layer."""
    weights = constant(args, 1, "weights")
    if weights.ndim not in (3, 4) or not weights.size:
        raise RefusalError(f"its weights have the shape {weights.shape}", "use convolutions of one or two dimensions")
    x = settle(ctx, op, flow(args))
    averages = isinstance(x, Averages)
    if isinstance(x, Bits) and x.fill in x.values and not averages:
        x = _padded(ctx, op, x, x.pads, weights.ndim - 2)
    if any(x.pads) and x.fill:
        raise RefusalError(
            f"it reads {_values(x)} that were padded with {float(x.fill):g}", "pad with 0 or with a value of bits"
        )
    x, window = spatial(op, x, weights.shape[2:])
    zeros = isinstance(x, Levels) and not x.least and not x.offset  # what is padded is code 0
    if averages and any(window.padding) and not zeros:
        what = "levels below 0" if isinstance(x, Levels) else "averages of bits"
        raise RefusalError(f"it pads {what}", "leave out the padding, or pad before them", then=None)
    if isinstance(x, Bits) and 0 in x.values and not averages:  # what the convolution itself pads with
        x = _padded(ctx, op, replace(x, fill=0), window.padding, weights.ndim - 2)
        window = replace(window, padding=NO_PADS)
    groups = op.attributes.get("group", 1)
    channels = x.dims[0]
    ints_fit = type(groups) is int and groups >= 1 and not len(weights) % groups
    if not ints_fit or weights.shape[1] * groups != channels:
        raise RefusalError(
            f"its weights {weights.shape} with {groups} groups do not fit its input of {channels} channels",
            "export the network again",
        )
    held = optional(args, 2, "bias")
    bias = None if held is None else _bias(held, len(weights))
    if weights.ndim == 3:
        weights = weights[:, :, None]
    size = (1, *x.dims[1:])[-2:]
    out = window.output(*size)
    if is_single(x):
        weights = _tap(window, out, groups, weights)
    covers = groups == 1 and out == (1, 1) and not any(window.padding) and window.dilation == (1, 1)
    if is_single(x) or (isinstance(x, Bits) and covers and weights.shape[1:] == (x.dims[0], *size)):
        ones = (len(weights), *[1] * len(x.dims[1:]))
        flat = replace(x, axes=(tuple(chain.from_iterable(x.axes)),), pads=NO_PADS)
        made = dense(ctx, op, flat, weights.reshape(len(weights), -1), bias)
        return replace(made, outputs=tuple(_unflat(value, ones) for value in made.outputs))
    options = {
        "in_channels": channels,
        "out_channels": len(weights),
        "kernel_size": list(window.kernel),
        "stride": list(window.stride),
        "padding": list(padding_option(window.padding)),
        "dilation": list(window.dilation),
        "groups": groups,
        "bias": False,
    }
    axes = x.axes
    shape = (len(weights), *out)
    return _binary(ctx, op, replace(x, pads=window.padding), weights, bias, options, shape, axes)


def _padded(ctx: Context, op: Op, x: Bits, sides: Pads, rank: int) -> Bits:
    """Return bits with bits around them: those that stand for its `fill`."""
    if not any(sides) or is_single(x):
        return x
    found = as_map(x, rank)
    assert isinstance(found, Bits)
    channels, height, width = found.shape
    plus = found.fill == found.values[1]
    layer, op = found.layer, replace(op, name=f"{op.name or op.kind}_padding")
    for kind, options, tensors in padding_layers(sides, [plus] * channels):
        layer = ctx.build.add(op, kind, replace(found, layer=layer), options, tensors)
    top, left, bottom, right = sides
    shape = (channels, height + top + bottom, width + left + right)
    return replace(found, layer=layer, shape=shape, pads=NO_PADS, fill=0, bound=None)


def _tap(window: Window, out: tuple[int, int], groups: int, weights: NDArray[Any]) -> NDArray[Any]:
    """Return the weights that meet the one position of a map; the others meet padding, which is 0.

    Raises:
        RefusalError: the layer gives several positions or has groups, for which there is no dense layer.
    """
    (top, left), (down, across) = window.padding[:2], window.dilation
    row, column = top // down, left // across
    meets = not top % down and not left % across and row < window.kernel[0] and column < window.kernel[1]
    if out != (1, 1) or groups != 1 or not meets:
        raise RefusalError(
            "its input is a map of one position, and it is no dense layer: it has groups, or pads to several positions",
            "put a dense layer there",
        )
    return weights[:, :, row : row + 1, column : column + 1]


def _unflat(value: Any, dims: tuple[int, ...]) -> Any:
    return replace(value, axes=((0,), *[()] * (len(dims) - 1)))


def gemm(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Gemm with constant weights."""
    weights = _matrix(constant(args, 1, "weights"))
    if op.attributes.get("transA", 0):
        raise RefusalError("it transposes its input", "export the network again")
    weights = weights if op.attributes.get("transB", 0) else weights.T
    alpha, beta = (Fraction(number(op.attributes, name, 1.0)) for name in ("alpha", "beta"))
    held = optional(args, 2, "bias")
    bias = None if held is None else [row * beta for row in _bias(held, len(weights))]
    return dense(ctx, op, settle(ctx, op, flow(args)), weights, bias, alpha)


def mat_mul(ctx: Context, op: Op, args: Args) -> Taken:
    """Take MatMul of a flow and constant weights (in, out)."""
    return dense(ctx, op, settle(ctx, op, flow(args)), _matrix(constant(args, 1, "weights")).T, None)


def xnor_popcount(ctx: Context, op: Op, args: Args) -> Taken:
    """Take FINN's XnorPopcountMatMul: the number of equal bits, of inputs and weights that are 0 and 1."""
    x, weights = settle(ctx, op, flow(args)), _matrix(constant(args, 1, "weights"))
    if (
        not isinstance(x, Bits)
        or {*x.values} != {Fraction(0), Fraction(1)}
        or not ((weights == 0) | (weights == 1)).all()
    ):
        raise RefusalError("its inputs are not bits 0 and 1", "export the network again")
    signed = replace(x, scales=(*x.scales, Fraction(2)), offset=Fraction(0))
    many = len(weights)
    made = dense(ctx, op, signed, weights.T * 2.0 - 1.0, [Fraction(many)] * weights.shape[1], after=HALF)
    return replace(made, says=f"{made.says}, counted as equal bits")


def _matrix(held: NDArray[Any]) -> NDArray[Any]:
    if held.dtype.kind in "iu":
        raise RefusalError("it multiplies integers, which may wrap around", "cast to float32 before it")
    if held.ndim != 2 or not held.size:
        raise RefusalError(f"its weights have the shape {held.shape}, not (in, out)", "use dense layers for vectors")
    return held


def _bias(held: NDArray[Any], many: int) -> list[Fraction]:
    row = fractions(reals("its bias", held).reshape(-1))
    if len(row) not in (1, many):
        raise RefusalError(f"its bias has {len(row)} values for {many} channels", "export the network again")
    return row * many if len(row) == 1 else row


def dense(
    ctx: Context,
    op: Op,
    x: Flow,
    weights: NDArray[Any],
    bias: list[Fraction] | None,
    factor: Fraction = Fraction(1),
    after: Fraction = Fraction(1),
) -> Taken:
    """Take a dense layer with weights (out, in): ((weights x) factor + bias) after."""
    if len(x.axes) != 1:
        raise RefusalError(
            f"its input is {('N', *x.dims)}, not a vector for each sample", "flatten the map before it", then=None
        )
    if x.dims[0] != weights.shape[1]:
        raise RefusalError(f"it is made for {weights.shape[1]} inputs, but has {x.dims[0]}", "export the network again")
    x, weights = _flattened(ctx, op, x, weights)
    many = len(weights)
    bias = [Fraction(0)] * many if bias is None else bias
    options = {"in_features": weights.shape[1], "out_features": many, "bias": False}
    if isinstance(x, Bits) and isinstance(found := weights_of(weights), str):
        held = reals("its weights", weights) * float(factor * after)
        scores = Scores(
            x.layer,
            (many,),
            natural((many,)),
            weights=held * float(x.scale),
            bias=np.array([float(b * after) for b in bias]) + held.sum(axis=1) * float(x.offset),
            node=str(op),
        )
        if (word := next((word for word in ("rounding", "of which one is") if word in found), None)) is not None:
            scores = replace(scores, hold=found, remedy=_REMEDIES[word])
        return Taken((scores,), f"{many} x {weights.shape[1]} weights that {found}: scores, if it is the last layer")
    return _binary(ctx, op, x, weights, bias, options, (many,), natural((many,)), factor, after)


def _flattened(ctx: Context, op: Op, x: Flow, weights: NDArray[Any]) -> tuple[Flow, NDArray[Any]]:
    """Return the flow as the vector (C H W) that a dense layer reads, and the weights in that order."""
    if len(x.shape) == 1:
        return x, weights
    order = list(chain.from_iterable(x.axes))
    order += [axis for axis in range(len(x.shape)) if axis not in order]
    features = math.prod(x.shape)
    place = np.arange(features).reshape(x.shape).transpose(order).reshape(-1)
    if (place != np.arange(features)).any():
        turned = np.empty_like(weights)
        turned[:, place] = weights
        weights = turned
    if x.layer == INPUT and ctx.build.encoding is None and x.bound is None:
        return replace(x, shape=(features,), axes=((0,),)), weights
    layer = ctx.build.add(op, "flatten", x, {})
    return replace(x, layer=layer, shape=(features,), axes=((0,),)), weights


def _binary(
    ctx: Context,
    op: Op,
    x: Flow,
    weights: NDArray[Any],
    bias: list[Fraction] | None,
    options: Mapping[str, Any],
    shape: tuple[int, ...],
    axes: Any,
    factor: Fraction = Fraction(1),
    after: Fraction = Fraction(1),
) -> Taken:
    """Add a binary layer, with its scales and its bias behind it."""
    is_dense = len(shape) == 1
    then = Sums(x.layer, shape, axes, dense=is_dense)
    reals("its weights", weights[:0])  # their type
    if not np.isfinite(weights).all():
        raise RefusalError("its weights hold NaN or infinite values", "use a network that did not diverge", then)
    found = weights_of(weights)
    if isinstance(found, str):
        remedy = next((text for word, text in _REMEDIES.items() if word in found), "export the network again")
        raise RefusalError(f"its weights {found}", remedy, then)
    if isinstance(x, Scores | Sums):
        what = f" of {x.node}, whose weights {x.hold}" if isinstance(x, Scores) else ""
        raise RefusalError(f"its input are sums{what} without a sign", "put a sign before it", then)
    offset, scales, before = Fraction(0), [Fraction(1)], Fraction(0)
    if isinstance(x, Bits):
        offset, scales = x.offset, [*x.scales]
    elif isinstance(x, Raw):
        try:
            entry = as_real(ctx.build.declared, x, ctx.build.encode)
        except RefusalError as refused:
            raise RefusalError(refused.why, refused.remedy, then) from None
        ctx.build.encode = entry.encode
        ctx.build.note(entry.note)
        before, scales, offset = entry.before, [*entry.factors], entry.after
    if any(x.pads) and offset and isinstance(x, Bits):
        raise RefusalError(
            f"it pads bits that are {_values(x)} with 0, which is neither",
            "use bits that are -s and +s, or no padding",
            then,
        )
    kind = f"{found.kind}_{'linear' if is_dense else 'conv2d'}"
    layer = ctx.build.add(op, kind, replace(x, pads=NO_PADS), options, {"weight": found.numbers})
    totals = [Fraction(int(n)) for n in found.numbers.reshape(len(weights), -1).sum(axis=1, dtype=np.int64)]
    if before:
        layer = ctx.build.shift(op, layer, [before * total for total in totals])
    shift = [factor * offset * total for total in totals]
    layer = _scaled(ctx, op, layer, found.scales, scales, shift, bias, factor, after)
    inputs = weights.shape[1] if is_dense else options["in_channels"]
    window = "" if is_dense else f" {'x'.join(map(str, options['kernel_size']))}"
    what = "dense layer" if is_dense else f"convolution{window}"
    return Taken((replace(then, layer=layer),), f"{found.said(what)}, {inputs} to {shape[0]}{_scale(found.scales)}")


def _values(x: Flow) -> str:
    return " or ".join(f"{float(value):g}" for value in x.values) if isinstance(x, Bits) else "codes"


def _scale(scales: Reals) -> str:
    if (scales == scales[0]).all():
        return "" if scales[0] == 1 else f", weights +-{scales[0]:g}"
    return ", weights with a scale for each channel"


def _scaled(
    ctx: Context,
    op: Op,
    layer: str,
    own: Reals,
    scales: list[Fraction],
    shift: list[Fraction],
    bias: list[Fraction] | None,
    factor: Fraction,
    after: Fraction,
) -> str:
    """Multiply a layer's integers by its scales, and add its bias and what the input's offset comes to."""
    rows = fractions(own)
    rows = rows[:1] if len(set(rows)) == 1 else rows
    layer = ctx.build.multiply(op, layer, [*([scale] for scale in scales), rows, [factor]])
    sized = rows * len(shift) if len(rows) == 1 else rows
    added = [b + s * row for b, s, row in zip(bias or [Fraction(0)] * len(shift), shift, sized, strict=True)]
    if any(added):
        layer = ctx.build.shift(op, layer, added)
    return ctx.build.multiply(op, layer, [[after]])

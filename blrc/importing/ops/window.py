"""Read the window of a convolution or pool, and take pools."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from blrc.errors import BlrcError
from blrc.frontend.kinds.rounding import reach
from blrc.importing.file import Op
from blrc.importing.flow import NO_PADS, Averages, Bits, Flow, Sums, natural
from blrc.importing.folding import axes_of
from blrc.importing.ops.decide import settle
from blrc.importing.ops.record import Args, Context, Taken, flow, ints, optional
from blrc.importing.refusal import RefusalError
from blrc.net.net import INPUT
from blrc.net.shapes import MOST_VALUES
from blrc.net.window import LIMIT, Window, padding_option, pool_window

LYING = ((0,), (2,), ())
"""How a file that has time as the height of its maps sees the axes of a layer over time."""


def spatial(op: Op, x: Flow, kernel: tuple[int, ...]) -> tuple[Flow, Window]:
    """Return a flow as the map (C, H, W) that it is, and the window over it; one dimension is a map of height 1.

    Raises:
        RefusalError: the flow is no map, or its axes have been exchanged, or the window does not fit.
    """
    rank = len(kernel)
    x = as_map(x, rank)
    ones, zeros = (1,) * rank, (0,) * rank
    stride, dilation = ints(op.attributes, "strides", ones), ints(op.attributes, "dilations", ones)
    height, width = (1, *x.dims[1:])[-2:]
    before, beside, behind, beyond = x.pads
    sizes = (before + height + behind, beside + width + beyond)[-rank:]
    mode = str(op.attributes.get("auto_pad", "NOTSET"))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
            for n, s, d, k in zip(sizes, stride, dilation, kernel, strict=True)
        ]
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    elif mode in ("NOTSET", "VALID"):
        pads = ints(op.attributes, "pads", zeros + zeros) if mode == "NOTSET" else zeros + zeros
    else:
        raise RefusalError(f"its auto_pad is {mode[:20]!r}", "export the network again")
    if rank == 1:
        pads = (0, pads[0], 0, pads[1])
        kernel, stride, dilation = (1, *kernel), (1, *stride), (1, *dilation)
    top, left, bottom, right = (own + around for own, around in zip(pads, x.pads, strict=True))
    found = Window(
        (kernel[0], kernel[1]), (stride[0], stride[1]), (top, left, bottom, right), (dilation[0], dilation[1])
    )
    for numbers, least in ((found.kernel, 1), (found.stride, 1), (found.dilation, 1), (found.padding, 0)):
        if not all(least <= n <= LIMIT for n in numbers):
            raise RefusalError(f"its window has sizes {numbers} out of range", "export the network again")
    if min(found.output(height, width)) < 1:
        raise RefusalError(
            f"its kernel {found.kernel} does not fit its input of {height} x {width}",
            "give the input the size it is for",
        )
    if math.prod(found.output(height, width)) * x.dims[0] > MOST_VALUES:
        raise RefusalError(f"its map has more than {MOST_VALUES} values", "make the input smaller")
    return x, found


def as_map(x: Flow, rank: int) -> Flow:
    """Return a flow with a map (C, H, W), whose height is 1 where the file has one dimension."""
    if len(x.axes) != rank + 1:
        raise RefusalError(f"it needs a map of {rank} dimensions, but its input is {('N', *x.dims)}", "export it again")
    if x.layer == INPUT and x.is_natural:
        return replace(x, shape=(x.shape[0], 1, x.shape[1]), axes=((0,), (2,))) if rank == 1 else x
    if is_single(x):
        return x
    wanted = ((0,), (2,)) if rank == 1 else natural(x.shape)
    if len(x.shape) != 3 or not all(mine == theirs or not mine for mine, theirs in zip(x.axes, wanted, strict=True)):
        raise RefusalError(
            f"its input {('N', *x.dims)} was reshaped or has its channels last", "give it a map (N, C, H, W)", then=x
        )
    return x


def is_single(x: Flow) -> bool:
    """Return whether a flow is a vector that the file sees as a map of one position."""
    return len(x.shape) == 1 and x.layer != INPUT and x.axes == ((0,), *[()] * (len(x.axes) - 1))


def max_pool(ctx: Context, op: Op, args: Args) -> Taken:
    """Take MaxPool and GlobalMaxPool of bits or of what a sign follows."""
    x = settle(ctx, op, flow(args))
    if not isinstance(x, Sums | Bits):
        raise RefusalError(
            "it pools what is neither bits nor the sums of a binary layer", "put a binary layer first", x
        )
    if isinstance(x, Bits) and x.scale < 0:
        raise RefusalError("it pools bits that were multiplied by a negative number", "turn them round behind it", x)
    if any(x.pads) and x.fill > least_of(ctx, x):
        what = "zeros were" if not x.fill else f"{float(x.fill):g} was"
        raise RefusalError(f"{what} padded around its input", "use the pool's own padding, or pad with -inf", then=x)
    lying = x.axes == LYING
    op, x = _upright(op, x) if lying else (op, x)
    kernel = x.dims[1:] if op.kind == "GlobalMaxPool" else _kernel(op, x)
    if not 1 <= len(kernel) <= 2:
        raise RefusalError("it pools no map", "use pools of one or two dimensions", then=x)
    x, window = spatial(op, x, kernel)
    if window.dilation != (1, 1):
        raise RefusalError("its window is dilated", "use a pool without dilation", then=x)
    if op.attributes.get("ceil_mode", 0):
        window = _to_the_end(window, x)
    height, width = window.output(*(1, *x.dims[1:])[-2:])
    if is_single(x):
        if (height, width) != (1, 1):
            raise RefusalError("it pads a map of one position to several", "leave it out", then=x)
        return Taken((replace(x, pads=NO_PADS),), "a pool of single values, left out")
    axes = LYING if lying and height == 1 else x.axes
    pooled = replace(x, shape=(x.shape[0], height, width), axes=axes, pads=NO_PADS)
    if window.kernel == (1, 1) and window.stride == (1, 1) and not any(window.padding):
        return Taken((pooled,), "a pool of single values, left out")
    options = {
        "kernel_size": list(window.kernel),
        "stride": list(window.stride),
        "padding": list(padding_option(window.padding)),
    }
    try:
        pool_window("it", **options)
    except BlrcError as error:
        why, _, remedy = str(error).removeprefix("it: ").partition(": ")
        raise RefusalError(f"its {why}", remedy, pooled) from None
    layer = ctx.build.add(op, "plain_pool2d", x, options)
    says = f"max pooling {window.kernel[0]}x{window.kernel[1]}"
    return Taken((replace(pooled, layer=layer),), says)


def average_pool(ctx: Context, op: Op, args: Args) -> Taken:
    """Take AveragePool, GlobalAveragePool, and ReduceMean over a whole map, of bits."""
    held = x = settle(ctx, op, flow(args))
    if not isinstance(held, Bits):
        raise RefusalError("it averages what is not bits", "average behind a sign", then=x)
    if any(x.pads):
        raise RefusalError("numbers were padded around the bits that it averages", "pad before the sign", then=x)
    rank = len(x.dims) - 1
    kernel, flat = x.dims[1:], False
    if op.kind == "AveragePool":
        kernel = _kernel(op, x)
    elif op.kind == "ReduceMean":
        axes = axes_of(op, [None, optional(args, 1, "axes")]) or []
        keep = op.attributes.get("keepdims", 1)
        if not isinstance(keep, int) or keep not in (0, 1):
            raise RefusalError(f"its keepdims is {str(keep)[:40]}", "make it 0 or 1", then=x)
        flat = not keep
        if sorted(axis + (rank + 2 if axis < 0 else 0) for axis in axes) != list(range(2, rank + 2)):
            raise RefusalError(
                f"it averages axes {axes} of {('N', *x.dims)}", "average height and width of maps (N, C, H, W)", then=x
            )
    if not 1 <= rank <= 2:
        raise RefusalError("it averages no map", "use pools of one or two dimensions", then=x)
    x, window = spatial(op, x, kernel)
    left = [(n - k) % s for n, k, s in zip((1, *x.dims[1:])[-2:], window.kernel, window.stride, strict=True)]
    rounds = bool(op.attributes.get("ceil_mode", 0)) and any(left)
    if any(window.padding) or window.dilation != (1, 1) or rounds:
        raise RefusalError(
            "its window is padded, dilated, or rounded up in number", "use plain windows that lie inside the map", x
        )
    if is_single(x):
        alone = replace(x, axes=((0,),)) if flat else x
        return Taken((alone,), "an average of single values, left out")
    size = window.output(*(1, *x.dims[1:])[-2:])
    options = {"kernel_size": list(window.kernel), "stride": list(window.stride), "padding": [0, 0]}
    layer = ctx.build.add(op, "average_pool2d", x, options)
    seen = ((0,),) if flat else x.axes
    taken = Averages(layer, (x.shape[0], *size), seen, scales=held.scales, offset=held.offset)
    return Taken((taken,), f"average pooling {window.kernel[0]}x{window.kernel[1]}")


def _kernel(op: Op, x: Flow) -> tuple[int, ...]:
    """Return a pool's kernel, which has a size for each dimension of its map."""
    held = op.attributes.get("kernel_shape")
    if not isinstance(held, list) or not 1 <= len(held) <= 2:
        raise RefusalError(f"its kernel_shape is {str(held)[:40]}", "use pools of one or two dimensions", then=x)
    return ints(op.attributes, "kernel_shape", (1,) * len(held))


def least_of(ctx: Context, x: Flow) -> Fraction | float:
    """Return a number that no value of a flow lies below."""
    if isinstance(x, Bits):
        return min(x.values)
    found = reach(ctx.build.chain(x.layer)) if isinstance(x, Sums) else []
    return min((low for low, _ in found), default=-math.inf)


def _upright(op: Op, x: Flow) -> tuple[Op, Flow]:
    """Return a pool over the file's maps (C, L, 1) as one over the layer's maps (C, 1, L)."""
    turned = {
        name: [*held[1::-1], *held[:1:-1]]
        for name in ("kernel_shape", "strides", "pads", "dilations")
        if isinstance(held := op.attributes.get(name), list)
    }
    return replace(op, attributes={**op.attributes, **turned}), replace(x, axes=natural(x.shape))


def _to_the_end(window: Window, x: Flow) -> Window:
    """Return a pool's window with the padding at the bottom and right with which a size that is rounded up is exact.

    A last window that would begin behind the map and the padding before it is left out.
    """
    ends = list(window.padding[2:])
    for axis, size in enumerate(x.shape[1:]):
        before, stride = window.padding[axis], window.stride[axis]
        covered = size + before + ends[axis]
        more = -(-(covered - window.span[axis]) // stride)
        more -= more * stride >= size + before
        ends[axis] = max(ends[axis], more * stride + window.span[axis] - size - before)
    return replace(window, padding=(*window.padding[:2], ends[0], ends[1]))

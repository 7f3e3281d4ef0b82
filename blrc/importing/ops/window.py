"""Read the window of a convolution or pool, and take pools."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from blrc.importing.file import Op
from blrc.importing.flow import NO_PADS, Bits, Flow, Pads, Sums, natural
from blrc.importing.ops.decide import settle
from blrc.importing.ops.record import Args, Context, Taken, flow, ints
from blrc.importing.refusal import RefusalError
from blrc.net.net import INPUT
from blrc.net.shapes import MOST_VALUES

LARGEST = 2**15 - 1
"""Of kernels, strides, paddings and dilations, as in `blrc.net.window`."""


@dataclass(frozen=True)
class Spatial:
    """Describe a window over a map (C, H, W): pads are (top, left, bottom, right)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: Pads
    dilation: tuple[int, int]

    def output(self, height: int, width: int) -> tuple[int, int]:
        """Return the size of the output map."""
        top, left, bottom, right = self.pads
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.stride, self.dilation
        return (height + top + bottom - dh * (kh - 1) - 1) // sh + 1, (
            width + left + right - dw * (kw - 1) - 1
        ) // sw + 1

    @property
    def padding(self) -> list[int] | str:
        """Return the padding as layers have it: one number for both sides, or ``same``, which may have one more behind.

        Raises:
            RefusalError: it is neither.
        """
        top, left, bottom, right = self.pads
        if (top, left) == (bottom, right):
            return [top, left]
        around = [d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)]
        before = (around[0] // 2, around[1] // 2)
        after = (around[0] - before[0], around[1] - before[1])
        if self.stride == (1, 1) and (top, left) == before and (bottom, right) == after:
            return "same"
        raise RefusalError(
            f"it pads {top}, {left} before and {bottom}, {right} behind the map, which are not alike",
            "pad both sides alike",
        )


def spatial(op: Op, x: Flow, kernel: tuple[int, ...]) -> tuple[Flow, Spatial]:
    """Return a flow as the map (C, H, W) that it is, and the window over it; one dimension is a map of height 1.

    Raises:
        RefusalError: the flow is no map, or its axes have been exchanged, or the window does not fit.
    """
    rank = len(kernel)
    x = as_map(x, rank)
    ones, zeros = (1,) * rank, (0,) * rank
    stride, dilation = ints(op.attributes, "strides", ones), ints(op.attributes, "dilations", ones)
    height, width = (1, *x.dims[1:])[-2:]
    sizes = (height, width)[-rank:]
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
    found = Spatial(
        (kernel[0], kernel[1]), (stride[0], stride[1]), (top, left, bottom, right), (dilation[0], dilation[1])
    )
    for numbers, least in ((found.kernel, 1), (found.stride, 1), (found.dilation, 1), (found.pads, 0)):
        if not all(least <= n <= LARGEST for n in numbers):
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
    if any(x.pads):
        raise RefusalError("zeros were padded around its input", "use the pool's own padding", then=x)
    if op.kind == "GlobalMaxPool":
        kernel = x.dims[1:]
    else:
        held = op.attributes.get("kernel_shape")
        if not isinstance(held, list) or not 1 <= len(held) <= 2:
            raise RefusalError(f"its kernel_shape is {str(held)[:40]}", "use pools of one or two dimensions", then=x)
        kernel = ints(op.attributes, "kernel_shape", (1,) * len(held))
    if not 1 <= len(kernel) <= 2:
        raise RefusalError("it pools no map", "use pools of one or two dimensions", then=x)
    x, window = spatial(op, x, kernel)
    if window.dilation != (1, 1):
        raise RefusalError("its window is dilated", "use a pool without dilation", then=x)
    height, width = window.output(*(1, *x.dims[1:])[-2:])
    if is_single(x) and (height, width) == (1, 1):
        return Taken((replace(x, pads=NO_PADS),), "a pool of single values, left out")
    if op.attributes.get("ceil_mode", 0) and _is_cut(window, x):
        raise RefusalError("it rounds the size of its map up (ceil_mode)", "use ceil_mode=0, or pad", then=x)
    pooled = replace(x, shape=(x.shape[0], height, width), pads=NO_PADS)
    if window.kernel == (1, 1) and window.stride == (1, 1) and not any(window.pads):
        return Taken((pooled,), "a pool of single values, left out")
    padding = window.padding
    if isinstance(padding, str) or any(2 * pad > size for pad, size in zip(padding, window.kernel, strict=True)):
        raise RefusalError(f"it pads {window.pads}", "pad both sides alike, by at most half of the kernel", then=pooled)
    options = {"kernel_size": list(window.kernel), "stride": list(window.stride), "padding": padding}
    layer = ctx.build.add(op, "plain_pool2d", x, options)
    says = f"max pooling {window.kernel[0]}x{window.kernel[1]}"
    return Taken((replace(pooled, layer=layer),), says)


def _is_cut(window: Spatial, x: Flow) -> bool:
    top, left, bottom, right = window.pads
    spans = (x.shape[1] + top + bottom - window.kernel[0], x.shape[2] + left + right - window.kernel[1])
    return any(span % stride for span, stride in zip(spans, window.stride, strict=True))

"""Take what only changes how a tensor lies or what type it has: reshapes, transposes, casts, pads."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.declared import Declared
from blrc.importing.file import Op
from blrc.importing.flow import (
    Answer,
    Bits,
    Constant,
    Flow,
    Raw,
    Signed,
    Sums,
    Test,
    natural,
    reshaped,
)
from blrc.importing.folding import axes_of, part_of_shape
from blrc.importing.ops.decide import settle
from blrc.importing.ops.record import Args, Context, Taken, constant, flow, optional, scalar
from blrc.importing.ops.window import least_of
from blrc.importing.refusal import RefusalError
from blrc.net.net import INPUT

_WIDE = (1, 11)
"""ONNX's numbers of float32 and float64."""
HALF_DIGITS = 11
_NARROW = {10: HALF_DIGITS, 16: 8}
"""ONNX's numbers of float16 and bfloat16, with their binary digits."""
_TYPES = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 12: "uint32", 13: "uint64"}
"""ONNX's numbers of integers."""
_INTEGERS = tuple(_TYPES)
_SIGNED = (*_NARROW, 3, 5, 6, 7)
"""Types that hold -1, 0 and 1."""


def same(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Identity."""
    held = args[0] if args else None
    if not isinstance(held, Flow | Answer):
        return Taken((flow(args),), "")
    return Taken((held,), "nothing to do")


def dropout(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Dropout, which does nothing after training."""
    if (mode := optional(args, 2, "training_mode")) is not None and mode.any():
        raise RefusalError("it drops values, in training mode", "export the network in evaluation mode", flow(args))
    return same(ctx, op, args)


def cast(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Cast: between floats, from a comparison to numbers, and of integers."""
    held = args[0] if args else None
    if isinstance(held, Answer):
        return Taken((held,), "nothing to do")
    x, to = flow(args), op.attributes.get("to")
    if isinstance(x, Test) and to in (*_WIDE, *_NARROW, *_INTEGERS):
        return Taken((settle(ctx, op, x),), "bits: 0 or 1")
    if to in _WIDE:
        return Taken((replace(x, integer=False) if isinstance(x, Raw) else x,), "nothing to do")
    if isinstance(x, Signed) and not x.offset and to in _SIGNED:
        return Taken((x,), "nothing to do")
    x = settle(ctx, op, x)
    if to in _INTEGERS and isinstance(x, Bits):
        kind = np.iinfo(_TYPES[to])
        if all(value.denominator == 1 and kind.min <= value <= kind.max for value in x.values):
            return Taken((x,), "nothing to do")
    if to in _NARROW and isinstance(x, Bits | Raw) and _fits(x, _NARROW[to], ctx.build.declared):
        if isinstance(x, Raw):
            kept = None if x.seen is None else x.seen.astype(np.float16)
            x = replace(x, integer=False, seen=kept)
        return Taken((x,), "nothing to do")
    raise RefusalError("it casts to a type that rounds", "cast to float32", then=x)


def _fits(x: Bits | Raw, digits: int, declared: Declared | None) -> bool:
    """Return whether a float of so many digits holds every value, and what follows computes as the file does."""
    if isinstance(x, Bits):
        return all(_has(value, digits) for value in x.values)
    if declared is None or (
        x.seen is not None and (digits < HALF_DIGITS or (x.seen != x.seen.astype(np.float16)).any())
    ):
        return False
    if x.seen is not None:
        return True
    scale = Fraction(declared.scale)
    values = ((x.factor * (code / scale) + x.offset).reshape(-1) for code in (-128, -127, 127))
    return scale == 1 and all(value.denominator == 1 and _has(value, digits) for row in values for value in row)


def _has(number: Fraction, digits: int) -> bool:
    """Return whether a float of so many binary digits holds a number exactly, of 2^-14 to 2^15 in size."""
    if not number:
        return True
    top = number.numerator // (number.numerator & -number.numerator)
    power_of_two = not number.denominator & (number.denominator - 1)
    return power_of_two and abs(top).bit_length() <= digits and Fraction(1, 2**14) <= abs(number) <= 2**15


def shape(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Shape, whose result is a constant."""
    x = flow(args)
    dims = np.array([ctx.batch, *padded(x)], dtype=np.int64)
    return Taken((Constant(dims[part_of_shape(op)]),), "arithmetic on shapes")


def padded(x: Flow) -> tuple[int, ...]:
    """Return the file's sizes after the batch, with pending pads."""
    return tuple(
        size if (side := _side(x, axis)) is None else size + x.pads[side] + x.pads[side + 2]
        for axis, size in enumerate(x.dims)
    )


def _side(x: Flow, axis: int) -> int | None:
    """Return 0 for an axis of the file that is a map's height, 1 for its width, and None for any other."""
    behind = len(x.shape) - 1
    group = x.axes[axis]
    return group[0] - behind + 1 if len(group) == 1 and group[0] in (behind - 1, behind) and group[0] else None


def reshape(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Reshape that keeps the batch, and flattens or adds axes of size 1."""
    if isinstance(args[0], Answer):
        return Taken((args[0],), "nothing to do")
    x = flow(args)
    wanted = [int(n) for n in constant(args, 1, "shape").reshape(-1)]
    old = [ctx.batch, *x.dims]
    if not op.attributes.get("allowzero", 0):
        wanted = [old[i] if n == 0 and i < len(old) else n for i, n in enumerate(wanted)]
    total, known = math.prod(old), math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0 and total % known == 0:
        wanted[wanted.index(-1)] = total // known
    if not wanted or min(wanted) < 1 or math.prod(wanted) != total or wanted[0] != ctx.batch:
        raise RefusalError(
            f"it reshapes {('N', *x.dims)} to {tuple(wanted)}, which mixes samples",
            "keep the batch as the first axis when you reshape",
            then=x,
        )
    return _laid(x, tuple(wanted[1:]))


def flatten(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Flatten of all axes but the batch."""
    if isinstance(args[0] if args else None, Answer):
        return same(ctx, op, args)
    x = flow(args)
    axis = op.attributes.get("axis", 1)
    if axis not in (1, -len(x.dims)):
        raise RefusalError(f"it flattens from axis {str(axis)[:20]} on", "flatten from axis 1 on", then=x)
    return _laid(x, (math.prod(x.dims),))


def squeeze(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Squeeze of axes of size 1."""
    if isinstance(args[0] if args else None, Answer):
        return same(ctx, op, args)
    x = flow(args)
    axes = axes_of(op, [None, optional(args, 1, "axes")])
    dims = [ctx.batch, *x.dims]
    if axes is None:
        axes = [i for i, n in enumerate(dims) if n == 1 and i]
    gone = {axis % len(dims) if -len(dims) <= axis < len(dims) else 0 for axis in axes}
    if 0 in gone or any(dims[axis] != 1 for axis in gone):
        raise RefusalError(f"it squeezes axes {axes} of {('N', *x.dims)}", "squeeze axes of size 1 only", then=x)
    return _laid(x, tuple(n for i, n in enumerate(dims) if i and i not in gone))


def unsqueeze(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Unsqueeze behind the batch."""
    x = flow(args)
    axes = axes_of(op, [None, optional(args, 1, "axes")]) or []
    rank = len(x.dims) + 1 + len(axes)
    placed = sorted({axis % rank if -rank <= axis < rank else 0 for axis in axes})
    if len(placed) != len(axes) or 0 in placed or rank > 5:
        raise RefusalError(f"it adds axes {axes} to {('N', *x.dims)}", "keep the batch as the first axis", then=x)
    dims = list(x.dims)
    for axis in placed:
        dims.insert(axis - 1, 1)
    return _laid(x, tuple(dims))


def _laid(x: Flow, dims: tuple[int, ...]) -> Taken:
    if dims == x.dims:
        return Taken((x,), "nothing to do")
    if any(x.pads):
        raise RefusalError("zeros were padded around what it reshapes", "pad directly before a convolution", then=x)
    says = f"({', '.join(map(str, ('N', *dims)))})"
    if isinstance(x, Signed | Test):  # what it decides lies as it does
        base = _laid(replace(x.base, axes=x.axes), dims).outputs[0]
        assert isinstance(base, Flow)
        return Taken((replace(x, shape=base.shape, axes=base.axes, base=base),), says)
    if isinstance(x, Bits) and x.bound is not None:
        return Taken((reshaped(_channels_first(x), dims),), says)
    if x.layer == INPUT and x.is_natural and isinstance(x, Raw | Bits):
        if isinstance(x, Raw):
            x = _constants(x, dims)
        return Taken((replace(x, shape=dims, axes=natural(dims)),), says)
    return Taken((reshaped(x, dims),), says)


def _channels_first(x: Bits) -> Bits:
    """Return bits of the raw input as the file sees them, whose thresholds lie along the first axis of the input."""
    if not x.bound:
        return x
    order = [x.bound, *(axis for axis in range(len(x.shape)) if axis != x.bound)]
    axes = tuple((order.index(axis),) for axis in range(len(order)))
    return replace(x, shape=tuple(x.shape[axis] for axis in order), axes=axes, bound=0)


def _constants(x: Raw, dims: tuple[int, ...]) -> Raw:
    if x.bound is not None or x.factor.size > 1 or x.offset.size > 1 or (x.seen is not None and x.seen[0].size > 1):
        raise RefusalError(
            "it reshapes an input that has another scale for each channel",
            "scale behind the reshape, or all alike",
            then=x,
        )
    ones = (1,) * len(dims)
    seen = None if x.seen is None else x.seen.reshape(-1, *ones)
    return replace(x, factor=x.factor.reshape(ones), offset=x.offset.reshape(ones), seen=seen)


def transpose(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Transpose that keeps the batch first, such as between channels first and last."""
    if isinstance(args[0] if args else None, Answer):
        return same(ctx, op, args)
    x = flow(args)
    rank = len(x.dims) + 1
    perm: Any = op.attributes.get("perm", list(range(rank))[::-1])
    if not isinstance(perm, list) or sorted(perm) != list(range(rank)) or perm[0] != 0:
        raise RefusalError(f"its perm {str(perm)[:40]} moves the batch", "keep the batch as the first axis", then=x)
    if isinstance(x, Signed | Test):
        made = transpose(ctx, op, [replace(x.base, axes=x.axes)])
        base = made.outputs[0]
        assert isinstance(base, Flow)
        return replace(made, outputs=(replace(x, shape=base.shape, axes=base.axes, base=base),))
    order = [axis - 1 for axis in perm[1:]]
    says = f"axes in the order {', '.join(map(str, perm))}"
    if x.layer == INPUT and x.is_natural and isinstance(x, Raw | Bits):
        if any(x.pads):
            raise RefusalError("zeros were padded around what it transposes", "transpose before you pad", then=x)
        if isinstance(x, Raw):
            x = replace(x, factor=x.factor.transpose(order), offset=x.offset.transpose(order))
            seen = None if x.seen is None else x.seen.transpose(0, *perm[1:])
            x = replace(x, seen=seen)
        bound = None if x.bound is None else order.index(x.bound)
        return Taken((replace(x, shape=tuple(x.shape[axis] for axis in order), bound=bound),), says)
    return Taken((replace(x, axes=tuple(x.axes[axis] for axis in order)),), says)


def pad(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Pad around height and width, which the next convolution or pool takes over."""
    x = settle(ctx, op, flow(args))
    held = op.attributes.get("pads")
    sizes = [int(n) for n in constant(args, 1, "pads").reshape(-1)] if held is None else held
    given = optional(args, 2, "value") if held is None else None
    value = _filling(np.array(op.attributes.get("value", 0.0)) if given is None or not given.size else given)
    rank = len(x.dims) + 1
    if optional(args, 3, "axes") is not None or len(sizes) != 2 * rank or min(sizes) < 0 or rank not in (3, 4):
        raise RefusalError("it pads by negative numbers, or only some axes", "pad height and width", then=x)
    before, after = sizes[:rank], sizes[rank:]
    if not any(sizes):
        return Taken((x,), "nothing to do")
    if str(op.attributes.get("mode", "constant")) != "constant":
        raise RefusalError(f"it pads by mode {op.attributes['mode']!r}", "pad with zeros", then=x)
    if any(x.pads) and x.fill != value:
        raise RefusalError("it pads with another number than the Pad before it", "pad with one number", then=x)
    around = list(x.pads)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        side = _side(x, axis - 1) if axis else None
        if side is not None:
            around[side] += first
            around[side + 2] += last
        elif first or last:
            raise RefusalError("it pads the batch or the channels", "pad height and width", then=x)
    fill = value if math.isinf(value) else Fraction(value)
    padded_map = replace(x, pads=(around[0], around[1], around[2], around[3]), fill=fill)
    if isinstance(x, Bits | Sums) and value <= least_of(ctx, x):
        return Taken((padded_map,), f"{value:g} that the next pool or convolution takes over")
    centred = not x.offset if isinstance(x, Bits) else isinstance(x, Raw) and not any(x.offset.reshape(-1))
    if not (centred and not value) and not (isinstance(x, Bits) and fill in x.values):
        raise RefusalError(
            f"it pads with {value:g}, and only zeros around bits -s and +s or around the raw input, one of the two "
            "values of bits, and -inf before max pooling are taken",
            "pad bits, behind the sign, with 0 or with one of their values",
            then=replace(padded_map, fill=0),
        )
    return Taken((padded_map,), f"{'zeros' if not value else f'{value:g}'} that the next convolution takes over")


def _filling(given: NDArray[Any]) -> float:
    """Return the number that a Pad puts around a map, which is -inf where float32 holds no lower number."""
    held = np.asarray(given, dtype=np.float64)
    if np.isnan(held).any():
        raise RefusalError("its value is NaN", "pad with a number")
    found = scalar("value", held)
    return -math.inf if found <= float(np.finfo(np.float32).min) else found

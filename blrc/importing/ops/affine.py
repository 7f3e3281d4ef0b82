"""Take arithmetic with constants: multiplication, addition and their inverses, and norms."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.file import Op
from blrc.importing.flow import Bits, Constant, Flow, Raw, Scores, Signed, Sums, Value, along, by_channel
from blrc.importing.numbers import Reals, fractions, reals
from blrc.importing.ops.decide import settle
from blrc.importing.ops.record import Args, Context, Taken, check_unpadded, constant, flow, number
from blrc.importing.refusal import RefusalError

MOST_ROWS = 2**14
"""Values of a constant that is added to the raw input: a mean image is none, but each channel's mean is."""


def arithmetic(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Mul, Div, Add and Sub of a flow and a constant, in either order."""
    if len(args) != 2 or args[0] is None or args[1] is None:
        raise RefusalError(f"it has {len(args)} inputs", "export the network again")
    if isinstance(args[0], Flow) and isinstance(args[1], Flow):
        raise RefusalError(
            "it joins two branches, such as a shortcut or a scale computed from the input",
            "networks are chains of layers; train one without shortcuts",
            then=args[0],
        )
    turned = isinstance(args[0], Constant)
    x = flow(args, 1 if turned else 0)
    given = constant(args, 0 if turned else 1, "constant")
    held = reals("its constant", given)
    if op.kind == "Div" and turned:
        raise RefusalError("it divides a constant by what is computed", "use a scale that is a constant", then=x)
    if op.kind == "Div" and not held.all():
        raise RefusalError("it divides by 0", "use a norm or a scale that is not 0", then=x)
    if given.dtype.kind != "f" and op.kind == "Div":
        raise RefusalError("it divides integers, which rounds", _CAST, then=x)
    made = _computed(ctx, op, x, held, turned)
    if given.dtype.kind in "iu":
        _check_wrap(made.outputs[0], np.iinfo(given.dtype), ctx.build.declared is None)
    return made


def _computed(ctx: Context, op: Op, x: Flow, held: Reals, turned: bool) -> Taken:
    if op.kind == "Mul":
        return _taken(multiply(ctx, op, x, held), "a factor", held)
    if op.kind == "Div":
        return _taken(multiply(ctx, op, x, held, inverse=True), "a divisor", held)
    if op.kind == "Sub" and turned:
        x = multiply(ctx, op, x, np.array(-1.0))
    by = -held if op.kind == "Sub" and not turned else held
    return _taken(add(ctx, op, x, by), "a shift", by)


_CAST = "cast to float32 before it"


def _check_wrap(x: Value, kind: np.iinfo[Any], unknown: bool) -> None:
    """Refuse the result of integer arithmetic that may wrap around, or may come from what wrapped around.

    Args:
        kind: the range of the file's type.
        unknown: whether nobody said what the raw input is, so that it can be any integer.
    """
    if isinstance(x, Bits) and not any(x.pads):
        ends = x.values
    elif isinstance(x, Raw) and not unknown:
        reached = [*(x.factor * -128 + x.offset).flat, *(x.factor * 255 + x.offset).flat]  # of codes and pixels
        ends = (min(reached), max(reached))
    else:
        raise RefusalError("it computes with integers, which may wrap around", _CAST, then=x)
    if not all(kind.min <= end <= kind.max for end in ends):
        raise RefusalError(f"its integers may wrap around beyond {kind.min} and {kind.max}", _CAST, then=x)


def negate(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Neg."""
    x = flow(args)
    if isinstance(x, Raw) and x.integer:
        raise RefusalError("it negates integers, whose least one wraps around", _CAST, then=x)
    return Taken((multiply(ctx, op, x, np.array(-1.0)),), "a factor of -1")


def _taken(x: Flow, what: str, held: Reals) -> Taken:
    few = f"{what} {held.reshape(-1)[0]:g}" if held.size == 1 else f"{what} for each of {held.size} channels"
    return Taken((x,), f"{few}, exact")


def multiply(ctx: Context, op: Op, x: Flow, held: Reals, inverse: bool = False) -> Flow:
    """Multiply a flow by a constant, or divide it."""
    if isinstance(x, Signed) or not isinstance(x, Raw | Bits | Sums | Scores):
        x = settle(ctx, op, x)
    if isinstance(x, Raw):
        by = _fitted(x, held)
        factor = _rational(by, inverse)
        seen = None
        if x.seen is not None:
            seen = x.seen / by.astype(x.seen.dtype) if inverse else x.seen * by.astype(x.seen.dtype)
        return replace(x, factor=x.factor * factor, offset=x.offset * factor, seen=seen)
    row = by_channel("its constant", x, held)
    if isinstance(x, Scores):
        column = 1 / row if inverse else row
        return replace(x, weights=x.weights * column[:, None], bias=x.bias * column)
    rows = [1 / number if inverse else number for number in fractions(row)]
    if isinstance(x, Sums):
        check_unpadded(x)
        return replace(x, layer=ctx.build.multiply(op, x.layer, [rows]))
    assert isinstance(x, Bits)
    if len(set(rows)) > 1:
        raise RefusalError(
            "it gives the bits of each channel another size, so that the next layer's sums are no integers",
            "use one scale for all channels, or a scale behind the next layer",
            then=x,
        )
    if not rows[0]:
        raise RefusalError("it multiplies bits by 0", "leave out what is constant", then=x)
    fill = x.fill * rows[0] if any(x.pads) else 0
    return replace(x, scales=(*x.scales, rows[0]), offset=x.offset * rows[0], fill=fill)


def add(ctx: Context, op: Op, x: Flow, held: Reals) -> Flow:
    """Add a constant to a flow."""
    if isinstance(x, Signed) and held.size and (held == held.reshape(-1)[0]).all():
        return replace(x, offset=x.offset + Fraction(float(held.reshape(-1)[0])))
    if isinstance(x, Signed) or not isinstance(x, Raw | Bits | Sums | Scores):
        x = settle(ctx, op, x)
    if isinstance(x, Raw):
        if any(x.pads) and held.any():
            raise RefusalError("it adds to an input that was padded with zeros", "pad behind it", then=x)
        if x.bent and x.seen is None and held.any():
            raise RefusalError(f"it adds to the raw input behind {x.bent}", "add before the clip", then=x)
        by = _fitted(x, held)
        seen = None if x.seen is None else x.seen + by.astype(x.seen.dtype)
        return replace(x, offset=x.offset + _rational(by), seen=seen)
    row = by_channel("its constant", x, held)
    if isinstance(x, Scores):
        return replace(x, bias=x.bias + row)
    rows = fractions(row)
    if isinstance(x, Sums):
        check_unpadded(x)
        return replace(x, layer=ctx.build.shift(op, x.layer, rows))
    assert isinstance(x, Bits)
    if len(set(rows)) > 1:
        raise RefusalError("it shifts the bits of each channel by another number", "shift all alike", then=x)
    if any(x.pads) and rows[0]:
        raise RefusalError("it adds to bits that were padded", "pad behind it", then=x)
    return replace(x, offset=x.offset + rows[0])


def _fitted(x: Raw, held: Reals) -> Reals:
    """Return a constant with as many axes as the raw input, after the batch."""
    dims = x.dims
    if held.size > 1 and (held == held.reshape(-1)[0]).all():
        held = held.reshape(-1)[:1]
    if held.ndim == len(dims) + 1 and held.shape[0] == 1:
        held = held[0]
    fits = held.ndim <= len(dims) and all(n in (1, size) for n, size in zip(held.shape[::-1], dims[::-1], strict=False))
    if fits or held.size == 1:
        many = math.prod(np.broadcast_shapes(held.shape, x.factor.shape, x.offset.shape))
        if many > MOST_ROWS:
            raise RefusalError(
                f"the raw input would have {many} scales or shifts of its own, and at most {MOST_ROWS} are taken",
                "give one value for each channel; subtract a mean image before the network",
                then=x,
            )
    else:
        raise RefusalError(
            f"its constant of the shape {held.shape} does not belong to the channels of the input {('N', *dims)}",
            "give one value for each channel; subtract a mean image before the network",
            then=x,
        )
    shape = () if held.size == 1 else held.shape
    return held.reshape((1,) * (len(dims) - len(shape)) + shape)


def _rational(held: Reals, inverse: bool = False) -> NDArray[Any]:
    found = np.empty(held.shape, dtype=object)
    found.reshape(-1)[:] = [1 / number if inverse else number for number in fractions(held.reshape(-1))]
    return found


def norm(ctx: Context, op: Op, args: Args) -> Taken:
    """Take BatchNormalization with the statistics of training."""
    if op.attributes.get("training_mode", 0) or not op.attributes.get("spatial", 1):
        raise RefusalError("it is a norm in training mode", "export the network in evaluation mode", then=flow(args))
    x = settle(ctx, op, flow(args))
    eps = number(op.attributes, "epsilon", 1e-5)
    names = ("scale", "bias", "mean", "variance")
    gamma, beta, mean, variance = (
        along(f"its {name}", x, reals(f"its {name}", constant(args, i, name)).reshape(-1))
        for i, name in enumerate(names, start=1)
    )
    if eps < 0 or (variance + eps <= 0).any():
        raise RefusalError(
            "its variance + epsilon is not positive in every channel, so it divides by zero",
            "train with an epsilon > 0",
            x,
        )
    channels = max(map(len, (gamma, beta, mean, variance)))
    if not isinstance(x, Sums):
        return Taken((_folded(ctx, op, x, (gamma, beta, mean, variance), eps),), f"a norm of {channels} channels")
    check_unpadded(x)
    many = x.shape[0]
    rows = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": variance}
    tensors: dict[str, NDArray[Any]] = {key: np.broadcast_to(row, (many,)).copy() for key, row in rows.items()}
    tensors["num_batches_tracked"] = np.array(0, dtype=np.int64)
    kind = "plain_norm2d" if len(x.shape) == 3 else "plain_norm1d"
    options = {"num_features": many, "eps": eps, "momentum": 0.1, "affine": True}
    turned = int((gamma < 0).sum())
    says = f"a norm of {many} channels with its own statistics" + (
        f", {turned} with a negative scale" if turned else ""
    )
    return Taken((replace(x, layer=ctx.build.add(op, kind, x, options, tensors)),), says)


def _folded(ctx: Context, op: Op, x: Flow, rows: tuple[Reals, Reals, Reals, Reals], eps: float) -> Flow:
    """Return a norm as arithmetic, exact where the root of its variance is; x - mean is 0 where it is in the file."""
    tail = (-1, *[1] * (len(x.dims) - 1))
    gamma, beta, mean, variance = (row.reshape(tail) for row in rows)
    spread = np.sqrt(variance + eps)
    exact = all(
        Fraction(float(root)) ** 2 == Fraction(float(value)) + Fraction(eps)
        for root, value in zip(spread.reshape(-1), variance.reshape(-1), strict=True)
    )
    if isinstance(x, Bits) and not exact:
        return _normed_bits(x, (gamma, beta, mean, variance), eps)
    made = add(ctx, op, x, -mean)
    made = multiply(ctx, op, multiply(ctx, op, made, gamma), spread, inverse=True)
    made = add(ctx, op, made, beta)
    if not isinstance(x, Raw) or x.seen is None or not isinstance(made, Raw):
        return made
    kind: Any = np.float64 if x.seen.dtype == np.float64 else np.float32
    return replace(made, seen=_normed(x.seen.astype(kind), (gamma, beta, mean, variance), eps).astype(x.seen.dtype))


def _normed(values: NDArray[Any], rows: tuple[Reals, Reals, Reals, Reals], eps: float) -> NDArray[Any]:
    """Return a norm of values as ONNX Runtime computes it: a factor and a shift for each channel, computed before."""
    kind: Any = values.dtype.type
    gamma, beta, mean, variance = (row.astype(kind) for row in rows)
    factor = gamma * (kind(1) / np.sqrt(variance + kind(eps)))
    return np.asarray(values * factor + (beta - mean * factor))


def _normed_bits(x: Bits, rows: tuple[Reals, Reals, Reals, Reals], eps: float) -> Bits:
    """Return the two float32 that a norm makes of bits.

    Raises:
        RefusalError: they are others in each channel, or the same.
    """
    if any(x.pads):
        raise RefusalError("it is a norm of bits that were padded with zeros", "pad behind it", then=x)
    low, high = (np.unique(_normed(np.full(1, float(value), dtype=np.float32), rows, eps)) for value in x.values)
    if len(low) > 1 or len(high) > 1 or low[0] == high[0]:
        raise RefusalError(
            "it is a norm of bits that gives each channel other values, or both bits the same",
            "put the norm before the sign, or give all channels the same",
            then=x,
        )
    ends = [Fraction(float(end[0])) for end in (low, high)]
    return replace(x, scales=((ends[1] - ends[0]) / 2,), offset=(ends[0] + ends[1]) / 2)

"""Take quantisers and comparisons, in the spellings of QONNX, FINN and plain ONNX."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from blrc.frontend.kinds.rounding import step_of
from blrc.importing.file import Op
from blrc.importing.flow import Bits, Constant, Flow, Levels, Raw, Scores, Signed, Sums, Test, along
from blrc.importing.folding import fold
from blrc.importing.inputs import as_codes
from blrc.importing.numbers import reals
from blrc.importing.ops.affine import add
from blrc.importing.ops.decide import HALF, decide, settle
from blrc.importing.ops.record import Args, Context, Taken, check_unpadded, constant, flow, number, scalar
from blrc.importing.quantisers import ROUNDINGS, rounding_of, steps_of
from blrc.importing.refusal import RefusalError
from blrc.net.choices import MOST_BITS

_FROM_0 = "+1 from 0 on, else -1"


def sign(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Sign, whose value at 0 is 0, unless the nodes behind it decide otherwise."""
    x = flow(args)
    if isinstance(x, Signed | Test):
        return Taken((decide(ctx, op, x),), "a sign")
    if isinstance(x, Bits):
        if Fraction(0) in x.values:
            raise RefusalError(
                "one of the two values of its input is 0, whose sign is 0", "use a sign that gives +-1", x
            )
        return Taken((decide(ctx, op, x),), "a sign of bits")
    if ctx.build.ends_in(x.layer, "relu"):  # Larq's heaviside
        return Taken((Test(x.layer, x.shape, x.axes, base=x, strict=True),), "1 above 0, else 0")
    return Taken((Signed(x.layer, x.shape, x.axes, base=x, op=op),), "a sign with sign(0) = 0")


def bipolar_quant(ctx: Context, op: Op, args: Args) -> Taken:
    """Take QONNX's BipolarQuant: +scale where x >= 0, else -scale."""
    scale = Fraction(_scale(args))
    return Taken((decide(ctx, op, flow(args), scale, -scale),), f"bits: {_FROM_0}" + _times(scale))


def _scale(args: Args) -> float:
    scale = scalar("scale", reals("its scale", constant(args, 1, "scale")))
    if scale <= 0:
        raise RefusalError(f"its scale is {scale:g}, which is not positive", "export the network again", then=None)
    return scale


def _times(scale: Fraction) -> str:
    return "" if scale == 1 else f", times {float(scale):g}"


def quant(ctx: Context, op: Op, args: Args) -> Taken:
    """Take QONNX's Quant: of one bit, of several behind sums, and of up to eight where it quantises the raw input."""
    x, scale = flow(args), _scale(args)
    width = reals("its bit width", constant(args, 3, "bit width"))
    step = Fraction(scale)
    low, high = steps_of(op, width)
    if scalar("zero point", reals("its zero point", constant(args, 2, "zero point"))):
        raise RefusalError("its zero point is not 0", "use symmetric quantisers", then=_as_if(x, step))
    if low == high:
        raise RefusalError("it always gives 0, since it is unsigned and narrow", "use narrow=0", then=_as_if(x, step))
    if width.reshape(-1)[0] == 1:
        return _one_bit(ctx, op, x, step, high - low == 2, rounding_of(op))
    if isinstance(x, Raw):
        made = as_codes(ctx.build.declared, x, step, low, high, ROUNDINGS[rounding_of(op)])
        found, ctx.build.declared, ctx.build.encode, note = made
        ctx.build.note(note)
        return Taken((found,), f"int8 codes, times {scale:g}")
    return levels(ctx, op, x, step, low, high, ROUNDINGS[rounding_of(op)] is np.round)


def levels(ctx: Context, op: Op, x: Flow, step: Fraction, low: int, high: int, even: bool) -> Taken:
    """Take a quantiser of several bits behind sums: whole numbers of steps, whose ties go to even ones.

    Raises:
        RefusalError: it is another one, or does not follow the sums of a layer.
    """
    x = settle(ctx, op, x)
    found = Levels(x.layer, x.shape, x.axes, least=low * step, most=high * step)
    if not isinstance(x, Sums):
        decide(ctx, op, x) if isinstance(x, Scores) else None  # says why not
        raise RefusalError(
            "it quantises what is no sum of a layer", "quantise once, behind a layer", then=_as_if(x, step)
        )
    check_unpadded(x)
    if not even:
        raise RefusalError("it rounds up or down alone", "round to the nearest number (ROUND)", then=found)
    if not low <= 0 <= high or high - low >= 2**MOST_BITS:
        raise RefusalError(
            f"it gives {high - low + 1} levels, from {low} to {high}",
            f"use at most {MOST_BITS} bits and a zero point of 0",
            then=found,
        )
    if float(step) != float(np.float32(float(step))):
        raise RefusalError("its scale is no float32", "store it as float32", then=found)
    held = {"step": np.array(float(step), np.float32)}
    layer = ctx.build.add(op, "even_levels", x, {"low": low, "high": high}, held)
    return Taken((replace(found, layer=layer),), f"levels from {low} to {high}, times {float(step):g}")


def _as_if(x: Flow, scale: Fraction) -> Flow:
    """Return the bits that a refused quantiser stands for, so that what follows it is looked at."""
    return x if isinstance(x, Raw | Bits) else Bits(x.layer, x.shape, x.axes, scales=(scale,))


def _one_bit(ctx: Context, op: Op, x: Flow, step: Fraction, signed: bool, rounding: str) -> Taken:
    if signed:
        return Taken((decide(ctx, op, x, step, -step),), f"bits: {_FROM_0}" + _times(step))
    # Rounded to 0 or 1: from 1/2 on, but 1/2 itself becomes 0, which is even.
    at = {"FLOOR": step, "CEIL": Fraction(0)}.get(rounding, step * HALF)
    held = add(ctx, op, settle(ctx, op, x), np.array(-float(at)))
    decided = decide(ctx, op, held, step, Fraction(0), strict=rounding != "FLOOR")
    return Taken(
        (decided,), f"bits: 1 {'from' if rounding == 'FLOOR' else 'above'} {float(at):g}, else 0" + _times(step)
    )


def rounded(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Round, Floor and Ceil where a clip before it leaves two whole numbers."""
    x = settle(ctx, op, flow(args))
    if isinstance(x, Bits):
        return Taken((two_values(op, x, ()),), "rounded bits")
    if isinstance(x, Raw) and x.seen is not None:
        seen = np.asarray(fold(op, [x.seen]), dtype=x.seen.dtype)
        low, high = (Fraction(float(end)) for end in (seen.min(), seen.max()))
        if len(np.unique(seen)) == 2:
            middle = seen - seen.dtype.type(float((low + high) / 2))
            return Taken((decide(ctx, op, replace(x, seen=middle), high, low),), _or(low, high))
    step = step_of(op.kind.lower(), ctx.build.chain(x.layer)) if isinstance(x, Sums) else None
    if step is None:
        raise RefusalError(
            "it rounds values that no clip before it keeps between two whole numbers, so that more than two may come "
            "out",
            "clip before it, as in round(clip((x + 1) / 2, 0, 1)), or use a sign",
            then=_as_if(x, HALF),
        )
    moved = add(ctx, op, x, np.array(-float(step.at)))
    low, high = Fraction(step.low), Fraction(step.low + 1)
    return Taken((decide(ctx, op, moved, high, low, step.strict),), _or(low, high))


def _or(low: Fraction, high: Fraction) -> str:
    return f"bits: {float(high):g} or {float(low):g}"


def multi_threshold(ctx: Context, op: Op, args: Args) -> Taken:
    """Take FINN's MultiThreshold with one step: out_scale [x >= t] + out_bias."""
    x = settle(ctx, op, flow(args))
    steps = reals("its thresholds", constant(args, 1, "thresholds"))
    scale, bias = (Fraction(number(op.attributes, f"out_{name}", d)) for name, d in (("scale", 1.0), ("bias", 0.0)))
    if steps.ndim != 2 or not steps.size:
        raise RefusalError(f"its thresholds have the shape {steps.shape}, not (channels, 1)", "export it again", then=x)
    if steps.shape[1] != 1:
        raise RefusalError(
            f"it has {steps.shape[1]} thresholds for each channel, so it gives {steps.shape[1] + 1} levels, and only "
            "bits are taken",
            "train the network with 1-bit activations",
            then=_as_if(x, scale / 2),
        )
    last = str(op.attributes.get("data_layout", "NCHW")).endswith("C")
    axis = len(x.dims) if last else 1
    if isinstance(x, Raw):
        held = steps[:, 0].reshape(-1, *[1] * (len(x.dims) - axis))
    else:
        rows = along("its thresholds", x, steps[:, 0], axis)
        axis = x.axes.index((0,)) if (0,) in x.axes else 0
        held = rows.reshape(-1, *[1] * (len(x.dims) - 1 - axis)) if len(rows) > 1 else rows
    moved = add(ctx, op, x, -held)
    return Taken((decide(ctx, op, moved, scale + bias, bias),), "bits: a threshold for each channel")


_COMPARISONS = {
    "GreaterOrEqual": (False, False),
    "Greater": (True, False),
    "Less": (False, True),
    "LessOrEqual": (True, True),
}
"""Tell whether x > 0 is asked rather than x >= 0, and whether the answer is turned round."""


def compare(ctx: Context, op: Op, args: Args) -> Taken:
    """Take a comparison with a constant."""
    strict, negated = _COMPARISONS[op.kind]
    turned = isinstance(args[0] if args else None, Constant)
    if turned:  # c >= x is -x >= -c
        x = flow(args, 1)
        strict, negated = not strict, not negated
        held = constant(args, 0, "constant")
    else:
        x, held = flow(args), constant(args, 1, "constant")
    x = settle(ctx, op, x) if isinstance(x, Test) else x
    moved = add(ctx, op, x, -reals("its constant", held))
    if not isinstance(moved, Raw | Bits | Sums | Signed):
        decide(ctx, op, moved)  # says why not
    return Taken(
        (Test(moved.layer, moved.shape, moved.axes, base=moved, strict=strict, negated=negated),), "a comparison"
    )


def invert(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Not."""
    x = flow(args)
    if not isinstance(x, Test):
        raise RefusalError("it inverts what is no comparison", "compare with a constant before it", then=x)
    return Taken((replace(x, negated=not x.negated),), "the opposite comparison")


def where(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Where(comparison, constant, constant)."""
    x = flow(args)
    if not isinstance(x, Test):
        raise RefusalError("it chooses by what is no comparison with a constant", "use where(x >= 0, 1, -1)", then=x)
    sides = [args[i] if i < len(args) else None for i in (1, 2)]
    if not all(isinstance(side, Constant) for side in sides):
        raise RefusalError(
            "it chooses between values that are computed",
            "use Relu, PRelu or Clip for that",
            then=replace(x.base, axes=x.axes),
        )
    high, low = (Fraction(scalar("constants", reals("its constants", constant(args, i, "constants")))) for i in (1, 2))
    base = replace(x.base, axes=x.axes)
    return Taken((decide(ctx, op, base, high, low, x.strict, x.negated),), _or(low, high))


def two_values(op: Op, x: Bits, rest: tuple[NDArray[np.float64], ...]) -> Bits:
    """Return what an operator for each value makes of bits: the two values that it gives.

    Raises:
        RefusalError: both are the same.
    """
    given = (*x.values, Fraction(x.fill) if any(x.pads) else x.values[0])
    held = [float(value) for value in given]
    if any(Fraction(value) != exact for value, exact in zip(held, given, strict=True)):
        raise RefusalError("its two values are no floats", "use a scale that float32 holds", then=x)
    low, high, fill = (Fraction(float(value)) for value in fold(op, [np.array(held), *rest]))
    if low == high:
        raise RefusalError("both values of its input give the same", "leave out what is constant", then=x)
    return replace(x, scales=((high - low) / 2,), offset=(high + low) / 2, fill=fill)

"""Take what makes bits: signs, quantisers of one bit, thresholds and comparisons."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from blrc.importing.file import Op
from blrc.importing.flow import Bits, Flow, Raw, Scores, Signed, Sums, Test
from blrc.importing.inputs import as_bits
from blrc.importing.ops.record import Context
from blrc.importing.refusal import RefusalError

HALF = Fraction(1, 2)


def decide(
    ctx: Context,
    op: Op,
    x: Flow,
    high: Fraction = Fraction(1),
    low: Fraction = Fraction(-1),
    strict: bool = False,
    negated: bool = False,
) -> Bits:
    """Return the bits that are `high` where x >= 0 (or x > 0, if `strict`), else `low`; `negated` turns them round.

    Raises:
        RefusalError: the bits are constant, or x is nothing that is compared with a threshold.
    """
    if high < low:
        high, low, negated = low, high, not negated
    if high == low:
        raise RefusalError("both sides of its decision are the same number", "leave out what is constant")
    scale, offset = (high - low) / 2, (high + low) / 2
    bits = Bits(x.layer, x.shape, x.axes, scales=(scale,), offset=offset)
    if any(x.pads):
        raise RefusalError(
            "zeros were padded around what it decides, and become +1 there",
            "pad behind the sign, or not at all",
            then=bits,
        )
    if isinstance(x, Signed):
        if abs(x.offset) >= 1:
            raise RefusalError(
                "its bits are constant, since a number beyond 1 was added to a sign", "leave it out", bits
            )
        plus = x.offset > 0 or (x.offset == 0 and not strict)
        base = replace(x.base, axes=x.axes)
        return decide(ctx, op, base, high, low, not plus, negated)
    if isinstance(x, Test):
        x = settle(ctx, op, x)
    if isinstance(x, Raw):
        found, ctx.build.encode, note = as_bits(ctx.build.declared, x, strict)
        ctx.build.note(note)
        return replace(found, scales=(found.scale * (-scale if negated else scale),), offset=offset)
    if isinstance(x, Bits):
        first, second = (value > 0 or (value == 0 and not strict) for value in x.values)
        if first == second:
            raise RefusalError("its bits are constant, since both values of its input give the same", "leave it out", x)
        return replace(x, scales=(scale if second != negated else -scale,), offset=offset)
    if isinstance(x, Scores):
        raise RefusalError(
            f"it decides the sums of {x.node}, whose weights {x.hold}",
            x.remedy,
            then=bits,
        )
    if not isinstance(x, Sums):
        raise RefusalError("it decides what is no sum of a layer", "put a binary layer before it", then=bits)
    return replace(bits, layer=_sign(ctx, op, x, strict, negated))


def _sign(ctx: Context, op: Op, x: Sums, strict: bool, negated: bool) -> str:
    """Add the layers of a sign. x > 0 is the opposite of -x >= 0."""
    if strict:
        x = replace(x, layer=ctx.build.multiply(op, x.layer, [[Fraction(-1)]]))
    if strict == negated:
        return ctx.build.add(op, "ste_sign", x, {})
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    return ctx.build.add(op, "threshold", x, {"channels": 1}, {"at": zero, "inverted": one})


def settle(ctx: Context, op: Op, x: Flow) -> Flow:
    """Return what is computed, where a sign or a comparison had been left for the nodes behind it to decide.

    A comparison gives 0 and 1. A sign keeps sign(0) = 0, which the compiler refuses where 0 can occur.
    """
    if isinstance(x, Test):
        return decide(ctx, op, replace(x.base, axes=x.axes), Fraction(1), Fraction(0), x.strict, x.negated)
    if isinstance(x, Signed):
        base = replace(x.base, axes=x.axes)
        if isinstance(base, Sums):
            if any(base.pads):
                raise RefusalError("zeros were padded around what it decides", "pad behind the sign", then=x)
            layer = ctx.build.add(x.op, "strict_sign", base, {})
            return Bits(layer, x.shape, x.axes, scales=(Fraction(1),), offset=x.offset)
        decided = decide(ctx, op, base)
        return replace(decided, offset=decided.offset + x.offset)
    return x

"""Take monotone functions for each value: ReLU, PReLU, leaky ReLU, clips."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.file import Op
from blrc.importing.flow import Bits, Flow, Raw, Scores, Sums, by_channel
from blrc.importing.numbers import reals
from blrc.importing.ops.affine import add, multiply
from blrc.importing.ops.decide import settle
from blrc.importing.ops.quantise import two_values
from blrc.importing.ops.record import Args, Context, Taken, check_unpadded, constant, flow, number, optional, scalar
from blrc.importing.refusal import RefusalError

ALPHA = float(np.float32(0.2))
"""ONNX's slope of HardSigmoid where the file gives none."""


def relu(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Relu."""
    x = settle(ctx, op, flow(args))
    if isinstance(x, Bits):
        return Taken((two_values(op, x, ()),), "a ReLU of bits")
    return _bend(ctx, op, x, "relu", {}, {}, "a ReLU")


def clip(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Clip, with bounds as attributes (up to opset 10) or inputs."""
    x = settle(ctx, op, flow(args))
    bounds: list[float | None] = []
    for index, name in ((1, "min"), (2, "max")):
        held = optional(args, index, name)
        bounds.append(_bound(name, op.attributes.get(name) if held is None else held, x))
    return _clipped(ctx, op, x, *bounds)


def least(ctx: Context, op: Op, args: Args) -> Taken:
    """Take Max and Min of a flow and one number, in either order."""
    index = next((i for i, each in enumerate(args) if isinstance(each, Flow)), 0)
    x = settle(ctx, op, flow(args, index))
    if len(args) != 2:
        raise RefusalError(f"it has {len(args)} inputs", "give it one number beside what is computed", then=x)
    if isinstance(args[1 - index], Flow):
        raise RefusalError("it joins two branches", "networks are chains of layers; train one without branches", then=x)
    at = _bound("constant", constant(args, 1 - index, "constant"), x)
    return _clipped(ctx, op, x, *((at, None) if op.kind == "Max" else (None, at)))


def hard_sigmoid(ctx: Context, op: Op, args: Args) -> Taken:
    """Take HardSigmoid, a clip of alpha x + beta to [0, 1]."""
    scaled = multiply(ctx, op, flow(args), np.array(number(op.attributes, "alpha", ALPHA)))
    return _clipped(ctx, op, add(ctx, op, scaled, np.array(number(op.attributes, "beta", 0.5))), 0.0, 1.0)


def _bound(name: str, given: Any, x: Flow) -> float | None:
    """Return a bound of a clip, or None where it is beyond what float32 holds, as old opsets write none."""
    if given is None:
        return None
    held = np.asarray(given, dtype=np.float64)
    if np.isnan(held).any():
        raise RefusalError(f"its {name} is NaN", "give a finite bound, or none", then=x)
    value = scalar(name, held)
    return None if abs(value) >= float(np.finfo(np.float32).max) else value


def _clipped(ctx: Context, op: Op, x: Flow, low: float | None, high: float | None) -> Taken:
    if low is not None and high is not None and low > high:
        raise RefusalError(f"it clips to [{low:g}, {high:g}], which is empty", "export the network again", then=x)
    if isinstance(x, Bits):
        ends = [np.array(math.copysign(math.inf, side) if b is None else b) for b, side in ((low, -1), (high, 1))]
        made = two_values(replace(op, kind="Clip", attributes={}), x, (ends[0], ends[1]))
        return Taken((made,), "a clip of bits")
    says = f"a clip to [{'-inf' if low is None else f'{low:g}'}, {'inf' if high is None else f'{high:g}'}]"
    if isinstance(x, Raw) and (x.seen is not None or ((low or -1) < 0 < (high or 1) and 0 not in (low, high))):
        seen = x.seen if x.seen is None or low is high is None else np.clip(x.seen, low, high).astype(x.seen.dtype)
        return Taken((replace(x, seen=seen, bent=str(op)),), f"{says}, which the sign behind it decides")
    return _bend(ctx, op, x, "clip", {"min_val": low, "max_val": high}, {}, says)


def prelu(ctx: Context, op: Op, args: Args) -> Taken:
    """Take PRelu, and LeakyRelu, which has one slope."""
    x = settle(ctx, op, flow(args))
    if op.kind == "LeakyRelu":
        slope = np.array([number(op.attributes, "alpha", 0.01)])
    else:
        slope = reals("its slope", constant(args, 1, "slope"))
    if not isinstance(x, Sums):
        return _bend(ctx, op, x, "prelu", {}, {}, "a PReLU")
    row = np.asarray(by_channel("its slope", x, slope), dtype=np.float64)
    if (row < 0).any():
        raise RefusalError(
            f"its slope is negative in {int((row < 0).sum())} channels, so one bit cannot say on which side of its "
            "threshold a value lies",
            "train with slopes of at least 0",
            then=x,
        )
    return _bend(ctx, op, x, "prelu", {"num_parameters": len(row)}, {"weight": row}, f"a PReLU with {len(row)} slopes")


def _bend(
    ctx: Context,
    op: Op,
    x: Flow,
    kind: str,
    options: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    says: str,
) -> Taken:
    if isinstance(x, Sums):
        check_unpadded(x)
        layer = ctx.build.add(op, kind, x, options, tensors)
        return Taken((replace(x, layer=layer, bent=x.bent or str(op)),), says)
    if isinstance(x, Scores):
        raise RefusalError(
            f"it follows {x.node}, whose weights {x.hold}",
            x.remedy,
            then=x,
        )
    raise RefusalError("it stands before the first binary layer", "apply it to the input before the network", then=x)

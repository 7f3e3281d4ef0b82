"""Compare the thresholds of a layer with the original's own arithmetic, on every sum that can occur.

The part of the original from the output of a binary layer to its bits is run, in ONNX Runtime or by the module's own
code, for every sum z and every channel. So this is a proof for all inputs, up to the sums themselves: those are taken
as exact, times the original's scale, and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from blrc.lowering.calibrate import fan_in
from blrc.lowering.single import moved, reachable, values
from blrc.net.encoding import device_layout
from blrc.net.net import MaxPool
from blrc.program.program import Constant, Program
from blrc.verification.original.original import Original
from blrc.verification.original.places import Decision, prefix
from blrc.verification.original.rounding import may_differ

AT_ONCE = 2**24
"""Values of sums that are given to the original at once."""


@dataclass(frozen=True)
class Channel:
    """Describe a channel that float32 decides otherwise than exact rationals, or that the export decides otherwise.

    Attributes:
        layer, channel: which one it is.
        z: the smallest sum of which that is so, and ``sums`` their number.
        exact, float32, exported: the thresholds; ``float32`` is None if float32 decides by no single one.
        explained: whether the export decides every sum as exact rationals or as float32 do, and these two differ only
            where rounding may be the reason.
    """

    layer: str
    channel: int
    z: int
    sums: int
    exact: int
    float32: int | None
    exported: int
    explained: bool

    def __str__(self) -> str:
        """Return a line for reports."""
        float32 = "no single threshold" if self.float32 is None else f"threshold {self.float32}"
        more = "" if self.sums == 1 else f" and {self.sums - 1} more sums"
        if self.explained:
            what = ""
        elif self.exported in (self.exact, self.float32):
            what = f", which rounding does not explain; the export has {self.exported}"
        else:
            what = f", but the export has {self.exported}"
        return (
            f"layer {self.layer!r}, channel {self.channel}: at z = {self.z}{more}; exact threshold {self.exact}, "
            f"float32 {float32}{what}"
        )


@dataclass(frozen=True, eq=False)
class Decided:
    """Hold the channels of a layer that differ, the number of decisions compared, and float32's thresholds.

    Where rounding does not explain what float32 decides, the exact threshold stands in its place.
    """

    channels: tuple[Channel, ...]
    decisions: int
    float32: NDArray[np.int32]


def compare_thresholds(program: Program, decision: Decision, original: Original) -> Decided:
    """Evaluate the original on every sum that can occur in a layer, and compare the thresholds with it."""
    stage, rule, inputs = decision.stage, decision.rule, decision.inputs
    scale, bound = float(inputs.scale), fan_in(stage.linear) * inputs.peak
    z = reachable(stage.linear, -bound, bound, inputs.binary)
    theirs = _theirs(decision, scale, z, original)
    near = may_differ(stage, scale, z[:, None], original.unit)
    exported = program.constant(f"{stage.linear.name}.thresholds")
    table, channels = exported.copy(), list[Channel]()
    for c in range(len(exported)):
        turned = -z if rule.flip[c] else z
        exact, own = ((turned >= int(at)) != rule.inverted[c] for at in (rule.threshold[c], exported[c]))
        at = moved(z, theirs[:, c], rule, c, -bound, bound)
        other = (exact != theirs[:, c]) | (own != theirs[:, c])
        rounded = bool(near[exact != theirs[:, c], c].all())
        table[c] = rule.threshold[c] if at is None or not rounded else at
        if other.any():
            explained = rounded and bool((own == exact)[other].all() or (own == theirs[:, c])[other].all())
            channels.append(
                Channel(
                    stage.linear.name,
                    c,
                    int(z[np.argmax(other)]),
                    int(other.sum()),
                    int(rule.threshold[c]),
                    at,
                    int(exported[c]),
                    explained,
                )
            )
    return Decided(tuple(channels), theirs.size, table)


def with_thresholds(program: Program, layer: str, table: NDArray[np.int32]) -> Program:
    """Return a program of one member with another table of thresholds in one layer."""
    constants = {**program.constants, f"{layer}.thresholds": Constant((table,), (0,))}
    return replace(program, constants=constants)


def _theirs(decision: Decision, scale: float, z: NDArray[np.int64], original: Original) -> NDArray[np.bool_]:
    """Return what the original decides for each sum and channel, ``(len(z), channels)``.

    Without a pool each position of a map gets a sum of its own. With one, all positions of a map have the same sum.
    """
    stage, sums = decision.stage, decision.sums
    part = original.part(sums, [decision.bits])
    channels, positions = sums.shape[0], prod(sums.shape[1:])
    given = values(stage.linear, prefix(stage, sums), scale, z[:, None])
    pooled = any(isinstance(step, MaxPool) for step in stage.chain)
    each = 1 if pooled else positions
    maps = -(-len(z) // each)
    padded = np.concatenate([given, np.repeat(given[-1:], maps * each - len(given), axis=0)])
    laid = padded.reshape(maps, each, channels).transpose(0, 2, 1)
    found = list[NDArray[np.bool_]]()
    step = max(1, AT_ONCE // (channels * positions))
    for i in range(0, maps, step):
        block = laid[i : i + step]
        block = np.repeat(block, positions, axis=2) if pooled else block
        out = part.run(block.reshape(len(block), *sums.shape))[decision.bits.name]
        plus = device_layout(original.is_plus(decision.bits, out))  # (maps, H, W, channels)
        plus = plus[:, :1, :1] if pooled else plus
        found.append(plus.reshape(-1, channels))
    decided: NDArray[np.bool_] = np.concatenate(found)
    return decided[: len(z)]

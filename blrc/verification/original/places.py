"""Say which tensor of the original is which value of the program that was lowered from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.frontend.kinds.padding import only_pads
from blrc.lowering.calibrate import folded
from blrc.lowering.fold import Folded, Inputs, inputs_of
from blrc.net.net import AveragePool, Conv, Levels, MaxPool, Pointwise
from blrc.net.pieces import Stage, pieces
from blrc.program.program import Op, Program
from blrc.verification.original.original import Original, Tensor


@dataclass(frozen=True, eq=False)
class Decision:
    """Describe a stage of the net in the original.

    Attributes:
        stage: what decides.
        inputs: what its linear layer reads.
        rule: its exact rule.
        sums, bits: the original's tensors of what its linear layer gives, and of what its sign gives.
    """

    stage: Stage
    inputs: Inputs
    rule: Folded
    sums: Tensor
    bits: Tensor


@dataclass(frozen=True, eq=False)
class Place:
    """Say where bits are found in the original and in the program.

    Attributes:
        layer: the layer of the program that computes them.
        ops: the program's ops since the place before, the last of which writes them.
        bits: the original's tensor.
        inverted: the channels whose bits in the program stand for their opposites.
        decision: the stage that decides them; None of a pool.
    """

    layer: str
    ops: tuple[Op, ...]
    bits: Tensor
    inverted: NDArray[np.bool_]
    decision: Decision | None


def places(program: Program, original: Original) -> list[Place]:
    """Return the places at which bits of the program and of the original are compared, in order.

    Raises:
        BlrcError: the program is not of the net's layers, or the original has no tensor for some bits.
    """
    net = replace(original.net, rounding="exact")
    index = {op.name: i for i, op in enumerate(program.ops)}
    found: dict[int, tuple[Tensor, NDArray[np.bool_], Decision | None]] = {}
    behind, averages, at = net.encoding.is_binary, False, -1
    decision: Decision | None = None
    inverted = np.zeros(0, dtype=bool)
    for piece in pieces(net):
        if isinstance(piece, Stage) and isinstance(piece.linear, Conv) and only_pads(piece.linear):
            continue  # bits to bits, which the original need not have as a tensor of their own
        if isinstance(piece, Stage):
            if isinstance(piece.sign, Levels):
                raise BlrcError(
                    f"layer {piece.sign.name!r}: gives codes of levels, and an export is compared with an original "
                    "network of +-1 alone; verify it without one"
                )
            if piece.linear.unit is not None:
                raise BlrcError(
                    f"layer {piece.linear.name!r}: has 8-bit weights, and an export is compared with an original "
                    "network of weights of +-1 alone; verify it without one"
                )
            rule = folded(piece, net.encoding, behind)
            bits = original.bits(piece)
            inputs = inputs_of(piece, net.encoding, behind)
            decision = Decision(piece, inputs, rule, original.sums(piece), bits)
            behind, averages, inverted = True, False, rule.inverted
            at = index[next((p.name for p in reversed(piece.pools) if p.name in index), piece.linear.name)]
        elif isinstance(piece, AveragePool):
            averages = True  # compared by the bits that are decided behind them
        elif isinstance(piece, MaxPool) and not averages:
            bits = original.pooled(piece.name)
            inverted = np.zeros_like(inverted)
            own = [name for name in (piece.name, f"{piece.name}.turned") if name in index]
            decision, at = (None, index[own[0]]) if own else (decision, at)  # else it is fused into the op before
        else:
            continue
        found[at] = bits, inverted, decision
    made, start = list[Place](), 0
    for at, (bits, turned, decided) in sorted(found.items()):
        layer = program.ops[at].name if decided is None else decided.stage.linear.name
        made.append(Place(layer, program.ops[start : at + 1], bits, turned, decided))
        start = at + 1
    return made


def prefix(stage: Stage, sums: Tensor) -> Sequence[Pointwise | MaxPool]:
    """Return the steps of a stage's chain that its linear node already took: scales, and its bias.

    What counting adds to averages of +-1 is one of them, as the original reads the averages themselves.
    """
    names = [stage.linear.name, *(step.name for step in stage.chain)]
    counted = int(stage.reads is not None and stage.reads.below != 0)
    return stage.chain[: max(counted, names.index(sums.layer))]

"""Check that a program decides as the net that it was lowered from: its bits layer by layer, and its scores.

Engines are compared with the program, and torch with the net's exact thresholds. This check closes the chain between
the two: a flip that lowering forgets, or weights in another order, would make every engine equally wrong.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.lowering.affine import affine
from blrc.lowering.calibrate import decide, folded
from blrc.lowering.fold import inputs_of
from blrc.lowering.preactivations import max_pool, preactivation, sum_pool
from blrc.net.encoding import device_layout
from blrc.net.net import AveragePool, Flatten, Levels, MaxPool, Net, Softmax
from blrc.net.pieces import ScoreStage, Stage, pieces
from blrc.program import reference
from blrc.program.program import Program

CHUNK = 128


def first_other_bits(program: Program, net: Net, raw: NDArray[Any], member: int = 0) -> str | None:
    """Return the name of the first layer whose bits in the program are not the net's, or None if all are equal.

    Args:
        net: the calibrated net of that member.
        raw: the inputs, ``(N, *shape)``.
    """
    for i in range(0, len(raw), CHUNK):
        name = _chunk(program, net, raw[i : i + CHUNK], member)
        if name is not None:
            return name
    return None


def _chunk(program: Program, net: Net, raw: NDArray[Any], member: int) -> str | None:
    device = device_layout(raw)
    values = reference.run(program, device, member)
    outputs = {op.name: op.y.name for op in program.ops}
    x: NDArray[Any] = net.encoding.maps(raw)
    behind, codes = net.encoding.is_binary, False
    inverted = np.zeros(program.input.shape[2], dtype=bool)
    name, done = "", 0
    scores = values[program.output.name][:, 0, 0]
    scales = [each.score_scale for each in program.heads] or [program.score_scale]
    for piece in pieces(net):
        if isinstance(piece, Stage):
            rule = folded(piece, net.encoding, behind)
            x = decide(piece, rule, preactivation(piece.linear, x, inputs_of(piece, net.encoding, behind).peak))
            behind, codes, inverted = True, isinstance(piece.sign, Levels), rule.inverted
            # Its last pool is an op of its own, or fused into the layer; codes are turned back behind it.
            own = (f"{piece.sign.name}.turned", *(p.name for p in reversed(piece.pools)))
            name = next((name for name in own if name in outputs), piece.linear.name)
        elif isinstance(piece, MaxPool):
            x = max_pool(x, piece.window)
            inverted = np.zeros_like(inverted)
            name = piece.name if piece.name in outputs else name
        elif isinstance(piece, AveragePool):
            assert piece.window is not None, "pieces gives it one"
            x, name, codes = sum_pool(x, piece.window), piece.name, True
        elif isinstance(piece, ScoreStage):
            numbers = affine(piece, Fraction(scales[done]))
            z = preactivation(piece.linear, x, inputs_of(piece, net.encoding, behind).peak)
            expected = numbers.multiplier * z + numbers.bias
        elif isinstance(piece, Softmax):
            rows = np.rint(piece.weights / scales[done]).astype(np.int64)
            expected = x.reshape(len(x), -1).astype(np.int64) @ rows.T
            expected += piece.biases(rows, scales[done]).astype(np.int64)
        else:
            x = x.reshape(len(x), -1) if isinstance(piece, Flatten) else x
            continue
        if isinstance(piece, ScoreStage | Softmax):
            if not np.array_equal(scores[:, program.parts[done].place], expected):
                return piece.linear.name if isinstance(piece, ScoreStage) else piece.name
            done += 1
            continue
        bits = device_layout(x) if codes else (device_layout(x) > 0) != inverted
        # A pool of bits that follows may be fused into the layer; then the pool's output is compared.
        if values[outputs[name]].shape == bits.shape and not np.array_equal(values[outputs[name]], bits):
            return name
    return None

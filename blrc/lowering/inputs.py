"""Say what integers a binary layer reads: the network's own codes, +-1, or codes of levels."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from blrc.net.encoding import InputEncoding
from blrc.net.pieces import ScoreStage, Stage


@dataclass(frozen=True)
class Inputs:
    """Describe the integers that a layer reads.

    Attributes:
        peak: their largest magnitude.
        scale: how many make one unit of the real values that they stand for.
        binary: whether they are +-1.
    """

    peak: int
    scale: Fraction
    binary: bool


def inputs_of(stage: Stage | ScoreStage, encoding: InputEncoding, behind: bool) -> Inputs:
    """Return what the binary layer of a stage reads.

    Args:
        encoding: the network's input.
        behind: whether the layer reads what another stage gives, or bits, and not the input's codes.
    """
    if stage.reads is not None:
        return Inputs(stage.reads.most, 1 / Fraction(stage.reads.step), False)
    return Inputs(1, Fraction(1), True) if behind else Inputs(encoding.peak, Fraction(encoding.scale), False)

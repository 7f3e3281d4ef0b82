"""Say which ops of a program cost its rivals anything."""

from __future__ import annotations

from collections.abc import Sequence

from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import Encode, Op


def computing(ops: Sequence[Op]) -> list[Op]:
    """Return the ops that a network of real values computes too.

    Such a network takes standardised images, so it makes neither codes nor bits of raw values. Flattening moves none of
    its values.
    """
    return [op for op in ops if not isinstance(op, Encode | Binarize | Flatten)]

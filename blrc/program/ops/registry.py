"""List all ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from blrc.errors import BlrcError
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.binary_scores import BinaryScores
from blrc.program.ops.conv import Conv
from blrc.program.ops.encode import Encode
from blrc.program.ops.flatten import Flatten
from blrc.program.ops.op import BaseOp
from blrc.program.ops.pool import Pool, SumPool
from blrc.program.ops.scores import Scores

Op = Encode | Binarize | Conv | Pool | SumPool | Flatten | Scores | BinaryScores
"""The one list of ops. Functions that go by an op's type end in `assert_never`, so mypy finds those that miss one."""

OPS: Mapping[str, type[Op]] = {op.kind: op for op in get_args(Op)}
"""The ops by the names of their kinds."""


def kind_of(op: BaseOp) -> str:
    """Return the name of an op's kind.

    Raises:
        BlrcError: the op is not in the list.
    """
    if OPS.get(op.kind) is not type(op):
        raise BlrcError(f"program: op {op.name!r}: {type(op).__name__} is not in the list of ops")
    return op.kind

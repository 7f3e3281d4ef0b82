"""An op that nobody knows: whatever goes by the kind of an op refuses it and names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from random_programs import random_program

from blrc.inspection import inspection, what_if
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.program import Program, Value, constant_names
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.onnx.graph import Lowering
from blrc.targets.onnx.nodes import Graph
from blrc.verification import run
from blrc.verification.run import Tally


@dataclass(frozen=True)
class Blur:
    """It has what all ops have."""

    name: str
    x: Value
    y: Value


OP: Any = Blur("blurred", Value("out", "bits", (4, 4, 8)), Value("soft", "bits", (4, 4, 8)))


def with_blur() -> Program:
    """A program whose second last op is an unknown one."""
    program = random_program(3, "bits", (4, 4, 8), layers=1)
    *before, last = program.ops
    blur: Any = Blur("blurred", last.x, Value("soft", "bits", last.x.shape))
    return replace(program, ops=(*before, blur, replace(last, x=blur.y)))


DISPATCHERS: dict[str, Callable[[], object]] = {
    "constants": lambda: constant_names(OP),
    "legality": lambda: check(with_blur()),
    "meaning": lambda: reference.apply(with_blur(), OP, np.zeros((1, 4, 4, 8), bool)),
    "file": lambda: program_file.to_bytes(with_blur()),
    "layout": lambda: lay_out(with_blur()),
    "kind": lambda: inspection._kind(OP, {}),
    "geometry": lambda: inspection._geometry(OP, {}),
    "narrower": lambda: what_if.narrower(with_blur(), Fraction(1, 2)),
    "stimuli": lambda: list(run._op_inputs(with_blur(), OP, 0, 0, Tally())),
    "onnx": lambda: Lowering(Graph(), with_blur(), 0, "raw").lower(OP),
}


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_an_unknown_op_is_refused_by_name(dispatcher: str) -> None:
    with pytest.raises(Exception, match=r"blurred.*Blur|Blur.*blurred"):
        DISPATCHERS[dispatcher]()


def test_the_program_is_legal_without_it() -> None:
    """So that nothing else is what was refused."""
    program = random_program(3, "bits", (4, 4, 8), layers=1)
    assert check(program) is program and program_file.to_bytes(program) and lay_out(program).steps

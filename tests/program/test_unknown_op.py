"""An op that nobody knows: whatever goes by the kind of an op refuses it and names it, and its record must be whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from inspect import isfunction, signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_programs import random_program

from blrc.errors import BlrcError
from blrc.inspection import inspection, what_if
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.ops.op import BaseOp, Context, Table, Value
from blrc.program.ops.registry import OPS
from blrc.program.program import Program
from blrc.reading import npz
from blrc.targets.c.layout.layout import lay_out
from blrc.targets.onnx.float_form import FloatLowering
from blrc.targets.onnx.graph import Lowering
from blrc.targets.onnx.nodes import Graph
from blrc.verification import run
from blrc.verification.run import Tally


@dataclass(frozen=True)
class Blur(BaseOp):
    """Its record is whole, but it is in no list."""

    kind = "blur"
    title = "blur of bits"

    def tables(self) -> tuple[Table, ...]:
        return ()

    def check(self) -> None: ...

    def run(self, program: Context, x: NDArray[Any], member: int = 0) -> NDArray[Any]:
        return x

    def resized(self, x: Value, outputs: int) -> Blur:
        return replace(self, x=x, y=replace(self.y, shape=x.shape))


OP: Any = Blur("blurred", Value("out", "bits", (4, 4, 8)), Value("soft", "bits", (4, 4, 8)))


def with_blur() -> Program:
    """A program whose second last op is an unknown one."""
    program = random_program(3, "bits", (4, 4, 8), layers=1)
    *before, last = program.ops
    blur: Any = Blur("blurred", last.x, Value("soft", "bits", last.x.shape))
    return replace(program, ops=(*before, blur, replace(last, x=blur.y)))


DISPATCHERS: dict[str, Callable[[], object]] = {
    "legality": lambda: check(with_blur()),
    "file": lambda: program_file.to_bytes(with_blur()),
    "layout": lambda: lay_out(with_blur()),
    "onnx": lambda: Lowering(Graph(), with_blur(), 0, "raw").lower(OP),
    "onnx in float": lambda: FloatLowering(Graph(), with_blur(), 0, "raw").lower(OP),
}


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_an_unknown_op_is_refused_by_name(dispatcher: str) -> None:
    with pytest.raises(Exception, match=r"blurred.*Blur|Blur.*blurred"):
        DISPATCHERS[dispatcher]()


def test_the_float_form_inherits_no_op_from_the_integer_form() -> None:
    """Nodes of one form among those of the other would compute something else."""
    makers = {
        name for name, of in vars(Lowering).items() if callable(of) and signature(of).parameters.keys() > {"op", "y"}
    }
    assert makers and makers <= vars(FloatLowering).keys()


def test_a_file_with_an_unknown_kind_is_refused() -> None:
    content = program_file.to_bytes(random_program(3, "bits", (4, 4, 8), layers=1))
    with pytest.raises(BlrcError, match=r"op 0: op is 'crnv', not encode or binarize or conv or"):
        # The zip container's checksum is computed again.
        arrays = npz.from_bytes(content, len(content))
        structure = arrays["program"].tobytes().replace(b'"op":"conv"', b'"op":"crnv"', 1)
        arrays["program"] = np.frombuffer(structure, np.uint8)
        program_file.parse(npz.to_bytes(arrays), Path("net.program.npz"))


def test_what_asks_the_record_knows_it() -> None:
    program, bits = with_blur(), np.ones((3, 4, 4, 8), bool)
    assert OP.constants == () and OP.macs == 0 and OP.peak(program) == 1
    assert list(reference.run(program, bits)) == [program.input.name, *(op.y.name for op in program.ops)]
    assert inspection._kind(OP, {}) == "blur of bits"
    narrow = what_if.narrower(program, Fraction(1, 2))
    assert narrow is not None and narrow.ops[-2].y.shape == narrow.ops[-2].x.shape
    assert [what for what, _ in run._op_inputs(program, OP, 0, 0, Tally())] == ["random bits"]


@pytest.mark.parametrize("missing", ["tables", "check", "run", "resized"])
def test_a_record_that_lacks_something_makes_no_op(missing: str) -> None:
    methods = {name: value for name, value in vars(Blur).items() if isfunction(value) and name != missing}
    half = type("Half", (BaseOp,), {"kind": "half", "title": "half", **methods})
    with pytest.raises(TypeError, match=f"Half.*{missing}"):
        half("blurred", OP.x, OP.y)


@pytest.mark.parametrize("kind", OPS)
def test_every_record_names_its_kind_and_has_fields_that_a_file_holds(kind: str) -> None:
    record = OPS[kind]
    assert record.kind == kind and record.title
    assert {str(field.type) for field in fields(record)} <= program_file._READ.keys()


def test_the_program_is_legal_without_it() -> None:
    """So that nothing else is what was refused."""
    program = random_program(3, "bits", (4, 4, 8), layers=1)
    assert check(program) is program and program_file.to_bytes(program) and lay_out(program).steps

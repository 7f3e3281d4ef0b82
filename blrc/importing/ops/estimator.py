"""Recognise straight-through estimators as exporters leave them: x + (s - x), which is s.

PyTorch's ``x + (sign(x) - x).detach()`` comes out of an exporter without its detach. As an exact rational it is
sign(x); in floats the file rounds twice, so that its signs may be off -1 and +1 by a little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from blrc.importing.file import Op

_BY_VALUE = frozenset(
    {"Abs", "Add", "BipolarQuant", "Cast", "Ceil", "Clip", "Div", "Equal", "Floor", "Greater", "GreaterOrEqual"}
    | {"HardSigmoid", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mul", "Not", "Quant", "Round", "Sign", "Sub"}
    | {"Tanh", "Where"}
)
"""Operators whose result has a value for each value of what they read, besides numbers."""
MOST = 64
"""Tensors that are looked at from one sum, since an estimator has few steps."""


def resolved(ops: Sequence[Op], numbers: Collection[str]) -> tuple[Op, ...]:
    """Return the nodes, each x + (s - x) and x - (x - s) of which passes s on.

    That is done where s and x are computed from one tensor value by value, so that they have one shape.

    Args:
        numbers: the constants of one value, which tensors of any shapes may have in common.
    """
    made = {name: op for op in ops for name in op.outputs}
    apart = {*numbers, *(name for op in ops if op.kind == "Constant" for name in op.outputs)}
    return tuple(_resolved(op, made, apart) for op in ops)


def _resolved(op: Op, made: Mapping[str, Op], apart: Collection[str]) -> Op:
    if op.kind not in ("Add", "Sub") or op.domain or len(op.inputs) != 2:
        return op
    first, second = op.inputs
    for x, difference in ((first, second), (second, first)) if op.kind == "Add" else ((first, second),):
        inner = made.get(_same(difference, made))
        if inner is None or inner.kind != "Sub" or inner.domain or len(inner.inputs) != 2:
            continue
        s, again = inner.inputs if op.kind == "Add" else inner.inputs[::-1]
        if _same(again, made) == _same(x, made) and _reached(s, made) & _reached(x, made) - {*apart}:
            return replace(op, kind="Identity", inputs=(s,))
    return op


def _same(name: str, made: Mapping[str, Op]) -> str:
    """Return the tensor that a chain of Identity passes on."""
    for _ in range(MOST):
        op = made.get(name)
        if op is None or op.kind != "Identity" or len(op.inputs) != 1:
            break
        name = op.inputs[0]
    return name


def _reached(name: str, made: Mapping[str, Op]) -> set[str]:
    """Return a tensor and those that it is computed from value by value."""
    found, ahead = {name}, [name]
    while ahead and len(found) < MOST:
        op = made.get(ahead.pop())
        if op is not None and op.kind in _BY_VALUE:
            new = {each for each in op.inputs if each} - found
            found |= new
            ahead += sorted(new)
    return found

"""Compute nodes whose inputs are all constants, with NumPy in the types of the file (float32 stays float32)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.file import Fault, Op, Subgraph
from blrc.importing.numbers import Reals
from blrc.importing.refusal import RefusalError

MOST_VALUES = 2**26
"""Limit the values of a constant that is computed to those of a dense layer of 8,192 x 8,192."""
Arrays = Sequence[NDArray[Any] | None]
Fold = Callable[[Op, Arrays], NDArray[Any]]

_TYPES: Mapping[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
"""Numbers of ONNX's element types, as Cast has them."""


def fold(op: Op, arrays: Arrays) -> NDArray[Any]:
    """Return what a node computes from constants.

    Raises:
        RefusalError: the operator is not one of `FOLDS`, its result would be too large, or its inputs do not fit.
    """
    if op.kind not in FOLDS:
        raise RefusalError(
            f"constants go through {op.kind}, which is not computed here", "fold constants when you export the network"
        )
    check_attributes(op)
    try:
        if _values(op, arrays) > MOST_VALUES:
            raise RefusalError("its result would be too large", "export the network again")
        with np.errstate(all="ignore"):
            found = np.asarray(FOLDS[op.kind](op, arrays))
    except RefusalError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, OverflowError, MemoryError):
        raise RefusalError("its constants do not fit each other", "export the network again") from None
    return found


_OF_FIRST = ("Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result has at most as many values as their first input."""


def _values(op: Op, arrays: Arrays) -> float:
    """Return how many values a node gives at most, before they are computed."""
    held = [array for array in arrays if array is not None]
    if not held:
        return 0
    if op.kind == "Concat":
        return sum(array.size for array in held)
    if op.kind == "Gather":
        axis = op.attributes.get("axis", 0)
        return float(float(held[0].size) / max(int(held[0].shape[axis]), 1) * held[1].size)
    if op.kind == "ConstantOfShape":
        return float(np.prod(held[0], dtype=float))
    if op.kind == "Expand":
        shape = np.broadcast_shapes(held[0].shape, tuple(held[1].reshape(-1).tolist()))
        return float(np.prod(shape, dtype=float))
    if op.kind in _OF_FIRST or op.kind.startswith("Reduce"):
        return held[0].size
    return float(np.prod(np.broadcast_shapes(*(array.shape for array in held)), dtype=float))


def check_attributes(op: Op) -> None:
    """Raise a `RefusalError` if an attribute is a graph or cannot be read."""
    for name, value in op.attributes.items():
        if isinstance(value, Fault):
            raise RefusalError(
                f"its {name} {value.why.partition('; ')[0]}", value.why.partition("; ")[2] or "export it again"
            )
        if isinstance(value, Subgraph):
            raise RefusalError("it holds a graph of its own", "export the network without control flow")


def _elementwise(function: Callable[..., Any], inputs: int) -> Fold:
    def run(op: Op, arrays: Arrays) -> NDArray[Any]:
        held = [array for array in arrays if array is not None]
        if len(held) != inputs:  # NumPy takes one more for where to write
            raise RefusalError(f"it has {len(held)} inputs, not {inputs}", "export the network again")
        found = np.asarray(function(*held))
        return found.astype(held[-1].dtype) if found.dtype.kind == "f" and held[-1].dtype.kind == "f" else found

    return run


def _divide(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.trunc(a / b).astype(a.dtype) if a.dtype.kind in "iu" else a / b)


def _power(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.power(a, b.astype(a.dtype) if a.dtype.kind == "f" else b)).astype(a.dtype)


def _constant(op: Op, arrays: Arrays) -> NDArray[Any]:
    for name, kind in (("value_float", np.float32), ("value_int", np.int64), ("value_floats", np.float32)):
        if name in op.attributes:
            return np.array(op.attributes[name], dtype=kind)
    if "value_ints" in op.attributes:
        return np.array(op.attributes["value_ints"], dtype=np.int64)
    if not isinstance(op.attributes.get("value"), np.ndarray):
        raise RefusalError("it holds no array", "export the network again")
    return np.asarray(op.attributes["value"])


def axes_of(op: Op, arrays: Arrays) -> list[int] | None:
    """Return the axes of an operator: an attribute in old opsets, and the second input in new ones."""
    held = op.attributes.get("axes")
    if held is None and len(arrays) > 1 and arrays[1] is not None:
        held = arrays[1].reshape(-1).tolist()
    return None if held is None else [int(axis) for axis in held]


def _unsqueeze(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.expand_dims(_first(arrays), tuple(axes_of(op, arrays) or ()))


def _squeeze(op: Op, arrays: Arrays) -> NDArray[Any]:
    axes = axes_of(op, arrays)
    return np.squeeze(_first(arrays), None if axes is None else tuple(axes))


def _first(arrays: Arrays) -> NDArray[Any]:
    held = arrays[0]
    if held is None:
        raise RefusalError("its first input is left out", "export the network again")
    return held


def _reshape(op: Op, arrays: Arrays) -> NDArray[Any]:
    held, wanted = _first(arrays), _given(arrays, 1).reshape(-1).tolist()
    return held.reshape([held.shape[i] if n == 0 else n for i, n in enumerate(wanted)])


def _given(arrays: Arrays, index: int) -> NDArray[Any]:
    held = arrays[index]
    assert held is not None
    return held


def _flatten(op: Op, arrays: Arrays) -> NDArray[Any]:
    held, axis = _first(arrays), op.attributes.get("axis", 1)
    return held.reshape(int(np.prod(held.shape[:axis])), -1)


def _transpose(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.transpose(_first(arrays), op.attributes.get("perm"))


def _gather(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.take(_first(arrays), _given(arrays, 1), axis=op.attributes.get("axis", 0))


def _slice(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = _first(arrays)
    if "starts" in op.attributes:
        starts, ends, steps = op.attributes["starts"], op.attributes["ends"], None
        axes = op.attributes.get("axes")
    else:
        rows = [None if row is None else row.reshape(-1).tolist() for row in arrays[1:]]
        starts, ends, axes, steps = [*rows, None, None][:4]
    cut = [slice(None)] * held.ndim
    for i, (first, last) in enumerate(zip(starts or (), ends or (), strict=True)):
        cut[axes[i] if axes else i] = slice(first, last, steps[i] if steps else 1)
    return held[tuple(cut)]


def _cast(op: Op, arrays: Arrays) -> NDArray[Any]:
    return _first(arrays).astype(_TYPES[op.attributes["to"]])


def _concat(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.concatenate([array for array in arrays if array is not None], axis=op.attributes["axis"])


def _clip(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = _first(arrays)
    low, high = (*arrays[1:], None, None)[:2]
    low = op.attributes.get("min") if low is None else low
    high = op.attributes.get("max") if high is None else high
    return held if low is None and high is None else np.clip(held, low, high).astype(held.dtype)


def _full(op: Op, arrays: Arrays) -> NDArray[Any]:
    shape = _first(arrays).reshape(-1).tolist()
    value = op.attributes.get("value", np.zeros(1, dtype=np.float32))
    return np.full(shape, value.reshape(-1)[0], dtype=value.dtype)


def _expand(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = _first(arrays)
    shape = np.broadcast_shapes(held.shape, tuple(_given(arrays, 1).reshape(-1).tolist()))
    return np.ascontiguousarray(np.broadcast_to(held, shape))


def _reduce(function: Callable[..., Any]) -> Fold:
    def run(op: Op, arrays: Arrays) -> NDArray[Any]:
        axes = axes_of(op, arrays)
        keep = bool(op.attributes.get("keepdims", 1))
        held = _first(arrays)
        return np.asarray(function(held, axis=None if axes is None else tuple(axes), keepdims=keep)).astype(held.dtype)

    return run


def bipolar(values: Reals, scale: NDArray[Any]) -> NDArray[Any]:
    """Return what QONNX's BipolarQuant gives: +scale from 0 on, else -scale."""
    return np.where(values >= 0, scale, -scale)


def _bipolar(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = _first(arrays)
    return bipolar(held, _given(arrays, 1)).astype(held.dtype)


ROUNDINGS: Mapping[str, Callable[[Any], Any]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
}
"""Rounding modes of QONNX's Quant that are taken."""


def steps_of(op: Op, width: NDArray[Any]) -> tuple[int, int]:
    """Return the least and the largest code of QONNX's Quant.

    Raises:
        RefusalError: its width is no whole number from 1 to 32.
    """
    bits = float(width.reshape(-1)[0]) if width.size == 1 else 0.0
    if bits != int(bits) or not 1 <= bits <= 32:
        raise RefusalError("its bit width is no whole number from 1 to 32", "export the network again")
    signed, narrow = bool(op.attributes.get("signed", 1)), bool(op.attributes.get("narrow", 1))
    if signed and bits == 1:
        return -1, 1
    if signed:
        half = 2 ** (int(bits) - 1)
        return (1 - half if narrow else -half), half - 1
    return 0, 2 ** int(bits) - (2 if narrow else 1)


def rounding_of(op: Op) -> str:
    """Return the rounding mode of a Quant.

    Raises:
        RefusalError: it is not taken.
    """
    mode = str(op.attributes.get("rounding_mode", "ROUND")).upper()
    if mode not in ROUNDINGS:
        raise RefusalError(f"its rounding mode {mode[:20]!r} is not taken", f"use one of {', '.join(ROUNDINGS)}")
    return mode


def _quant(op: Op, arrays: Arrays) -> NDArray[Any]:
    held, scale, zero, width = (_given(arrays, i) for i in range(4))
    low, high = steps_of(op, width)
    codes = held / scale + zero
    if (low, high) == (-1, 1) and width.reshape(-1)[0] == 1:
        codes = np.where(codes >= 0, np.float32(1), np.float32(-1))
    else:
        codes = ROUNDINGS[rounding_of(op)](np.clip(codes, low, high))
    return np.asarray((codes - zero) * scale).astype(held.dtype)


FOLDS: Mapping[str, Fold] = {
    "Abs": _elementwise(np.abs, 1),
    "Add": _elementwise(np.add, 2),
    "BipolarQuant": _bipolar,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _full,
    "Div": _elementwise(_divide, 2),
    "Equal": _elementwise(np.equal, 2),
    "Expand": _expand,
    "Exp": _elementwise(np.exp, 1),
    "Flatten": _flatten,
    "Gather": _gather,
    "Greater": _elementwise(np.greater, 2),
    "GreaterOrEqual": _elementwise(np.greater_equal, 2),
    "Identity": lambda op, arrays: _first(arrays),
    "IntQuant": _quant,
    "Less": _elementwise(np.less, 2),
    "LessOrEqual": _elementwise(np.less_equal, 2),
    "Max": _elementwise(np.maximum, 2),
    "Min": _elementwise(np.minimum, 2),
    "Mul": _elementwise(np.multiply, 2),
    "Neg": _elementwise(np.negative, 1),
    "Not": _elementwise(np.logical_not, 1),
    "Pow": _elementwise(_power, 2),
    "Quant": _quant,
    "Reciprocal": _elementwise(np.reciprocal, 1),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Relu": _elementwise(lambda x: np.maximum(x, x.dtype.type(0)), 1),
    "Reshape": _reshape,
    "Sign": _elementwise(np.sign, 1),
    "Slice": _slice,
    "Sqrt": _elementwise(np.sqrt, 1),
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract, 2),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _elementwise(np.where, 3),
}

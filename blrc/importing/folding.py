"""Compute nodes whose inputs are all constants, with NumPy in the types of the file (float32 stays float32)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.importing.file import Fault, Op, Subgraph, shown
from blrc.importing.quantisers import Arrays, bipolar_quant, given, quant
from blrc.importing.refusal import RefusalError

MOST_VALUES = 2**26
"""Limit the values of a constant that is computed to those of a dense layer of 8,192 x 8,192."""
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
            f"constants go through {shown(op.kind)}, which is not computed here",
            "fold constants when you export the network",
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


_OF_FIRST = ("DequantizeLinear", "Flatten", "Reshape", "Shape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
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
        return np.asarray(function(*held))

    return run


def _of_all(function: Callable[..., Any]) -> Fold:
    """Return how a node of any number of inputs is computed, two by two."""
    return lambda op, arrays: np.asarray(reduce(function, [each for each in arrays if each is not None]))


def _divide(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.trunc(a / b).astype(a.dtype) if a.dtype.kind in "iu" else a / b)


def _power(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return powers, in the type of what they are of; the exponents may have another."""
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
    if len(arrays) > 1 and arrays[1] is not None:
        if held is not None:
            raise RefusalError("its axes are an attribute and an input as well", "export the network again")
        held = arrays[1].reshape(-1).tolist()
    if held is not None and not all(isinstance(axis, int) for axis in held):
        raise RefusalError(f"its axes are {str(held)[:40]}", "give whole numbers")
    return held


def _unsqueeze(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.expand_dims(given(arrays), tuple(axes_of(op, arrays) or ()))


def _squeeze(op: Op, arrays: Arrays) -> NDArray[Any]:
    axes = axes_of(op, arrays)
    return np.squeeze(given(arrays), None if axes is None else tuple(axes))


def _reshape(op: Op, arrays: Arrays) -> NDArray[Any]:
    held, wanted = given(arrays), given(arrays, 1).reshape(-1).tolist()
    return held.reshape([held.shape[i] if n == 0 else n for i, n in enumerate(wanted)])


def _flatten(op: Op, arrays: Arrays) -> NDArray[Any]:
    held, axis = given(arrays), op.attributes.get("axis", 1)
    return held.reshape(int(np.prod(held.shape[:axis])), -1)


def _transpose(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.transpose(given(arrays), op.attributes.get("perm"))


def _gather(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.take(given(arrays), given(arrays, 1), axis=op.attributes.get("axis", 0))


def _slice(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = given(arrays)
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


def part_of_shape(op: Op) -> slice:
    """Return which of the sizes a Shape gives."""
    return slice(op.attributes.get("start", 0), op.attributes.get("end"))


def _cast(op: Op, arrays: Arrays) -> NDArray[Any]:
    to = op.attributes["to"]
    if to not in _TYPES:
        raise RefusalError(f"it casts a constant to ONNX's type {str(to)[:20]}", "cast to float32")
    return given(arrays).astype(_TYPES[to])


def _concat(op: Op, arrays: Arrays) -> NDArray[Any]:
    return np.concatenate([array for array in arrays if array is not None], axis=op.attributes["axis"])


def _clip(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = given(arrays)
    low, high = (*arrays[1:], None, None)[:2]
    low = op.attributes.get("min") if low is None else low
    high = op.attributes.get("max") if high is None else high
    return held if low is None and high is None else np.clip(held, low, high).astype(held.dtype)


def _hard_sigmoid(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = given(arrays)
    alpha, beta = (op.attributes.get(name, default) for name, default in (("alpha", 0.2), ("beta", 0.5)))
    return np.asarray(np.clip(held.dtype.type(alpha) * held + held.dtype.type(beta), 0, 1), dtype=held.dtype)


def _dequantize(op: Op, arrays: Arrays) -> NDArray[Any]:
    """Return (x - zero point) scale, in the type of the scale; both are one number, or lie along an axis."""
    held, scale = given(arrays), given(arrays, 1)
    zero = arrays[2] if len(arrays) > 2 else None
    if scale.size > 1:
        axis = op.attributes.get("axis", 1)
        if scale.ndim > 1 or not isinstance(axis, int) or not -held.ndim <= axis < held.ndim:
            raise RefusalError("its scales lie along no axis of what it reads", "give one for each output channel")
        tail = held.ndim - 1 - axis % held.ndim
        scale = scale.reshape(-1, *[1] * tail)
    less = np.zeros(1, np.int64) if zero is None else zero.astype(np.int64)
    less = less.reshape(scale.shape) if less.size == scale.size else less
    return np.asarray((held.astype(np.int64) - less).astype(scale.dtype) * scale)


def _full(op: Op, arrays: Arrays) -> NDArray[Any]:
    shape = given(arrays).reshape(-1).tolist()
    value = op.attributes.get("value", np.zeros(1, dtype=np.float32))
    return np.full(shape, value.reshape(-1)[0], dtype=value.dtype)


def _expand(op: Op, arrays: Arrays) -> NDArray[Any]:
    held = given(arrays)
    shape = np.broadcast_shapes(held.shape, tuple(given(arrays, 1).reshape(-1).tolist()))
    return np.ascontiguousarray(np.broadcast_to(held, shape))


def _reduce(function: Callable[..., Any]) -> Fold:
    def run(op: Op, arrays: Arrays) -> NDArray[Any]:
        axes, held = axes_of(op, arrays), given(arrays)
        if not held.size:
            raise RefusalError("it reduces a constant without values", "export the network again")
        keep = bool(op.attributes.get("keepdims", 1))
        if not axes and op.attributes.get("noop_with_empty_axes", 0):
            return held
        return np.asarray(function(held, axis=tuple(axes) if axes else None, keepdims=keep)).astype(held.dtype)

    return run


FOLDS: Mapping[str, Fold] = {
    "Abs": _elementwise(np.abs, 1),
    "Add": _elementwise(np.add, 2),
    "BipolarQuant": bipolar_quant,
    "Cast": _cast,
    "Ceil": _elementwise(np.ceil, 1),
    "Clip": _clip,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _full,
    "DequantizeLinear": _dequantize,
    "Div": _elementwise(_divide, 2),
    "Equal": _elementwise(np.equal, 2),
    "Expand": _expand,
    "Exp": _elementwise(np.exp, 1),
    "Flatten": _flatten,
    "Floor": _elementwise(np.floor, 1),
    "Gather": _gather,
    "Greater": _elementwise(np.greater, 2),
    "GreaterOrEqual": _elementwise(np.greater_equal, 2),
    "HardSigmoid": _hard_sigmoid,
    "Identity": lambda op, arrays: given(arrays),
    "IntQuant": quant,
    "Less": _elementwise(np.less, 2),
    "LessOrEqual": _elementwise(np.less_equal, 2),
    "Max": _of_all(np.maximum),
    "Min": _of_all(np.minimum),
    "Mul": _elementwise(np.multiply, 2),
    "Neg": _elementwise(np.negative, 1),
    "Not": _elementwise(np.logical_not, 1),
    "Pow": _elementwise(_power, 2),
    "Quant": quant,
    "Reciprocal": _elementwise(np.reciprocal, 1),
    "ReduceL1": _reduce(lambda x, **options: np.abs(x).sum(**options)),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Relu": _elementwise(lambda x: np.maximum(x, x.dtype.type(0)), 1),
    "Reshape": _reshape,
    "Round": _elementwise(np.round, 1),
    "Shape": lambda op, arrays: np.array(given(arrays).shape, dtype=np.int64)[part_of_shape(op)],
    "Sign": _elementwise(np.sign, 1),
    "Slice": _slice,
    "Sqrt": _elementwise(np.sqrt, 1),
    "Squeeze": _squeeze,
    "Sub": _elementwise(np.subtract, 2),
    "Sum": _of_all(np.add),
    "Tanh": _elementwise(np.tanh, 1),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _elementwise(np.where, 3),
}

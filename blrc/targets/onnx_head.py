"""The head (`blrc/head.py`, which is the law) in standard ops on int64.

All members at once, in tensors (N, members, classes). Numbers are kept non-negative up to the last negation, so a shift
right is `Div` by a power of two. These ops are exact on int64 in every ONNX Runtime since 1.17. A node takes about
half a microsecond in ONNX Runtime, however small the batch: the interpolations are written with few.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper

from blrc import head
from blrc.targets.onnx_nodes import Graph

_INDEXES = np.arange(256, dtype=np.int64)
OUTPUTS = ("label", "log_p", "mean", "variance", "members")


def outputs(classes: int) -> list[onnx.ValueInfoProto]:
    """Descriptions of OUTPUTS."""
    shape: dict[str, list[str | int]] = {"log_p": ["N", classes]}
    return [helper.make_tensor_value_info(name, TensorProto.INT64, shape.get(name, ["N"])) for name in OUTPUTS]


def scores_info(members: int, classes: int) -> onnx.ValueInfoProto:
    """Description of `scores`."""
    shape: list[str | int] = ["N", classes] if members == 1 else ["N", members, classes]
    return helper.make_tensor_value_info("scores", TensorProto.INT32, shape)


def lower_head(graph: Graph, scores: Sequence[str], scale: head.Scale, classes: int, gate: int = 0) -> None:
    """From the members' scores, int32 (N, classes) each, to `scores` and OUTPUTS.

    With one member its tensor is `scores` already; the scores of several are stacked to (N, members, classes). Behind a
    gate every member is computed all the same; where the first answers alone, the others' part of the sums is 0.
    """
    node, number = graph.node, partial(graph.scalar, "int64")
    of_members, of_classes = _axes(graph, 1), _axes(graph, 2)
    if len(scores) == 1:
        stack = node("Unsqueeze", [scores[0], of_members], "head/scores")
    else:
        rows = {name: node("Unsqueeze", [name, of_members], f"{name}/row") for name in dict.fromkeys(scores)}
        stack = node("Concat", [rows[name] for name in scores], "scores", axis=1)
    wide = node("Cast", [stack], "head/wide", to=TensorProto.INT64)
    behind = node("Sub", [node("ReduceMax", [wide], "head/top", axes=[2]), wide], "head/behind")
    scaled = node("Mul", [behind, number(scale.multiplier)], "head/scaled")
    if scale.shift:
        scaled = node("Add", [scaled, number(1 << (scale.shift - 1))], "head/rounded")
        scaled = _shift(graph, scaled, scale.shift, "head/shifted")
    d = node("Min", [scaled, number(head.CAP)], "head/d")
    total = node("ReduceSum", [exp2(graph, d, "head/exp"), of_classes], "head/total")
    lost = node("Add", [d, log2(graph, total, classes, "head/log")], "head/lost")
    lost = node("Min", [lost, number(head.FLOOR)], "head/floored")
    half = 1 << (head.EXP_BITS - head.FRACTION_BITS - 1)
    p = node("Add", [exp2(graph, lost, "head/p30"), number(half)], "head/p_rounded")
    p = _shift(graph, p, head.EXP_BITS - head.FRACTION_BITS, "head/p")
    used = None
    if gate:
        used = _used(graph, p, len(scores), gate)
        lost = node("Mul", [lost, used], "head/lost_used")
        p = node("Mul", [p, used], "head/p_used")
    all_lost = node("ReduceSum", [lost, of_members], "head/all_lost", keepdims=0)
    log_p = node("Neg", [all_lost], "log_p")
    # ONNX Runtime 1.17 has no ArgMax of int64; `head.MAX_MEMBERS` is so that these sums fit int32.
    narrow = node("Cast", [log_p], "head/narrow", to=TensorProto.INT32)
    label = node("ArgMax", [narrow], "head/label", axis=1, keepdims=1, select_last_index=0)
    node("Squeeze", [label, of_members], "label")
    _moments(graph, p, label, len(scores), used)


def _used(graph: Graph, p: str, members: int, gate: int) -> str:
    """int64 (N, members, 1): 1 for the first member, and for the others where its largest p is below `gate`, else 0."""
    node = graph.node
    first = node("Gather", [p, graph.constant("int64/[0]", np.array([0], dtype=np.int64))], "head/first", axis=1)
    top = node("ReduceMax", [first], "head/first_top", axes=[2])
    below = node("Less", [top, graph.scalar("int64", gate)], "head/below")
    others = node("Cast", [below], "head/others", to=TensorProto.INT64)
    always = np.zeros((1, members, 1), dtype=np.int64)
    always[0, 0] = 1
    return node("Max", [others, graph.constant("head/always", always)], "head/used")


def _moments(graph: Graph, p: str, label: str, members: int, used: str | None) -> None:
    """Members, mean and variance of the label's p; ``label`` is (N, 1), p (N, members, classes)."""
    node, number = graph.node, partial(graph.scalar, "int64")
    axis = _axes(graph, 1)
    # GatherElements wants an index for every member: sum first, as `head.Sums` does.
    total = node("ReduceSum", [p, axis], "head/sum_p", keepdims=0)
    total = node("GatherElements", [total, label], "head/label_p", axis=1)
    squares = node("ReduceSum", [node("Mul", [p, p], "head/p2"), axis], "head/sum_p2", keepdims=0)
    squares = node("GatherElements", [squares, label], "head/label_p2", axis=1)
    if used is None:
        count, count_2 = number(members), number(members**2)
        shape = node("Shape", ["label"], "head/samples")
        one = helper.make_tensor("value", TensorProto.INT64, [1], [members])
        node("ConstantOfShape", [shape], "members", value=one)
    else:
        count = node("ReduceSum", [used, _axes(graph, 1)], "head/count", keepdims=0)
        count_2 = node("Mul", [count, count], "head/count_2")
        node("Squeeze", [count, axis], "members")
    node("Squeeze", [node("Div", [total, count], "head/mean"), axis], "mean")
    spread = node(
        "Sub",
        [node("Mul", [squares, count], "head/n_p2"), node("Mul", [total, total], "head/sum_p_2")],
        "head/spread",
    )
    node("Squeeze", [node("Div", [spread, count_2], "head/variance"), axis], "variance")


def exp2(graph: Graph, d: str, name: str) -> str:
    """`head.exp2`. With f = d mod 2^16, j = f / 2^8 and step = table[j] - table[j + 1], its three roundings are one:

    (table[j] - ((step (f - 2^8 j) + 2^7) >> 8)) >> whole = (start[j] - step f) >> (8 + whole),
    start[j] = 2^8 table[j] + 2^8 - 1 - 2^7 + 2^8 j step
    """
    node, number = graph.node, partial(graph.scalar, "int64")
    table = head.exp2_table()
    steps = table[:-1] - table[1:]
    starts = (table[:-1] << 8) + 127 + (_INDEXES << 8) * steps
    f = node("Mod", [d, number(1 << 16)], f"{name}/f")
    j = _shift(graph, f, 8, f"{name}/j")
    start = node("Gather", [graph.constant("head/exp2/starts", starts), j], f"{name}/start")
    step = node("Gather", [graph.constant("head/exp2/steps", steps), j], f"{name}/step")
    value = node("Sub", [start, node("Mul", [step, f], f"{name}/fall")], f"{name}/value")
    powers = graph.constant("head/exp2/powers", 1 << np.arange(8, 8 + 32, dtype=np.int64))
    return node("Div", [value, node("Gather", [powers, _shift(graph, d, 16, f"{name}/whole")], f"{name}/power")], name)


def log2(graph: Graph, total: str, classes: int, name: str) -> str:
    """`head.log2` of a sum over `classes`, each at most 2^30.

    With tail = (total >> (power + 6)) - 2^24, j = tail / 2^16, step = table[j + 1] - table[j], its roundings are one:

        (table[j] + (step (tail - 2^16 j) >> 16) + 2^7) >> 8 = (start[j] + step tail) >> 24,
        start[j] = 2^16 (table[j] + 2^7 - j step)
    """
    node, number = graph.node, partial(graph.scalar, "int64")
    table = head.log2_table()
    steps = table[1:] - table[:-1]
    starts = (table[:-1] + 128 - _INDEXES * steps) << 16
    powers = np.arange(classes.bit_length(), dtype=np.int64)
    reach = graph.constant("head/log2/reach", 1 << (head.EXP_BITS + powers[1:]))
    above = node("GreaterOrEqual", [total, reach], f"{name}/above")
    above = node("Cast", [above], f"{name}/ones", to=TensorProto.INT64)
    power = node("ReduceSum", [above, _axes(graph, 2)], f"{name}/power")
    unit = node("Gather", [graph.constant("head/log2/units", 1 << (powers + 6)), power], f"{name}/unit")
    tail = node("Sub", [node("Div", [total, unit], f"{name}/scaled"), number(1 << 24)], f"{name}/tail")
    j = _shift(graph, tail, 16, f"{name}/j")
    start = node("Gather", [graph.constant("head/log2/starts", starts), j], f"{name}/start")
    step = node("Gather", [graph.constant("head/log2/steps", steps), j], f"{name}/step")
    value = node("Add", [start, node("Mul", [step, tail], f"{name}/rise")], f"{name}/value")
    fraction = _shift(graph, value, 24, f"{name}/fraction")
    return node("Add", [node("Mul", [power, number(head.ONE)], f"{name}/whole"), fraction], name)


def _shift(graph: Graph, x: str, bits: int, name: str) -> str:
    return graph.node("Div", [x, graph.scalar("int64", 1 << bits)], name)


def _axes(graph: Graph, axis: int) -> str:
    return graph.constant(f"int64/[{axis}]", np.array([axis], dtype=np.int64))

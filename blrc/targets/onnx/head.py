"""Write the head in standard ops on int32. `blrc.program.head` defines what it computes; it is called the law here.

The numbers of the law need up to 43 bits. Here they are split into digits, so that every step is exact in runtimes that
narrow int64 to int32, and in those that compute some ops on int32 in float32; `blrc.targets.onnx.ints` says which, and
asserts the ranges. A node takes up to half a microsecond in ONNX Runtime, however small the batch.

The label of a single network is the first maximum of its scores; `head.SMALLEST_SCALE` says why the law gives the same.
Its mean is the probability that belongs to log2 of the sum. The five outputs fit int32; the last node of each turns it
into int64.

Outputs that are the same for every sample are made by `Clip`. `Shape` with `ConstantOfShape` would do, too, but
OpenVINO 2026.4 computes other scores where a file has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from blrc.program import head
from blrc.targets.onnx.ints import EXACT, ROOM, Arithmetic, Digits, Int
from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.softmax import bits_behind, log2, powers_sum, probability

OUTPUTS = ("label", "log_p", "mean", "variance", "members")
LARGEST_BEHIND = 2**31 - 2  # legal.py keeps scores within 2^30 of 0
LARGEST_VARIANCE = 2**30  # of numbers from 0 to 2^16: (2^16 / 2)^2


def outputs(classes: int) -> list[onnx.ValueInfoProto]:
    """Describe the tensors of `OUTPUTS`."""
    shape: dict[str, list[str | int]] = {"log_p": ["N", classes]}
    return [helper.make_tensor_value_info(name, TensorProto.INT64, shape.get(name, ["N"])) for name in OUTPUTS]


def scores_info(members: int, classes: int, kind: int = TensorProto.INT32) -> onnx.ValueInfoProto:
    """Describe the tensor `scores`."""
    shape: list[str | int] = ["N", classes] if members == 1 else ["N", members, classes]
    return helper.make_tensor_value_info("scores", kind, shape)


def stack_scores(graph: Graph, scores: Sequence[str], classes: int) -> str:
    """Return the tensor of all members' scores: one member's own, (N, classes), or `scores`, (N, members, classes).

    The scores are stacked by one `Reshape`, because OpenCV 4 gets another shape from `Unsqueeze` and `Concat`.
    """
    if len(scores) == 1:
        return scores[0]
    row = graph.node("Concat", list(scores), "scores/row", axis=1)
    return graph.node("Reshape", [row, graph.integers(-1, len(scores), classes)], "scores")


def lower_head(graph: Graph, scores: Sequence[str], scale: head.Scale, classes: int, gate: int = 0) -> None:
    """Add the nodes from the members' scores, int32 (N, classes) each, to `scores` and `OUTPUTS`.

    Every member is computed even if there is a gate. Where the gate lets the first member answer alone, its answer is
    chosen afterwards.
    """
    ints, members = Arithmetic(graph), len(scores)
    stack = stack_scores(graph, scores, classes)
    axis = 1 if members == 1 else 2
    best = graph.node("ArgMax", [stack], "head/best", axis=axis, keepdims=1, select_last_index=0)
    graph.node("GatherElements", [stack, best], "head/top", axis=axis)
    graph.node("Sub", ["head/top", stack], "head/behind")
    d = bits_behind(ints, Int("head/behind", 0, LARGEST_BEHIND), scale, "head/d")
    log = log2(ints, powers_sum(ints, d, axis, classes, "head/sum"), axis, classes, "head/log")
    lost = ints.clip(ints.add(d, log, "head/far"), 0, head.FLOOR, "head/lost")
    if members == 1:
        graph.node("Squeeze", [best, graph.integers(1)], "label")
        _wide(graph, graph.node("Neg", [lost.name], "head/log_p"), "log_p")
        p = probability(ints, log, "head/p")
        _give(graph, p, "mean")
        _give(graph, ints.clip(p, 0, 0, "head/variance"), "variance")
        _give(graph, ints.clip(p, 1, 1, "head/members"), "members")
    else:
        _ensemble(ints, lost, log, members, gate)


def _ensemble(ints: Arithmetic, lost: Int, log: Int, members: int, gate: int) -> None:
    """Add the answer of several members: `lost` is (N, members, classes), `log` is (N, members, 1)."""
    graph = ints.graph
    digits = ints.total(lost, 1, members, "head/all_lost", keepdims=False)
    all_lost = ints.joined(digits, members * head.FLOOR, "head/all_lost/number")
    alone = _alone(ints, log, gate) if gate else None
    if alone:
        all_lost = _choose(graph, alone, _first(graph, lost), all_lost, "head/used_lost")
    log_p = graph.node("Neg", [all_lost.name], "head/log_p")
    _wide(graph, log_p, "log_p")
    label = graph.node("ArgMax", [log_p], "head/label", axis=1, keepdims=1, select_last_index=0)
    graph.node("Squeeze", [label, graph.integers(1)], "label")
    # The label's probability by every member.
    label = graph.node("Unsqueeze", [label, graph.integers(2)], "head/label/one")
    label = graph.node("Tile", [label, graph.integers(1, members, 1)], "head/label/every")
    graph.node("GatherElements", [lost.name, label], "head/label/lost", axis=2)
    p = probability(ints, Int("head/label/lost", lost.low, lost.high), "head/p")
    mean, variance = moments(ints, p, members)
    if alone:
        mean = _choose(graph, alone, _first(graph, p), mean, "head/used_mean")
        variance = _choose(graph, alone, Int(graph.scalar("int32", 0), 0, 0), variance, "head/used_variance")
        one, every = Int(graph.scalar("int32", 1), 1, 1), Int(graph.scalar("int32", members), members, members)
        _give(graph, _choose(graph, alone, one, every, "head/members"), "members")
    else:
        _give(graph, ints.clip(mean, members, members, "head/members"), "members")
    _give(graph, mean, "mean")
    _give(graph, variance, "variance")


def moments(ints: Arithmetic, p: Int, members: int) -> tuple[Int, Int]:
    """Return mean and variance over members, (N, 1) each, of p, which is (N, members, 1).

    The sum of p divided by n gives the mean and a rest. With deviations from that mean, the law's variance is

        (n sum p^2 - (sum p)^2) // n^2 = (n sum deviation^2 - rest^2) // n^2
                                       = (sum deviation^2 - ceil(rest^2 / n)) // n
    """

    def total(x: Int, shift: int, name: str) -> Digits:
        return [(digit, at + shift) for digit, at in ints.total(x, 1, members, name, keepdims=False, limit=ROOM)]

    mean, rest = ints.quotient(total(p, 0, "head/sum_p"), members, head.ONE, "head/mean")
    every = ints.graph.node("Unsqueeze", [mean.name, ints.graph.integers(1)], "head/mean/every")
    deviation = ints.subtract(p, Int(every, mean.low, mean.high), "head/deviation")
    size = Int(ints.graph.node("Abs", [deviation.name], "head/deviation/size"), 0, head.ONE)
    a, b = ints.divide(size, 256, "head/deviation/high"), ints.remainder(size, 256, "head/deviation/low")
    digits = [
        *total(ints.multiply(a, a, "head/square/high"), 16, "head/squares/high"),
        *total(ints.multiply(a, b, "head/square/middle"), 9, "head/squares/middle"),
        *total(ints.multiply(b, b, "head/square/low"), 0, "head/squares/low"),
    ]
    digits.sort(key=lambda digit: -digit[1])
    # Subtract the ceiling from n and the lowest digit, which stays positive; the quotient is then one too large.
    squared = ints.add(ints.multiply(rest, rest, "head/rest/squared"), members - 1, "head/rest/up")
    ceiling = ints.divide(squared, members, "head/rest/ceiling")
    last = ints.add(digits[-1][0], members, "head/squares/lifted")
    last = ints.known(ints.subtract(last, ceiling, "head/squares/corrected"), 0, last.high)
    above, _ = ints.quotient([*digits[:-1], (last, 0)], members, LARGEST_VARIANCE + 1, "head/variance")
    return mean, ints.subtract(above, 1, "head/variance/number")


def last_alone(gate: int, largest: int) -> int:
    """Return the largest negated log-probability, in Q16, whose probability is at least `gate`.

    Only numbers up to `largest` are considered.
    """
    lost = np.arange(largest + 1)
    return int(np.flatnonzero(head.probabilities(-lost) >= gate)[-1])


def _alone(ints: Arithmetic, log: Int, gate: int) -> str:
    """Return where the first member answers alone, bool (N, 1); the log-probability of its label is -log."""
    graph = ints.graph
    assert log.low >= 0 and log.high <= EXACT
    first = _first(graph, log)
    limit = graph.scalar("int32", last_alone(gate, log.high))
    return graph.node("GreaterOrEqual", [limit, first.name], "head/alone")


def _first(graph: Graph, x: Int) -> Int:
    """Return the first member's part of (N, members, ...), without that axis."""
    part = graph.node("Gather", [x.name, graph.scalar("int32", 0)], f"{x.name}/first", axis=1)
    return Int(part, x.low, x.high)


def _choose(graph: Graph, condition: str, yes: Int, no: Int, name: str) -> Int:
    graph.node("Where", [condition, yes.name, no.name], name)
    return Int(name, min(yes.low, no.low), max(yes.high, no.high))


def _give(graph: Graph, x: Int, name: str) -> None:
    """Add the output `name`, (N,), made from `x`, (N, 1)."""
    _wide(graph, graph.node("Squeeze", [x.name, graph.integers(1)], f"{x.name}/row"), name)


def _wide(graph: Graph, x: str, name: str) -> None:
    graph.node("Cast", [x], name, to=TensorProto.INT64)

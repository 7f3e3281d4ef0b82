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

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from blrc.program import head
from blrc.program.program import Program
from blrc.targets.onnx.ints import EXACT, ROOM, Arithmetic, Digits, Int
from blrc.targets.onnx.nodes import Graph
from blrc.targets.onnx.softmax import bits_behind, log2, powers_sum, probability

OUTPUTS = ("label", "log_p", "mean", "variance", "members")
MEMBERS = "members"
SUM, VALUES = "sum", "values"
LARGEST_BEHIND = 2**31 - 2  # legal.py keeps scores within 2^30 of 0
LARGEST_VARIANCE = 2**30  # of numbers from 0 to 2^16: (2^16 / 2)^2


def outputs(classes: int, head: str = "") -> list[onnx.ValueInfoProto]:
    """Describe the tensors of `OUTPUTS`, those of a head of several under its name; all have `members` in common."""
    shape: dict[str, list[str | int]] = {"log_p": ["N", classes]}
    names = {name: output_name(name, head) for name in OUTPUTS}
    return [
        helper.make_tensor_value_info(called, TensorProto.INT64, shape.get(name, ["N"]))
        for name, called in names.items()
        if name != MEMBERS or not head
    ]


def value_infos(program: Program) -> list[onnx.ValueInfoProto]:
    """Describe the outputs of a network of values beside the scores: `SUM` where there are members, and `VALUES`."""
    found = []
    for called, part in zip([each.name for each in program.heads] or [""], program.parts, strict=True):
        shape: list[str | int] = ["N", part.place.stop - part.place.start]
        if len(program.members) > 1:
            found.append(helper.make_tensor_value_info(output_name(SUM, called), TensorProto.INT32, shape))
        found.append(helper.make_tensor_value_info(output_name(VALUES, called), TensorProto.FLOAT, shape))
    return found


def lower_values(graph: Graph, scores: Sequence[str], program: Program) -> None:
    """Add the nodes from the members' values to the sums over members and to real values, of each head.

    Sums are added one by one, which is exact on int32 everywhere. Real values are float32: the mean in stated units.
    """
    total = scores[0]
    for index, other in enumerate(scores[1:], 1):
        total = graph.node(
            "Add", [total, other], f"values/sum{index}" if program.heads or index < len(scores) - 1 else SUM
        )
    for place, (called, unit, part) in enumerate(
        zip([each.name for each in program.heads] or [""], program.units, program.parts, strict=True)
    ):
        own, at = total, f"{called}/" if called else ""
        if called:
            bounds = (graph.integers(n) for n in (part.place.start, part.place.stop, 1))
            name = output_name(SUM, called) if len(scores) > 1 else f"{at}values/own"
            own = graph.node("Slice", [total, *bounds], name)
        real = graph.node("Cast", [own], f"{at}values/real", to=TensorProto.FLOAT)
        step, offset = (
            graph.constant(f"float32/{what}{place}", np.array(number, dtype=np.float32))
            for what, number in (("step", unit.scale / len(scores)), ("offset", unit.offset))
        )
        scaled = graph.node("Mul", [real, step], f"{at}values/scaled")
        graph.node("Add", [scaled, offset], output_name(VALUES, called))


def output_name(name: str, head: str) -> str:
    """Return what an output of `OUTPUTS` is called: as it is, or behind the name of its head."""
    return f"{head}.{name}" if head and name != MEMBERS else name


def members_info() -> onnx.ValueInfoProto:
    """Describe the tensor `members`, which all heads have in common."""
    return helper.make_tensor_value_info(MEMBERS, TensorProto.INT64, ["N"])


def scores_info(members: int, classes: int, kind: int = TensorProto.INT32, name: str = "scores") -> onnx.ValueInfoProto:
    """Describe the tensor of the scores, which bears the name of its head where there are several."""
    shape: list[str | int] = ["N", classes] if members == 1 else ["N", members, classes]
    return helper.make_tensor_value_info(name, kind, shape)


def stack_scores(graph: Graph, scores: Sequence[str], classes: int) -> str:
    """Return the tensor of all members' scores: one member's own, (N, classes), or `scores`, (N, members, classes).

    The scores are stacked by one `Reshape`, because OpenCV 4 gets another shape from `Unsqueeze` and `Concat`.
    """
    if len(scores) == 1:
        return scores[0]
    row = graph.node("Concat", list(scores), "scores/row", axis=1)
    return graph.node("Reshape", [row, graph.integers(-1, len(scores), classes)], "scores")


def split_heads(graph: Graph, scores: Sequence[str], program: Program) -> None:
    """Add the scores of each head as an output of its name, in the shape of `stack_scores`."""
    members = len(scores)
    stack = stack_scores(graph, scores, program.classes)
    for each, part in zip(program.heads, program.parts, strict=True):
        bounds = (graph.integers(n) for n in (part.place.start, part.place.stop, 1 if members == 1 else 2))
        graph.node("Slice", [stack, *bounds], each.name)


def lower_heads(graph: Graph, scores: Sequence[str], program: Program) -> None:
    """Add the nodes from the members' scores to the scores of each head, `OUTPUTS` of each, and `members`."""
    split_heads(graph, scores, program)
    members, ints = len(scores), Arithmetic(graph)
    logs = [
        _logs(ints, each.name, members, part.scale, each.classes, f"{each.name}/")
        for each, part in zip(program.heads, program.parts, strict=True)
    ]
    alone = None
    if program.gate:
        gates = [
            _alone(ints, log, program.gate, f"{each.name}/")
            for each, (_, log, _) in zip(program.heads, logs, strict=True)
        ]
        alone = gates[0]
        for i, other in enumerate(gates[1:], 1):
            alone = graph.node("And", [alone, other], f"heads/alone{i}")
    for each, (lost, log, best) in zip(program.heads, logs, strict=True):
        _give_head(ints, lost, log, best, members, lambda: alone, each.name)


def lower_head(graph: Graph, scores: Sequence[str], scale: head.Scale, classes: int, gate: int = 0) -> None:
    """Add the nodes from the members' scores, int32 (N, classes) each, to `scores` and `OUTPUTS`.

    Every member is computed even if there is a gate. Where the gate lets the first member answer alone, its answer is
    chosen afterwards.
    """
    ints, members = Arithmetic(graph), len(scores)
    stack = stack_scores(graph, scores, classes)
    lost, log, best = _logs(ints, stack, members, scale, classes)
    _give_head(ints, lost, log, best, members, lambda: _alone(ints, log, gate) if gate else None)


Alone = Callable[[], str | None]
"""Add the nodes that tell where the first member answers alone, bool (N, 1); None without a gate."""


def _logs(
    ints: Arithmetic, stack: str, members: int, scale: head.Scale, classes: int, at: str = ""
) -> tuple[Int, Int, str]:
    """Return by how much each class is less likely than certain, log2 of the sum, and the position of the best score.

    Args:
        stack: the scores of all members.
        at: what the names of the nodes begin with.
    """
    graph, axis = ints.graph, 1 if members == 1 else 2
    best = graph.node("ArgMax", [stack], f"{at}head/best", axis=axis, keepdims=1, select_last_index=0)
    top = graph.node("GatherElements", [stack, best], f"{at}head/top", axis=axis)
    behind = graph.node("Sub", [top, stack], f"{at}head/behind")
    d = bits_behind(ints, Int(behind, 0, LARGEST_BEHIND), scale, f"{at}head/d")
    log = log2(ints, powers_sum(ints, d, axis, classes, f"{at}head/sum"), axis, classes, f"{at}head/log", at)
    return ints.clip(ints.add(d, log, f"{at}head/far"), 0, head.FLOOR, f"{at}head/lost"), log, best


def _give_head(ints: Arithmetic, lost: Int, log: Int, best: str, members: int, alone: Alone, name: str = "") -> None:
    """Add the outputs of one head, which is called `name` if there are several."""
    graph, at = ints.graph, f"{name}/" if name else ""
    if members > 1:
        _ensemble(ints, lost, members, alone, name)
        return
    graph.node("Squeeze", [best, graph.integers(1)], output_name("label", name))
    _wide(graph, graph.node("Neg", [lost.name], f"{at}head/log_p"), output_name("log_p", name))
    p = probability(ints, log, f"{at}head/p")
    _give(graph, p, output_name("mean", name))
    _give(graph, ints.clip(p, 0, 0, f"{at}head/variance"), output_name("variance", name))
    if MEMBERS not in graph.made:
        _give(graph, ints.clip(p, 1, 1, f"{at}head/members"), MEMBERS)


def _ensemble(ints: Arithmetic, lost: Int, members: int, only: Alone, name: str) -> None:
    """Add the answer of several members: `lost` is (N, members, classes)."""
    graph, at = ints.graph, f"{name}/" if name else ""
    digits = ints.total(lost, 1, members, f"{at}head/all_lost", keepdims=False)
    all_lost = ints.joined(digits, members * head.FLOOR, f"{at}head/all_lost/number")
    alone = only()
    if alone:
        all_lost = _choose(graph, alone, _first(graph, lost), all_lost, f"{at}head/used_lost")
    log_p = graph.node("Neg", [all_lost.name], f"{at}head/log_p")
    _wide(graph, log_p, output_name("log_p", name))
    label = graph.node("ArgMax", [log_p], f"{at}head/label", axis=1, keepdims=1, select_last_index=0)
    graph.node("Squeeze", [label, graph.integers(1)], output_name("label", name))
    # The label's probability by every member.
    label = graph.node("Unsqueeze", [label, graph.integers(2)], f"{at}head/label/one")
    label = graph.node("Tile", [label, graph.integers(1, members, 1)], f"{at}head/label/every")
    of_label = graph.node("GatherElements", [lost.name, label], f"{at}head/label/lost", axis=2)
    p = probability(ints, Int(of_label, lost.low, lost.high), f"{at}head/p")
    mean, variance = moments(ints, p, members, at)
    if alone:
        mean = _choose(graph, alone, _first(graph, p), mean, f"{at}head/used_mean")
        zero = Int(graph.scalar("int32", 0), 0, 0)
        variance = _choose(graph, alone, zero, variance, f"{at}head/used_variance")
        one, every = Int(graph.scalar("int32", 1), 1, 1), Int(graph.scalar("int32", members), members, members)
        if MEMBERS not in graph.made:
            _give(graph, _choose(graph, alone, one, every, f"{at}head/members"), MEMBERS)
    elif MEMBERS not in graph.made:
        _give(graph, ints.clip(mean, members, members, f"{at}head/members"), MEMBERS)
    _give(graph, mean, output_name("mean", name))
    _give(graph, variance, output_name("variance", name))


def moments(ints: Arithmetic, p: Int, members: int, at: str = "") -> tuple[Int, Int]:
    """Return mean and variance over members, (N, 1) each, of p, which is (N, members, 1).

    The sum of p divided by n gives the mean and a rest. With deviations from that mean, the law's variance is

        (n sum p^2 - (sum p)^2) // n^2 = (n sum deviation^2 - rest^2) // n^2
                                       = (sum deviation^2 - ceil(rest^2 / n)) // n
    """

    def total(x: Int, shift: int, name: str) -> Digits:
        return [(digit, at + shift) for digit, at in ints.total(x, 1, members, name, keepdims=False, limit=ROOM)]

    mean, rest = ints.quotient(total(p, 0, f"{at}head/sum_p"), members, head.ONE, f"{at}head/mean")
    every = ints.graph.node("Unsqueeze", [mean.name, ints.graph.integers(1)], f"{at}head/mean/every")
    deviation = ints.subtract(p, Int(every, mean.low, mean.high), f"{at}head/deviation")
    size = Int(ints.graph.node("Abs", [deviation.name], f"{at}head/deviation/size"), 0, head.ONE)
    a, b = ints.divide(size, 256, f"{at}head/deviation/high"), ints.remainder(size, 256, f"{at}head/deviation/low")
    digits = [
        *total(ints.multiply(a, a, f"{at}head/square/high"), 16, f"{at}head/squares/high"),
        *total(ints.multiply(a, b, f"{at}head/square/middle"), 9, f"{at}head/squares/middle"),
        *total(ints.multiply(b, b, f"{at}head/square/low"), 0, f"{at}head/squares/low"),
    ]
    digits.sort(key=lambda digit: -digit[1])
    # Subtract the ceiling from n and the lowest digit, which stays positive; the quotient is then one too large.
    squared = ints.add(ints.multiply(rest, rest, f"{at}head/rest/squared"), members - 1, f"{at}head/rest/up")
    ceiling = ints.divide(squared, members, f"{at}head/rest/ceiling")
    last = ints.add(digits[-1][0], members, f"{at}head/squares/lifted")
    last = ints.known(ints.subtract(last, ceiling, f"{at}head/squares/corrected"), 0, last.high)
    above, _ = ints.quotient([*digits[:-1], (last, 0)], members, LARGEST_VARIANCE + 1, f"{at}head/variance")
    return mean, ints.subtract(above, 1, f"{at}head/variance/number")


def last_alone(gate: int, largest: int) -> int:
    """Return the largest negated log-probability, in Q16, whose probability is at least `gate`.

    Only numbers up to `largest` are considered.
    """
    lost = np.arange(largest + 1)
    return int(np.flatnonzero(head.probabilities(-lost) >= gate)[-1])


def _alone(ints: Arithmetic, log: Int, gate: int, at: str = "") -> str:
    """Return where the first member answers alone, bool (N, 1); the log-probability of its label is -log."""
    graph = ints.graph
    assert log.low >= 0 and log.high <= EXACT
    first = _first(graph, log)
    limit = graph.scalar("int32", last_alone(gate, log.high))
    return graph.node("GreaterOrEqual", [limit, first.name], f"{at}head/alone")


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

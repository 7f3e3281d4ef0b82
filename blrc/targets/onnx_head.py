"""The head (`blrc/head.py`, which is the law) in standard ops on int32.

The numbers of the law need up to 43 bits. Here they are split into digits, so that every step is exact in runtimes
that narrow int64 to int32, and in those that compute some ops on int32 in float32; `onnx_ints` says which, and asserts
the ranges. A node takes up to half a microsecond in ONNX Runtime, however small the batch.

A single network's label is the first maximum of its scores (`head.SMALLEST_SCALE` says why that is the law's), and its
mean is the probability that belongs to log2 of the sum. The five outputs fit int32: they become int64 by the last node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from blrc import head
from blrc.targets.onnx_ints import EXACT, ROOM, Arithmetic, Digits, Int
from blrc.targets.onnx_nodes import Graph

OUTPUTS = ("label", "log_p", "mean", "variance", "members")
LARGEST_BEHIND = 2**31 - 2  # legal.py keeps scores within 2^30 of 0
WHOLE_BITS = 32  # d is below 32 bits; a power of two below 2^-31 is 0 in Q30
FEW_CLASSES = 512  # whose sums of digits of 15 bits stay within 2^24
P_RADIX = 13  # what lies below does not matter to a probability in Q16
LOG_FINE = 4  # entries here for an entry of the table of logarithms
LARGEST_VARIANCE = 2**30  # of numbers from 0 to 2^16: (2^16 / 2)^2


def outputs(classes: int) -> list[onnx.ValueInfoProto]:
    """Descriptions of OUTPUTS."""
    shape: dict[str, list[str | int]] = {"log_p": ["N", classes]}
    return [helper.make_tensor_value_info(name, TensorProto.INT64, shape.get(name, ["N"])) for name in OUTPUTS]


def scores_info(members: int, classes: int) -> onnx.ValueInfoProto:
    """Description of `scores`."""
    shape: list[str | int] = ["N", classes] if members == 1 else ["N", members, classes]
    return helper.make_tensor_value_info("scores", TensorProto.INT32, shape)


def stack_scores(graph: Graph, scores: Sequence[str]) -> str:
    """The tensor of all members' scores. One member's is (N, classes); several become `scores`, (N, members, classes)."""
    if len(scores) == 1:
        return scores[0]
    axes = graph.integers(1)
    rows = {name: graph.node("Unsqueeze", [name, axes], f"{name}/row") for name in dict.fromkeys(scores)}
    return graph.node("Concat", [rows[name] for name in scores], "scores", axis=1)


def lower_head(graph: Graph, scores: Sequence[str], scale: head.Scale, classes: int, gate: int = 0) -> None:
    """From the members' scores, int32 (N, classes) each, to `scores` and OUTPUTS.

    Behind a gate every member is computed all the same; where the first answers alone, its answer is chosen.
    """
    ints, members = Arithmetic(graph), len(scores)
    stack = stack_scores(graph, scores)
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
        _give(graph, probability(ints, log, "head/p"), "mean")
        _constant(graph, "variance", 0)
        _constant(graph, "members", 1)
    else:
        _ensemble(ints, lost, log, members, gate)


def _ensemble(ints: Arithmetic, lost: Int, log: Int, members: int, gate: int) -> None:
    """The answer of several members: `lost` is (N, members, classes), `log` is (N, members, 1)."""
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
        variance = _choose(graph, alone, _scalar(graph, 0), variance, "head/used_variance")
        _give(graph, _choose(graph, alone, _scalar(graph, 1), _scalar(graph, members), "head/members"), "members")
    else:
        _constant(graph, "members", members)
    _give(graph, mean, "mean")
    _give(graph, variance, "variance")


def bits_behind(ints: Arithmetic, behind: Int, scale: head.Scale, name: str) -> Int:
    """d of the law: by how many bits a class lies behind, Q16, from the difference of scores.

    A class that is CAP or more behind adds nothing to the sum and is at the floor, however far it is: the difference is
    cut where d reaches CAP. The multiplier is a whole number and digits of a fraction, each of which, times the
    difference, is exact.
    """
    half = (1 << scale.shift) >> 1
    far = -(-((head.CAP << scale.shift) - half) // scale.multiplier)
    largest = (far * scale.multiplier + half) >> scale.shift
    b = ints.clip(behind, 0, far, f"{name}/near")
    whole, fraction, bits = scale.multiplier >> scale.shift, scale.multiplier & ((1 << scale.shift) - 1), scale.shift
    d = ints.multiply(b, whole, f"{name}/whole")
    while fraction and fraction % 2 == 0:
        fraction, bits = fraction // 2, bits - 1
    carry: Int | None = None
    width = (EXACT // (far + 1)).bit_length() - 1
    assert width > 0, f"{name}: the scale is below head.SMALLEST_SCALE"
    for place in range(0, bits if fraction else 0, width):
        own, taken = f"{name}/{place}", min(width, bits - place)
        x = ints.multiply(b, (fraction >> place) & ((1 << taken) - 1), f"{own}/part")
        if carry is not None:
            x = ints.add(x, carry, f"{own}/carried")
        if place + taken == bits:
            x = ints.add(x, 1 << (taken - 1), f"{own}/rounded")
        carry = ints.divide(x, 1 << taken, f"{own}/over")
    if carry is not None:
        d = ints.add(d, carry, f"{name}/sum")
    d = ints.known(d, 0, largest)
    return d if largest < WHOLE_BITS * head.ONE else ints.clip(d, 0, head.CAP, f"{name}/capped")


def _power(ints: Arithmetic, d: Int, radix: int, name: str) -> tuple[Int, Int, Int]:
    """2^-(fraction of d) in Q30: its bits from `radix` on, an unfinished number whose low `radix` bits are the rest, and
    the whole part of d.

    The law's table[j] - ((step rest + 128) >> 8) is table[j + 1] + ((step (256 - rest) + 127) >> 8), in which nothing is
    negative. A step has 22 bits: 256 x coarse + fine.
    """
    table = head.exp2_table()
    steps = table[:-1] - table[1:]
    unit = 1 << radix
    position = ints.divide(d, 256, f"{name}/position")
    rest = ints.remainder(d, 256, f"{name}/rest")
    whole = ints.divide(position, 256, f"{name}/whole")
    j = ints.remainder(position, 256, f"{name}/j")
    # 256 - rest
    short = Int(ints.graph.node("Sub", [_scalar(ints.graph, 256).name, rest.name], f"{name}/short"), 1, 256)
    fine = ints.multiply(ints.look_up(steps & 255, j, "head/exp2/fine", f"{name}/fine"), short, f"{name}/fine/rise")
    fine = ints.divide(ints.add(fine, 127, f"{name}/fine/rounded"), 256, f"{name}/fine/whole")
    coarse = ints.look_up(steps >> 8, j, "head/exp2/coarse", f"{name}/coarse")
    rise = ints.add(ints.multiply(coarse, short, f"{name}/coarse/rise"), fine, f"{name}/rise")
    low = ints.look_up(table[1:] % unit, j, f"head/exp2/below{radix}", f"{name}/base/low")
    low = ints.add(rise, low, f"{name}/low")
    high = ints.look_up(table[1:] >> radix, j, f"head/exp2/from{radix}", f"{name}/base/high")
    high = ints.add(high, ints.divide(low, unit, f"{name}/carry"), f"{name}/high")
    return ints.known(high, 0, 1 << (head.EXP_BITS - radix)), low, whole


def _powers() -> NDArray[np.int64]:
    """2^w, which divides upper digits: they are below 2^30, so that the last power may be as large."""
    return np.asarray(1 << np.minimum(np.arange(WHOLE_BITS), head.EXP_BITS))


def powers_sum(ints: Arithmetic, d: Int, axis: int, classes: int, name: str) -> tuple[Int, Int, int]:
    """The sum of 2^-d over the classes in Q30: its bits from a radix on, those below, and the radix.

    Of 2^30 x 2^-(fraction of d) = upper x 2^radix + lower, shifted right by the whole part w, the bits from the radix on
    are upper >> w. Below are ((upper mod 2^w) x 2^radix + lower) >> w, where numerator and denominator lose the bits that
    they have beyond 24.
    """
    radix = 15 if classes <= FEW_CLASSES else 18
    unit = 1 << radix
    upper, low, w = _power(ints, d, radix, f"{name}/exp")
    lower = ints.remainder(low, unit, f"{name}/lower")
    ws = np.arange(WHOLE_BITS)
    lost = np.clip(ws + radix - 24, 0, radix)  # bits that the numerator can do without

    def look_up(exponents: NDArray[np.int64], what: str) -> Int:
        return ints.look_up(1 << exponents, w, f"head/exp2/{what}{radix}", f"{name}/{what}")

    power = ints.look_up(_powers(), w, "head/exp2/power", f"{name}/power")
    high = ints.divide(upper, power, f"{name}/high")
    left = ints.remainder(upper, power, f"{name}/left")
    left = ints.multiply(left, look_up(radix - lost, "raise"), f"{name}/left/raised")
    lower = ints.divide(lower, look_up(lost, "lost"), f"{name}/lower/kept")
    numerator = ints.known(ints.add(left, lower, f"{name}/numerator"), 0, EXACT - 1)
    low = ints.known(ints.divide(numerator, look_up(ws - lost, "by"), f"{name}/low"), 0, unit - 1)
    highs = ints.joined(ints.total(high, axis, classes, f"{name}/highs"), EXACT, f"{name}/highs/number")
    carry, rest = ints.carried(ints.total(low, axis, classes, f"{name}/lows"), radix, f"{name}/lows/number")
    total = ints.add(highs, carry, f"{name}/total")
    return ints.known(total, 1 << (head.EXP_BITS - radix), classes << (head.EXP_BITS - radix)), rest, radix


def log2(ints: Arithmetic, total: tuple[Int, Int, int], axis: int, classes: int, name: str) -> Int:
    """`head.log2` of a sum over `classes`.

    tail = (sum >> (power + 6)) - 2^24 has 24 bits. The law interpolates between 257 entries; here are four for one of
    them, on the same lines and with the fractions that they have there, so that 14 bits are left to interpolate, seven
    at a time: (start + step r1 + (step r0 >> 7)) >> 17 is exact.
    """
    upper, lower, radix = total
    powers = np.arange(max(classes.bit_length(), 2))
    reached = ints.at_least(upper, 1 << (head.EXP_BITS - radix + powers[1:]), f"{name}/reached")
    ones = ints.from_booleans(reached, f"{name}/ones")
    power = ints.joined(ints.total(ones, axis, len(powers) - 1, f"{name}/power"), int(powers[-1]), f"{name}/power")
    raised = ints.look_up(1 << np.maximum(radix - 6 - powers, 0), power, f"head/log2/raise{radix}", f"{name}/raise")
    kept = ints.look_up(1 << (powers + 6), power, "head/log2/kept", f"{name}/kept")
    # upper x 2^radix is below 2^(31 + power), so this is below 2^25.
    scaled = Int(ints.graph.node("Mul", [upper.name, raised.name], f"{name}/upper"), 0, 2**25 - 1)
    scaled = ints.add(scaled, ints.divide(lower, kept, f"{name}/lower"), f"{name}/scaled")
    tail = ints.known(ints.subtract(scaled, 1 << 24, f"{name}/tail"), 0, EXACT - 1)
    table = head.log2_table()
    steps = np.repeat(table[1:] - table[:-1], LOG_FINE)
    fine = np.tile(np.arange(LOG_FINE) << 14, 256)
    starts = (np.repeat(table[:-1] + 128, LOG_FINE) << 16) + steps * fine
    places = ints.divide(tail, 128, f"{name}/places")
    r0 = ints.remainder(tail, 128, f"{name}/r0")
    j = ints.divide(places, 128, f"{name}/j")
    r1 = ints.remainder(places, 128, f"{name}/r1")
    step = ints.look_up(steps, j, "head/log2/steps", f"{name}/step")
    rise = ints.divide(ints.multiply(step, r0, f"{name}/r0/rise"), 128, f"{name}/r0/whole")
    rise = ints.add(ints.multiply(step, r1, f"{name}/r1/rise"), rise, f"{name}/rise")
    start = ints.look_up((starts >> 7) % (1 << 17), j, "head/log2/fractions", f"{name}/start")
    rise = ints.divide(ints.add(rise, start, f"{name}/risen"), 1 << 17, f"{name}/whole")
    fraction = ints.add(ints.look_up(starts >> 24, j, "head/log2/starts", f"{name}/base"), rise, f"{name}/fraction")
    return ints.add(ints.multiply(power, head.ONE, f"{name}/power16"), fraction, name)


def probability(ints: Arithmetic, lost: Int, name: str) -> Int:
    """`head.probabilities`, of negated log-probabilities."""
    upper, _, whole = _power(ints, lost, P_RADIX, name)
    power = ints.look_up(_powers(), whole, "head/exp2/power", f"{name}/power")
    shifted = ints.divide(upper, power, f"{name}/shifted")
    return ints.divide(ints.add(shifted, 1, f"{name}/rounded"), 2, f"{name}/p")


def moments(ints: Arithmetic, p: Int, members: int) -> tuple[Int, Int]:
    """Mean and variance over members, (N, 1) each, of p, which is (N, members, 1).

    With mean and rest of the sum's division by n, and deviations from that mean, the law's variance is

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
    """The last negated log-probability up to `largest`, in Q16, whose probability is at least `gate`."""
    lost = np.arange(largest + 1)
    return int(np.flatnonzero(head.probabilities(-lost) >= gate)[-1])


def _alone(ints: Arithmetic, log: Int, gate: int) -> str:
    """Where the first member answers alone, bool (N, 1): its label's log-probability is -log."""
    graph = ints.graph
    assert log.low >= 0 and log.high <= EXACT
    first = _first(graph, log)
    limit = graph.scalar("int32", last_alone(gate, log.high))
    return graph.node("GreaterOrEqual", [limit, first.name], "head/alone")


def _first(graph: Graph, x: Int) -> Int:
    """The first member's part of (N, members, ...), without that axis."""
    part = graph.node("Gather", [x.name, graph.scalar("int32", 0)], f"{x.name}/first", axis=1)
    return Int(part, x.low, x.high)


def _choose(graph: Graph, condition: str, yes: Int, no: Int, name: str) -> Int:
    graph.node("Where", [condition, yes.name, no.name], name)
    return Int(name, min(yes.low, no.low), max(yes.high, no.high))


def _scalar(graph: Graph, number: int) -> Int:
    return Int(graph.scalar("int32", number), number, number)


def _give(graph: Graph, x: Int, name: str) -> None:
    """The output `name` from (N, 1)."""
    _wide(graph, graph.node("Squeeze", [x.name, graph.integers(1)], f"{x.name}/row"), name)


def _wide(graph: Graph, x: str, name: str) -> None:
    graph.node("Cast", [x], name, to=TensorProto.INT64)


def _constant(graph: Graph, name: str, number: int) -> None:
    """An output of one number for every sample."""
    value = helper.make_tensor("value", TensorProto.INT64, [1], [number])
    shape = "head/samples"
    if shape not in graph.made:
        graph.node("Shape", ["label"], shape)
    graph.node("ConstantOfShape", [shape], name, value=value)

"""Compute log softmax and probabilities of the head in int32 nodes, for `blrc.targets.onnx.head`.

`blrc.program.head` defines the numbers; it is called the law here. Every function gives the numbers of the part of the
law that it names, from tensors of any shape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blrc.program import head
from blrc.targets.onnx.ints import EXACT, Arithmetic, Int

WHOLE_BITS = 32  # d is below 32 bits; a power of two below 2^-31 is 0 in Q30
FEW_CLASSES = 512  # whose sums of digits of 15 bits stay within 2^24
P_RADIX = 13  # what lies below does not matter to a probability in Q16
LOG_FINE = 4  # entries here for an entry of the table of logarithms


def bits_behind(ints: Arithmetic, behind: Int, scale: head.Scale, name: str) -> Int:
    """Return d of the law, in Q16: by how many bits a class lies behind, from the difference of scores.

    A class that is `head.CAP` or more behind adds nothing to the sum and is at the floor, however far it is. So the
    difference is cut where d reaches `head.CAP`. The multiplier is split into a whole number and digits of a fraction,
    so that each product with the difference is exact.
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
    """Return 2^-(fraction of d) in Q30, in two parts, and the whole part of d.

    The first part is its bits from `radix` on. The second is a number whose low `radix` bits are the bits below.

    The law's table[j] - ((step rest + 128) >> 8) is computed as table[j + 1] + ((step (256 - rest) + 127) >> 8), in
    which nothing is negative. A step has 22 bits and is split into 256 x coarse + fine.
    """
    table = head.exp2_table()
    steps = table[:-1] - table[1:]
    unit = 1 << radix
    position = ints.divide(d, 256, f"{name}/position")
    rest = ints.remainder(d, 256, f"{name}/rest")
    whole = ints.divide(position, 256, f"{name}/whole")
    j = ints.remainder(position, 256, f"{name}/j")
    # 256 - rest
    short = Int(ints.graph.node("Sub", [ints.graph.scalar("int32", 256), rest.name], f"{name}/short"), 1, 256)
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
    """Return 2^w for each whole part w, as divisors of upper parts.

    Upper parts are at most 2^17, so the exponent stops at 18: larger powers give the quotient 0, too.
    """
    return np.asarray(1 << np.minimum(np.arange(WHOLE_BITS), head.EXP_BITS - P_RADIX + 1))


def powers_sum(ints: Arithmetic, d: Int, axis: int, classes: int, name: str) -> tuple[Int, Int, int]:
    """Return the sum of 2^-d over the classes in Q30: its bits from a radix on, the bits below, and the radix.

    Let 2^30 x 2^-(fraction of d) = upper x 2^radix + lower, and w be the whole part of d, by which it is shifted right.
    Then the bits from the radix on are upper >> w. The bits below are ((upper mod 2^w) x 2^radix + lower) >> w, a
    quotient whose numerator and denominator are cut by the bits that they have beyond 24.
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


def log2(ints: Arithmetic, total: tuple[Int, Int, int], axis: int, classes: int, name: str, at: str = "") -> Int:
    """Return `head.log2` of a sum over `classes`.

    tail = (sum >> (power + 6)) - 2^24 has 24 bits. The law interpolates between 257 entries. The table here has four
    entries for each of these, on the same lines and with the fractions that they have there. So 14 bits are left to
    interpolate, seven at a time: (start + step r1 + (step r0 >> 7)) >> 17 is exact. The names of the tables whose
    length depends on `classes` begin with `at`.
    """
    upper, lower, radix = total
    powers = np.arange(max(classes.bit_length(), 2))
    reached = ints.at_least(upper, 1 << (head.EXP_BITS - radix + powers[1:]), f"{name}/reached")
    ones = ints.from_booleans(reached, f"{name}/ones")
    power = ints.joined(ints.total(ones, axis, len(powers) - 1, f"{name}/power"), int(powers[-1]), f"{name}/power")
    raised = ints.look_up(1 << np.maximum(radix - 6 - powers, 0), power, f"{at}head/log2/raise{radix}", f"{name}/raise")
    kept = ints.look_up(1 << (powers + 6), power, f"{at}head/log2/kept", f"{name}/kept")
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
    """Return `head.probabilities` of negated log-probabilities."""
    upper, _, whole = _power(ints, lost, P_RADIX, name)
    power = ints.look_up(_powers(), whole, "head/exp2/power", f"{name}/power")
    shifted = ints.divide(upper, power, f"{name}/shifted")
    return ints.divide(ints.add(shifted, 1, f"{name}/rounded"), 2, f"{name}/p")

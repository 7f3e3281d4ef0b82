"""Small programs that between them run every kernel of the runtime: what compilers and analyzers are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from random_programs import Builder, gated, random_inputs, top_probability

from blrc.net.heads import Unit
from blrc.program.heads import Head
from blrc.program.program import Program, Value, Window
from blrc.targets.c.kernels.registry import KERNELS

SAME = Window((3, 3), padding=(1, 1, 1, 1))
HALF = Window((2, 2), (2, 2))


def gated_members() -> Program:
    """Pixels that two convolutions read, so that their codes are stored; thresholds; binary layers; a gate."""
    builder = Builder(Value("input", "uint8", (6, 7, 3)), np.random.default_rng(0), members=3)
    raw = builder.x, builder.sample
    builder.binarize()
    builder.x, builder.sample = raw
    builder.encode()
    codes = builder.x, builder.sample
    builder.conv("unread", Window((2, 2)), None, groups=1, per_group=9)
    builder.x, builder.sample = codes
    builder.conv("columns", Window((3, 1), padding=(1, 0, 1, 0)), None, groups=1, per_group=9)
    builder.x, builder.sample = codes
    builder.conv("codes", SAME, HALF, groups=1, per_group=33)
    builder.conv("packed", SAME, None, groups=1, per_group=129)
    builder.conv("rows", SAME, None, groups=1, per_group=6)
    builder.conv("depthwise", Window((2, 2), padding=(1, 1, 0, 0)), None, groups=6, per_group=1)
    builder.pool("pool")
    builder.flatten()
    builder.conv("dense", Window(builder.x.shape[:2]), None, groups=1, per_group=37)
    program = builder.finish(np.int8)
    top = np.sort(top_probability(gated(program, 1), random_inputs(program, 60)))
    return gated(program, int(top[30]))


def words_of_groups() -> Program:
    """Bits, kernels of groups, scores of 16 bits; one network."""
    builder = Builder(Value("input", "bits", (4, 4, 64)), np.random.default_rng(1), members=1)
    builder.conv("gather", SAME, None, groups=1, per_group=96)
    builder.conv("apart", Window((2, 2), (2, 2)), None, groups=3, per_group=15)
    builder.conv("wide", Window((1, 1)), None, groups=1, per_group=300)
    builder.conv("taps", SAME, None, groups=2, per_group=4)
    builder.conv("dense", Window((2, 2)), None, groups=1, per_group=40)
    return builder.finish(np.int16)


def binary_scores() -> Program:
    """Codes read from memory; taps one by one with single rows; a binary last layer; two members."""
    builder = Builder(Value("input", "int8", (5, 5, 4)), np.random.default_rng(2), members=2)
    builder.conv("codes", SAME, HALF, groups=2, per_group=7)
    builder.conv("wide", Window((1, 1)), None, groups=1, per_group=300)
    builder.conv("taps", SAME, None, groups=2, per_group=3)
    return builder.finish_binary()


def planes_of_levels() -> Program:
    """Codes of several thresholds in planes, from pixels to scores; two members."""
    builder = Builder(Value("input", "uint8", (6, 7, 3)), np.random.default_rng(3), members=2)
    builder.encode()
    builder.bits = 2
    builder.conv("first", SAME, HALF, groups=1, per_group=9)
    builder.bits = 3
    builder.conv("planes", SAME, None, groups=1, per_group=33)
    builder.conv("apart", Window((2, 2), padding=(1, 1, 0, 0)), HALF, groups=33, per_group=1)
    builder.pool("pool")
    builder.sums("sums", Window((2, 2), (1, 1), (0, 1, 1, 0)))
    return builder.finish(np.int8)


def bytes_of_levels() -> Program:
    """Codes of several thresholds in bytes, from bits to a binary last layer."""
    builder = Builder(Value("input", "bits", (5, 5, 6)), np.random.default_rng(4), members=1)
    builder.bits = 8
    builder.conv("bits", SAME, HALF, groups=2, per_group=7)
    builder.conv("bytes", Window((2, 2), padding=(1, 1, 0, 0)), None, groups=1, per_group=20)
    builder.pool("pool")
    builder.bits = 5
    builder.conv("whole", Window(builder.x.shape[:2]), None, groups=1, per_group=11)
    return builder.finish_binary()


def ternary_layers() -> Program:
    """Weights of -1, 0 and +1 from pixels to scores, on bits, planes and bytes; two members."""
    builder = Builder(Value("input", "uint8", (6, 7, 3)), np.random.default_rng(6), members=2)
    builder.ternary = True
    builder.encode()
    builder.conv("first", SAME, HALF, groups=1, per_group=9)
    builder.conv("bits", SAME, None, groups=1, per_group=33)
    builder.bits = 6
    builder.conv("levels", Window((2, 2), padding=(1, 1, 0, 0)), HALF, groups=33, per_group=1)
    builder.conv("bytes", Window((1, 1)), None, groups=1, per_group=20)
    builder.bits = 0
    builder.conv("dense", Window(builder.x.shape[:2]), None, groups=1, per_group=37)
    return builder.finish_binary()


def whole_layers() -> Program:
    """Weights of 8 bits from pixels to scores, on codes, planes, bytes and bits; two members."""
    builder = Builder(Value("input", "uint8", (6, 7, 3)), np.random.default_rng(7), members=2)
    builder.whole = True
    builder.encode()
    builder.bits = 3
    builder.conv("first", SAME, HALF, groups=1, per_group=9)
    builder.conv("depthwise", SAME, None, groups=9, per_group=1)
    builder.bits = 8
    builder.conv("pointwise", Window((1, 1)), None, groups=1, per_group=22)
    builder.bits = 0
    builder.conv("bytes", Window((2, 2), padding=(1, 1, 0, 0)), HALF, groups=2, per_group=7)
    builder.conv("dense", Window(builder.x.shape[:2]), None, groups=1, per_group=37)
    return builder.finish(np.int8)


def smallest() -> Program:
    """A network of some 1.8 KB, small enough to be proved free of errors for every input."""
    builder = Builder(Value("input", "uint8", (4, 4, 2)), np.random.default_rng(5), members=2)
    builder.encode()
    builder.conv("codes", SAME, HALF, groups=1, per_group=5)
    builder.conv("packed", Window((2, 2), padding=(1, 1, 0, 0)), None, groups=1, per_group=33)
    builder.conv("whole", Window((2, 2)), None, groups=1, per_group=6)
    builder.conv("dense", Window((1, 1)), None, groups=1, per_group=9)
    return gated(builder.finish(np.int8), 60000)


def values() -> Program:
    """Values in place of labels, of two heads and two members."""
    program = binary_scores()
    heads = (Head("a", 1, program.score_scale), Head("b", program.classes - 1, program.score_scale))
    return replace(program, heads=heads, values=(Unit(0.5, -1.0), Unit()))


PROGRAMS: dict[str, Callable[[], Program]] = {
    "gated": gated_members,
    "groups": words_of_groups,
    "binary": binary_scores,
    "planes": planes_of_levels,
    "bytes": bytes_of_levels,
    "ternary": ternary_layers,
    "whole": whole_layers,
    "values": values,
}

PLAIN = {name for name, kernel in KERNELS.items() if not (kernel.takes_ram or kernel.inner)}
"""Kernels that any CPU takes without being asked."""

"""Random legal programs for the tests of targets: every geometry that the program allows, with live thresholds."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack_signs, pack_ternary
from blrc.net.elements import code_type
from blrc.program import head, reference
from blrc.program.legal import check
from blrc.program.ops.binarize import Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.ops.op import largest_magnitude
from blrc.program.program import BinaryScores, Constant, Conv, Encode, Op, Pool, Program, Scores, SumPool, Value, Window

TERNARY = 1000
"""The first seed of programs with ternary weights: those of older tests lie below."""

SUMS = 2000
"""The first seed of programs that add up bits and codes under windows."""

WHOLE = 3000
"""The first seed of programs with weights of 8 bits; they have ternary ones and sums as well."""


def is_ternary(seed: int) -> bool:
    """Whether the weights of a random program's layers may be 0."""
    return seed >= TERNARY and seed % 5 == 0


def random_program(
    seed: int,
    kind: str = "uint8",
    shape: tuple[int, int, int] | None = None,
    layers: int = 3,
    members: int = 1,
    binary: bool | None = None,
) -> Program:
    """A random program; the same for the same arguments. `shape` is (H, W, C).

    Every third seed's scores are binary. Seed 6 and every eighth after it make bits of pixels, and seed 4 and every
    seventh after it pack the bits before the last dense layer. Seed 7 and every eighth after it write codes of several
    thresholds, of other bits in each layer; of every other one of them a layer in between writes bits. From `TERNARY`
    on every fifth one has ternary weights, of every other one of them some layers alone. From `SUMS` on maps are summed
    under windows, and the scores of odd seeds read such sums. From `WHOLE` on every third one has weights of 8 bits, of
    every other one of them some layers alone.
    """
    rng = np.random.default_rng(seed)
    shape = shape or (int(rng.integers(1, 13)), int(rng.integers(1, 13)), int(rng.choice([1, 2, 3, 31, 32, 33])))
    x = Value("input", kind, shape)  # type: ignore[arg-type]
    builder = Builder(x, rng, members)
    if kind == "uint8":
        builder.binarize() if seed % 8 == 6 else builder.encode()
    for i in range(layers):
        builder.whole = seed >= WHOLE and seed % 3 == 0 and (seed % 2 == 0 or bool(rng.random() < 0.5))
        builder.ternary = not builder.whole and is_ternary(seed) and (seed % 2 == 0 or bool(rng.random() < 0.5))
        if seed % 8 == 7:
            builder.bits = 0 if seed % 16 == 7 and i == 1 else int(rng.integers(1, 9))
        if i == layers - 1 and seed % 7 == 4 and builder.x.dtype == "bits" and builder.x.shape[:2] != (1, 1):
            builder.flatten()
        if seed >= SUMS and seed % 2 and i == layers - 1:
            builder.sums(f"sums{i}")
            continue
        if builder.x.shape[:2] == (1, 1) or i == layers - 1:
            builder.conv(f"dense{i}", Window(builder.x.shape[:2]), None)
        else:
            builder.random_conv(f"conv{i}")
        if rng.random() < 0.2 and min(builder.x.shape[:2]) >= 2:
            builder.pool(f"pool{i}")
        if seed >= SUMS and i == 0:
            builder.sums(f"sums{i}")
    return builder.finish_binary() if (seed % 3 == 2 if binary is None else binary) else builder.finish()


def gated(program: Program, gate: int) -> Program:
    """The program with its first member called MAP, behind which a gate may stand."""
    return check(replace(program, members=("map", *program.members[1:]), gate=gate))


def alone(program: Program, member: int) -> Program:
    """One member of an ensemble as a program of its own."""
    constants = {name: Constant((program.constant(name, member),), (0,)) for name in program.constants}
    return replace(program, constants=constants, members=("map",), gate=0)


def top_probability(program: Program, raw: NDArray[Any]) -> NDArray[np.int64]:
    """What the first member gives its likeliest class, Q16: where a gate decides."""
    log_p = head.log_probabilities(reference.scores(program, raw), head.scale_of(program.score_scale))
    return np.asarray(head.probabilities(log_p).max(axis=1))


class Builder:
    """A program, op by op; thresholds lie where random inputs put the sums.

    Attributes:
        x: the value that the next op reads.
        sample: its values.
        before: what the last op read.
        bits: of the codes that the next convolutions write; 0 for +-1.
        ternary: whether the weights of the next layers may be 0.
        whole: whether the weights of the next convolutions have 8 bits.
    """

    bits = 0
    ternary = False
    whole = False

    def __init__(self, x: Value, rng: np.random.Generator, members: int) -> None:
        self.input = self.x = x
        self.rng = rng
        self.members = members
        self.ops: list[Op] = []
        self.constants: dict[str, Constant] = {}
        n = 24
        if x.dtype == "uint8":
            self.sample: NDArray[Any] = rng.integers(0, 256, (n, *x.shape)).astype(np.uint8)
        elif x.dtype == "int8":
            self.sample = rng.integers(-128, 128, (n, *x.shape)).astype(np.int8)
        else:
            self.sample = rng.random((n, *x.shape)) < 0.5

    def encode(self) -> None:
        rows = self.x.shape[2] if self.rng.random() < 0.7 else 1
        table = self.rng.integers(-127, 128, (rows, 256)).astype(np.int8)
        y = Value("codes", "int8", self.x.shape)
        self._add(Encode("encode", self.x, y, "encode.table"), {"encode.table": [table] * self.members})

    def binarize(self, flat: bool = False) -> None:
        rows = self.x.shape[2] if self.rng.random() < 0.7 else 1
        limits = self.rng.choice(
            [0, 1, 100, 127, 128, 200, 255, 256], rows, p=[0.05, 0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.05]
        )
        y = Value("input.bits", "bits", (1, 1, prod(self.x.shape)) if flat else self.x.shape)
        table = [limits.astype(np.int16)] * self.members
        self._add(Binarize("binarize", self.x, y, "binarize.thresholds"), {"binarize.thresholds": table})

    def flatten(self) -> None:
        self._add(Flatten("flat", self.x, Value("flat.bits", "bits", (1, 1, prod(self.x.shape)))), {})

    def random_conv(self, name: str) -> None:
        rng = self.rng
        height, width, _ = self.x.shape
        kernel = (int(rng.integers(1, min(height, 5) + 1)), int(rng.integers(1, min(width, 5) + 1)))
        window = Window(
            kernel,
            stride=(int(rng.integers(1, 3)), int(rng.integers(1, 3))),
            padding=tuple(int(rng.integers(0, max(1, kernel[i % 2] // 2 + 1))) for i in range(4)),  # type: ignore[arg-type]
            dilation=(int(rng.integers(1, 3)), int(rng.integers(1, 3))),
        )
        if min(window.output(height, width)) < 1:
            window = replace(window, dilation=(1, 1))
        self.conv(name, window, self._random_pool(window.output(height, width)))

    def _random_pool(self, size: tuple[int, int]) -> Window | None:
        options = [
            Window((2, 2), (2, 2)),
            Window((3, 3), (2, 2)),
            Window((2, 3), (2, 1), (0, 1, 0, 1)),
            Window((3, 3), (2, 2), (1, 1, 1, 1)),
        ]
        options = [
            w for w in options if min(w.output(*size)) >= 1 and w.kernel[0] <= size[0] and w.kernel[1] <= size[1]
        ]
        return options[self.rng.integers(len(options))] if options and self.rng.random() < 0.5 else None

    def conv(
        self,
        name: str,
        window: Window,
        pool: Window | None,
        groups: int | None = None,
        per_group: int | None = None,
    ) -> None:
        """A convolution of so many groups, with so many outputs each; by default random."""
        rng = self.rng
        channels = self.x.shape[2]
        if groups is None:
            groups = int(rng.choice([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0]))
        if per_group is None:
            per_group = int(rng.choice([1, 2, 5, 31, 32, 33, 64, 65])) if groups == 1 else int(rng.integers(1, 4))
        out = groups * per_group
        height, width = window.output(*self.x.shape[:2])
        size = (height, width) if pool is None else pool.output(height, width)
        op = Conv(
            name,
            self.x,
            Value(f"{name}.bits", code_type(self.bits) if self.bits else "bits", (*size, out)),
            f"{name}.weights",
            f"{name}.thresholds",
            window,
            groups,
            pool,
            self.ternary and not self.whole,
            self.whole,
        )
        of = self._whole_weights if self.whole else self._weights
        weights = [of(out, *window.kernel, op.group_channels) for _ in range(self.members)]
        zeros = [np.zeros((out, op.y.element.high) if self.bits else out, np.int32)] * self.members
        probe = self._program([*self.ops, op], {op.weights: weights, op.thresholds: zeros})
        low, high = probe.bounds(op)
        thresholds = []
        for member in range(self.members):
            z = op.preactivation(probe, self.sample, member)
            t = np.median(z, axis=(0, 1, 2)).round().astype(np.int32) + rng.integers(-1, 2, out).astype(np.int32)
            if self.bits:  # around the median; some levels at one sum, and some that no sum reaches
                apart = np.sort(rng.normal(0, max(1.0, 2 * float(z.std())), (out, op.y.element.high)))
                t = t[:, None] + apart.astype(np.int32)
            t[rng.random(out) < 0.05] = low
            t[rng.random(out) < 0.05] = high + 1
            thresholds.append(np.clip(t, low, high + 1).astype(np.int32))
        self._add(op, {op.weights: weights, op.thresholds: thresholds})

    def pool(self, name: str) -> None:
        window = Window((2, 2), (1, 1), (1, 0, 0, 1))
        size = window.output(*self.x.shape[:2])
        self._add(Pool(name, self.x, Value(f"{name}.bits", self.x.dtype, (*size, self.x.shape[2])), window), {})

    def sums(self, name: str, window: Window | None = None, spare: int = 0) -> None:
        """Sums under a window, by default a random one whose sums fit 8 bits; their type has `spare` bits more."""
        rng, x, most = self.rng, self.x, self.x.element.high
        if window is None:
            sides = [int(rng.integers(1, side + 1)) for side in x.shape[:2]]
            while sides[0] * sides[1] * most > 255:
                sides[int(np.argmax(sides))] -= 1
            padding = tuple(int(rng.integers(0, sides[i % 2] // 2 + 1)) for i in range(4))
            strides = tuple(int(rng.integers(1, side + 1)) for side in sides)
            window = Window((sides[0], sides[1]), strides, padding)  # type: ignore[arg-type]
        dtype = code_type(min(8, (window.taps * most).bit_length() + spare))
        y = Value(f"{name}.sums", dtype, (*window.output(*x.shape[:2]), x.shape[2]))
        self._add(SumPool(name, x, y, window), {})

    def finish(self, kind: type[np.integer[Any]] | None = None) -> Program:
        """Scores with weights of `kind`, by default a random one."""
        rng = self.rng
        classes = int(rng.integers(2, 12))
        op = Scores("scores", self.x, Value("scores", "int32", (1, 1, classes)), "scores.weights", "scores.bias")
        weights = rng.integers(-127, 128, (classes, *self.x.shape))
        small = rng.random() < 0.8 or self.x.is_codes
        weights = weights.astype(kind or (np.int8 if small else np.int16))
        if weights.dtype == np.int16:
            weights *= 200
        bias = rng.integers(-1000, 1000, classes).astype(np.int32)
        self._add(op, {op.weights: [weights] * self.members, op.bias: [bias] * self.members})
        return check(self._program(self.ops, {}))

    def finish_binary(self) -> Program:
        rng = self.rng
        classes = int(rng.integers(2, 12))
        y = Value("scores", "int32", (1, 1, classes))
        names = "scores.weights", "scores.multiplier", "scores.bias"
        op = BinaryScores("scores", self.x, y, *names, ternary=self.ternary)
        # As large as int32 allows, both signs, and 0.
        largest = (2**30 - 1) // (op.fan_in * largest_magnitude(self.x)) - 1
        weights, multipliers = [], []
        for _ in range(self.members):
            weights.append(self._weights(classes, *self.x.shape))
            size = np.exp2(rng.uniform(0, np.log2(largest), classes)).astype(np.int32)
            multipliers.append(rng.choice([-1, 0, 1, 1], classes).astype(np.int32) * size)
        multipliers[0][0] = -largest
        bias = rng.integers(-op.fan_in // 2, op.fan_in // 2 + 1, classes).astype(np.int32)
        self._add(op, {op.weights: weights, op.multiplier: multipliers, op.bias: [bias] * self.members})
        return check(self._program(self.ops, {}))

    def _weights(self, *shape: int) -> NDArray[np.uint32]:
        """Packed weights; of every third ternary layer the first row is 0, and the last one of all has no 0."""
        if not self.ternary:
            return pack_signs(self.rng.integers(0, 2, shape) * 2 - 1)
        numbers = self.rng.choice([-1, 0, 1], shape, p=self.rng.dirichlet((2, 2, 2)))
        if self.rng.random() < 1 / 3:
            numbers[0] = 0
        numbers[-1] = self.rng.integers(0, 2, shape[1:]) * 2 - 1
        return pack_ternary(numbers)

    def _whole_weights(self, *shape: int) -> NDArray[np.int8]:
        """Weights of 8 bits: of some rows all are as large as can be, or 0."""
        numbers = self.rng.integers(-127, 128, shape).astype(np.int8)
        numbers[self.rng.random(shape[0]) < 0.1] = 127
        numbers[self.rng.random(shape[0]) < 0.05] = 0
        return numbers

    def _add(self, op: Op, tables: dict[str, list[NDArray[Any]]]) -> None:
        for name, per_member in tables.items():
            self.constants[name] = _constant(per_member)
        self.ops.append(op)
        self.before = self.sample
        self.sample = op.run(self._program(self.ops, {}), self.sample)
        self.x = op.y

    def program(self) -> Program:
        """What there is so far."""
        return self._program(self.ops, {})

    def _program(self, ops: list[Op], extra: dict[str, list[NDArray[Any]]]) -> Program:
        constants = {**self.constants, **{name: _constant(tables) for name, tables in extra.items()}}
        return Program(self.input, tuple(ops), constants, tuple(f"sample 0:{m}" for m in range(self.members)), 0.01)


def _constant(per_member: list[NDArray[Any]]) -> Constant:
    tables: list[NDArray[Any]] = []
    index = []
    for table in per_member:
        found = next((i for i, t in enumerate(tables) if np.array_equal(t, table)), None)
        if found is None:
            tables.append(table)
            found = len(tables) - 1
        index.append(found)
    return Constant(tuple(tables), tuple(index))


def random_inputs(program: Program, count: int, seed: int = 0) -> NDArray[Any]:
    """Random raw inputs in device layout, the extremes first."""
    rng = np.random.default_rng(seed)
    shape = (count, *program.input.shape)
    if program.input.dtype == "bits":
        raw: NDArray[Any] = rng.random(shape) < 0.5
        raw[:1], raw[1:2] = False, True
    elif program.input.dtype == "uint8":
        raw = rng.integers(0, 256, shape).astype(np.uint8)
        raw[:1], raw[1:2] = 0, 255
    else:
        raw = rng.integers(-128, 128, shape).astype(np.int8)
        raw[:1], raw[1:2] = -128, 127
    return raw

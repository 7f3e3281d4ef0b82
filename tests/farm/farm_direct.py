"""Kernels without an export: thousands of geometries through one program that was compiled once, with sanitizers.

A case is a step as `blrc.targets.c.layout.layout` lays it out, with random weights and thresholds; what it gives is
compared with `farm_evaluator`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any
from unittest import mock

import farm_evaluator as evaluator
import numpy as np
from c_exports import one_conv
from farm_harness import CLANG, FLAGS
from numpy.typing import NDArray

from blrc.net.bits import pack_signs, pack_ternary, words
from blrc.net.elements import code_type
from blrc.program.ops.binarize import ALWAYS, NEVER, Binarize
from blrc.program.ops.flatten import Flatten
from blrc.program.program import BinaryScores, Constant, Conv, Op, Pool, Program, Scores, SumPool, Value, Window
from blrc.targets.c.build import compiler
from blrc.targets.c.kernels import thresholds
from blrc.targets.c.kernels.cpus import CORTEX_M55, CPUS, PORTABLE, TIERS, X86_64
from blrc.targets.c.kernels.families import columns
from blrc.targets.c.kernels.families.host import tiles
from blrc.targets.c.kernels.families.levels import bits_of
from blrc.targets.c.kernels.families.words import POOL_OR
from blrc.targets.c.kernels.kernel import Step, Task
from blrc.targets.c.kernels.registry import cheapest, fitting
from blrc.targets.c.layout import layout
from blrc.targets.c.layout.macros import DEFAULTS
from blrc.targets.c.runtime_files import include_flags, runtime_dir, runtime_sources

NAMES = (
    *("conv_codes", "conv_pairs", "conv_columns", "conv_eights", "conv_dots", "conv_rows", "conv_gather"),
    *("conv_packed", "conv_taps", "conv_slices", "conv_quads", "conv_tiles", "conv_lanes", "dense", "dense_tiles"),
    *("dense_columns", "dense_quads", "binarize", "flatten", "pool_or", "scores_int8", "scores_dots"),
    *("conv_planes", "conv_bytes", "pool_levels", "scores_levels", "scores_signs"),
    *("conv_ternary", "conv_ternary_planes", "conv_ternary_bytes", "scores_ternary", "conv_ternary_pairs"),
    *("pool_sums", "conv_whole", "conv_whole_depthwise"),
)
"""Kernels in the order of the enum in kernel_main.c."""
CODED = ("conv_codes", "conv_pairs", "conv_ternary_pairs", "conv_columns", "conv_eights", "conv_dots")
MACROS = {
    "BLRC_GATHER_WORDS": max(cpu.gather_words for cpu in CPUS.values()),
    "BLRC_TILE_LINES": tiles.MAX_LINES + 8,
    "BLRC_TILE_HELD": 4096,
    "BLRC_TILE_RUN": tiles.MAX_RUN,
}
"""What any case may need; exports have smaller buffers, which the farm's networks run with."""
SAMPLES = 3
TABLES, NUMBERS, POOL = 6, 4, 13


@dataclass(frozen=True, eq=False)
class Case:
    """A step on some inputs: ``x`` ``(N, H, W, C)``; ``tier`` is the level of x-86-64."""

    program: Program
    step: Step
    x: NDArray[Any]
    tier: int = 0

    @property
    def by_rows(self) -> bool:
        """It can run in row strips."""
        return self.step.record.strips

    def __str__(self) -> str:
        op = self.step.op
        about = f"{op.window}, pool {op.pool}, groups {op.groups}" if isinstance(op, Conv) else ""
        return f"{self.step.kernel}, level {self.tier}, {self.step.x.dtype} {op.x.shape} to {op.y.shape}; {about}"


def compile_kernels(folder: Path, told: Sequence[str] = ()) -> Path:
    """The program that runs cases: all of the runtime, with sanitizers.

    Args:
        told: macros of the runtime and their values, such as ``HAS_POPCOUNT=0``: how bits are counted.
    """
    include = folder / "include"
    include.mkdir()
    header = (runtime_dir() / "include" / "blrc.h").read_text(encoding="ascii")
    for macro, value in MACROS.items():
        line = f"#define {macro} {DEFAULTS[macro]}\n"
        assert line in header
        header = header.replace(line, f"#define {macro} {value}\n")
    for path in (runtime_dir() / "include").iterdir():
        (include / path.name).write_bytes(path.read_bytes())
    (include / "blrc.h").write_text(header, encoding="ascii")
    sources = runtime_sources()
    sources = [path for path in sources if not path.stem.startswith("blrc_tier") and "neon" not in path.stem]
    sources = [path for path in sources if not path.stem.endswith(("aarch64", "dotprod"))]
    flags = (*FLAGS, *(f"-DBLRC_{macro}" for macro in told), *include_flags())
    objects = [
        compiler.compile_object((CLANG,), flags, source, folder / f"{source.stem}.o", include)
        for source in (*sources, Path(__file__).with_name("kernel_main.c"))
    ]
    return compiler.link((CLANG,), flags, objects, folder / "kernels")


def cases(seeds: Sequence[int], tiers: Collection[str]) -> Iterator[Case]:
    """Random steps of every kernel, at each of these levels of x86-64."""
    with mock.patch.object(thresholds, "INT16_MAX", 0):  # thresholds of 32 bits
        for seed in seeds:
            yield from _cases(np.random.default_rng([seed, 17]), seed, tiers)


def _cases(rng: np.random.Generator, seed: int, tiers: Collection[str]) -> Iterator[Case]:
    program = _program(rng, seed)
    conv = next(op for op in program.ops if isinstance(op, Conv))
    raw = _inputs(rng, program.input)
    values = evaluator.evaluate(program, raw, 0).values
    made = [layout.lay_out(program)]
    for cpu in (CORTEX_M55, PORTABLE):
        if any(fitting(Task(program, conv, CPUS[cpu]), takes_ram=True)):
            made.append(layout.lay_out(program, {conv.name}, cpu=cpu))
    for laid in made:
        for step in laid.steps:
            yield Case(program, step, values[step.x.name])
    for step in layout.lay_out(program, cpu=X86_64).steps:
        for tier in tiers if step.record.inner else []:
            yield Case(program, step, values[step.x.name], TIERS[X86_64].index(tier))
    pool = _pool(rng, conv.y.shape[:2], span=True)
    if pool is not None:
        y = Value("pooled", "bits", (*pool.output(*conv.y.shape[:2]), conv.y.shape[2]))
        op = Pool("pool", conv.y, y, pool)
        yield Case(program, POOL_OR.step(Task(program, op, CPUS[PORTABLE])), values[conv.y.name])
    for alone in _bits_alone(rng, program.input, conv.y):
        (only,) = alone.ops
        task = Task(alone, only, CPUS[PORTABLE])
        yield Case(alone, cheapest(task).step(task), values[only.x.name])
    of_levels = list(_of_levels(rng, program, conv))
    binary = replace(program, ops=tuple(op for op in program.ops if op.y.dtype != "int32"))
    for alone in [*of_levels, *_ternary(rng, [binary, *of_levels]), *_whole(rng, [binary, *of_levels])]:
        *first, only = alone.ops
        task = Task(alone, only, CPUS[PORTABLE], first[0] if first else None)  # type: ignore[arg-type]
        yield Case(alone, cheapest(task).step(task), _inputs(rng, alone.input))


def _ternary(rng: np.random.Generator, programs: Sequence[Program]) -> Iterator[Program]:
    """The programs whose last op has packed weights, with zeros among these; scores of bits."""
    for program in programs:
        *first, op = program.ops
        if isinstance(op, Conv | BinaryScores):
            yield _with_zeros(rng, program)
        if isinstance(op, BinaryScores):
            bits = replace(op.x, dtype="bits")
            yield _with_zeros(rng, replace(program, input=bits, ops=(*first, replace(op, x=bits))))


def _with_zeros(rng: np.random.Generator, program: Program) -> Program:
    *first, op = program.ops
    assert isinstance(op, Conv | BinaryScores)
    numbers = op.numbers(program)
    table = pack_ternary(np.where(rng.random(numbers.shape) < rng.random(), 0, numbers))
    constants = {**program.constants, op.weights: Constant((table,), (0,))}
    return replace(program, ops=(*first, replace(op, ternary=True)), constants=constants)


def _whole(rng: np.random.Generator, programs: Sequence[Program]) -> Iterator[Program]:
    """The programs whose last op is a convolution, with weights of 8 bits, among them rows of the largest ones."""
    for program in programs:
        *first, op = program.ops
        if not isinstance(op, Conv):
            continue
        numbers = rng.integers(-127, 128, op.numbers(program).shape).astype(np.int8)
        numbers[rng.random(len(numbers)) < 0.1] = rng.choice([-127, 127])
        largest = int(np.abs(numbers.astype(np.int64)).reshape(len(numbers), -1).sum(1).max()) * program.peak(op.x)
        was = op.bounds(program)[1]
        limits = (program.constants[op.thresholds].tables[0] * (largest / max(1, was))).astype(np.int32)
        tables = {op.weights: numbers, op.thresholds: limits.clip(-largest, largest + 1).astype(np.int32)}
        constants = {**program.constants, **{name: Constant((table,), (0,)) for name, table in tables.items()}}
        yield replace(program, ops=(*first, replace(op, whole=True, ternary=False)), constants=constants)


def _bits_alone(rng: np.random.Generator, raw: Value, bits: Value) -> Iterator[Program]:
    """Programs of one step without a convolution: a map to a vector; raw values to a map and to a vector."""
    ops: list[Op] = [Flatten("flatten", bits, Value("y", "bits", (1, 1, prod(bits.shape))))]
    if raw.dtype == "uint8":
        shapes = (raw.shape, (1, 1, prod(raw.shape)))
        ops += [Binarize("binarize", raw, Value("y", "bits", shape), "limits") for shape in shapes]
    for op in ops:
        limits = rng.integers(ALWAYS, NEVER + 1, int(rng.choice([1, raw.shape[2]]))).astype(np.int16)
        yield Program(op.x, (op,), {"limits": Constant((limits,), (0,))}, ("map",), 1.0)


def _of_levels(rng: np.random.Generator, program: Program, conv: Conv) -> Iterator[Program]:
    """The convolution with codes of any bits, on codes where it reads bits; a pool of codes; scores of codes."""
    bits = int(rng.integers(1, 9))
    x, y = conv.x, replace(conv.y, dtype=code_type(bits))
    constants, first = dict(program.constants), [op for op in program.ops if op.y == conv.x]
    if x.dtype == "bits" and rng.random() < 0.8:
        x = replace(x, dtype=code_type(int(rng.integers(1, 9))))
        y = y if rng.random() < 0.8 else conv.y
    conv = replace(conv, x=x, y=y)
    most, shape = (
        conv.bounds(replace(program, ops=(*first, conv)))[1],
        [declared.shape for declared in conv.tables()][1],
    )
    spread = max(1.0, most / conv.fan_in * conv.fan_in**0.5)
    limits = np.sort(rng.normal(0, spread, shape).round().astype(np.int32).clip(-most, most + 1))
    constants[conv.thresholds] = Constant((limits,), (0,))
    yield Program(first[0].x if first else x, (*first, conv), constants, ("map",), 1.0)
    codes = replace(conv.y, dtype=code_type(bits))
    pool = _pool(rng, codes.shape[:2], span=True)
    if pool is not None:
        pooled = Value("pooled", codes.dtype, (*pool.output(*codes.shape[:2]), codes.shape[2]))
        yield Program(codes, (Pool("pool", codes, pooled, pool),), {}, ("map",), 1.0)
    yield _sums(rng, conv.y if rng.random() < 0.5 else replace(conv.y, dtype="bits"))
    scores = Value("scores", "int32", (1, 1, int(rng.integers(1, 5))))
    classes = scores.shape[2]
    tables = {
        "w": rng.integers(-127, 128, (classes, *codes.shape)).astype(np.int8),
        "signs": pack_signs(rng.integers(0, 2, (classes, *codes.shape)) * 2 - 1),
        "m": rng.integers(-99, 100, classes).astype(np.int32),
        "b": rng.integers(-999, 1000, classes).astype(np.int32),
    }
    given = {name: Constant((table,), (0,)) for name, table in tables.items()}
    yield Program(codes, (Scores("s", codes, scores, "w", "b"),), given, ("map",), 1.0)
    yield Program(codes, (BinaryScores("s", codes, scores, "signs", "m", "b"),), given, ("map",), 1.0)


def _sums(rng: np.random.Generator, x: Value) -> Program:
    """Sums under a window with padding on any side, of a type that holds the largest one or has bits to spare."""
    sides, most = [int(rng.integers(1, min(8, side) + 1)) for side in x.shape[:2]], x.element.high
    while sides[0] * sides[1] * most > 255:
        sides[int(np.argmax(sides))] -= 1
    padding = tuple(int(rng.integers(0, sides[i % 2])) for i in range(4))
    window = Window((sides[0], sides[1]), tuple(map(int, rng.integers(1, 4, 2))), padding)  # type: ignore[arg-type]
    dtype = code_type(int(rng.integers((sides[0] * sides[1] * most).bit_length(), 9)))
    y = Value("sums", dtype, (*window.output(*x.shape[:2]), x.shape[2]))
    return Program(x, (SumPool("sum", x, y, window),), {}, ("map",), 1.0)


def _axis(rng: np.random.Generator, most: int) -> tuple[int, int, int, int, int]:
    """Kernel, stride, padding before and behind, dilation."""
    kernel = int(rng.integers(1, most + 1))
    stride = int(rng.integers(1, kernel + 4)) if rng.random() < 0.4 else 1
    before, behind = (int(rng.integers(0, 2 * kernel + 1)) if rng.random() < 0.7 else 0 for _ in range(2))
    return kernel, stride, before, behind, int(rng.integers(1, kernel + 3)) if rng.random() < 0.35 else 1


def _window(rng: np.random.Generator, size: tuple[int, int], most: tuple[int, int]) -> Window:
    while True:
        down, across = (_axis(rng, n) for n in most)
        kernel, stride, before, behind, dilation = zip(down, across, strict=True)
        window = Window(kernel, stride, (*before, *behind), dilation)
        if min(window.output(*size)) >= 1 and np.prod(window.output(*size)) <= 700:
            return window


def _pool(rng: np.random.Generator, size: Any, span: bool = False) -> Window | None:
    if rng.random() < 0.4 and not span:
        return None
    for _ in range(20):
        window = _window(rng, (40, 40), (4, 4)) if rng.random() < 0.6 else Window((2, 2), (2, 2))
        top, left, bottom, right = window.padding
        inside = max(top, bottom) < window.span[0] and max(left, right) < window.span[1]
        if inside and min(window.output(*size)) >= 1:
            return window
    return None


SAME, HALF = Window((3, 3), padding=(1, 1, 1, 1)), Window((2, 2), (2, 2))


def _program(rng: np.random.Generator, seed: int) -> Program:
    """One convolution of a kind that some kernel is chosen for, or of any kind."""
    size = tuple(int(n) for n in rng.integers(1, 15, 2))
    kind = str(rng.choice(["uint8", "int8"]))
    style = seed % 8
    pool: Window | None = None
    groups = 1
    if style < 2:  # a few codes in a kernel row, or in a kernel
        channels = int(rng.integers(1, 5))
        most = (max(1, 8 // channels), max(1, 4 // channels)) if style == 0 else (3, 3)
        window = _window(rng, size, most)  # type: ignore[arg-type]
        outputs = int(rng.choice([1, 7, 8, 9, 31, 32, 33, 65]))
        pool = HALF if style and rng.random() < 0.3 else _pool(rng, window.output(*size))
        if pool == HALF and min(window.output(*size)) < 2:
            pool = None
    elif style == 2:  # many codes, groups
        groups = int(rng.choice([1, 1, 2, 3]))
        channels, outputs = groups * int(rng.integers(1, 12)), groups * int(rng.choice([1, 5, 7, 16, 17, 33]))
        window = _window(rng, size, (5, 5))  # type: ignore[arg-type]
        pool = _pool(rng, window.output(*size))
    elif style == 3:  # bit-sliced
        kind, size, window = "bits", (int(rng.integers(1, 20)), int(rng.integers(1, 34))), SAME
        channels, outputs = int(rng.choice([1, 2, 31, 32, 33, 64])), int(rng.choice([4, 5, 6, 7, 8, 9, 12, 31, 33, 40]))
        pool = HALF if min(size) >= 2 and rng.random() < 0.5 else None
    elif style == 4:  # dense
        kind, size = "bits", size if rng.random() < 0.4 else (1, 1)
        channels = int(rng.choice([1, 31, 32, 33, 64, 65, 500, 1000])) if size == (1, 1) else int(rng.choice([32, 64]))
        window, outputs = Window(size), int(rng.choice([1, 31, 32, 33, 127, 128, 129, 200]))  # type: ignore[arg-type]
    elif style == 5:  # large kernels with groups or dilation
        kind, groups = "bits", int(rng.choice([1, 2, 3]))
        size = tuple(int(n) for n in rng.integers(1, 6, 2))
        channels, outputs = groups * int(rng.choice([130, 150, 161, 200])), groups * int(rng.choice([1, 3, 4, 8]))
        window = _window(rng, size, (4, 4))  # type: ignore[arg-type]
        pool = _pool(rng, window.output(*size))
    else:  # anything on bits
        kind = "bits"
        channels = int(rng.choice([1, 2, 3, 8, 31, 32, 33, 64, 65, 129, 1000]))
        groups = int(rng.choice([g for g in (1, 1, 2, 3, channels) if channels % g == 0]))
        outputs = groups * int(rng.choice([1, 2, 4, 5, 8, 33] if groups < 9 else [1, 2]))
        window = _window(rng, size, (5, 5) if channels < 1000 else (2, 2))  # type: ignore[arg-type]
        pool = _pool(rng, window.output(*size))
    return one_conv((*size, channels), outputs, window, groups, pool, kind, seed)  # type: ignore[arg-type]


def _inputs(rng: np.random.Generator, value: Value) -> NDArray[Any]:
    shape = (SAMPLES, *value.shape)
    if value.dtype == "bits":
        return np.asarray(rng.random(shape) < 0.5)
    if value.is_codes:
        return rng.integers(0, value.element.high + 1, shape).astype(np.uint8)
    low, high = (0, 256) if value.dtype == "uint8" else (-128, 128)
    return rng.integers(low, high, shape).astype(value.dtype)


def _bytes(value: Value, maps: NDArray[Any]) -> bytes:
    if not value.element.planes:
        return maps.astype(value.element.value).tobytes()
    if value.is_codes:  # all bits of a pixel's lowest plane, then the next
        planes = [(maps >> p & 1).astype(bool) for p in range(value.element.code_bits)]
        words_of = [np.frombuffer(_bytes(replace(value, dtype="bits"), plane), "<u4") for plane in planes]
        each = [plane.reshape(*maps.shape[:-1], -1) for plane in words_of]
        return np.concatenate(each, axis=-1).tobytes()
    padded = np.zeros((*maps.shape[:-1], 32 * words(value.shape[2])), bool)
    padded[..., : value.shape[2]] = maps
    return np.packbits(padded, axis=-1, bitorder="little").tobytes()


def encoded(case: Case) -> bytes:
    """A case as kernel_main.c reads it."""
    step, op = case.step, case.step.op
    height, width, channels = step.x.shape
    tables = [table.arrays[0] for table in step.tables]
    numbers = [0] * NUMBERS
    conv, pool = [0] * 26, [0] * POOL
    if isinstance(op, Conv):
        spare = Window((1, 1))
        windows = [(*w.kernel, *w.stride, *w.padding[:2], *w.dilation) for w in (op.window, op.pool or spare)]
        conv = [*op.x.shape, *op.unpooled[:2], *op.y.shape, op.groups, step.rows, *windows[0], *windows[1]]
        if step.kernel == "dense_tiles":
            numbers = [height * width * words(channels), op.y.shape[2], 0, 0]
        elif step.kernel in ("conv_planes", "conv_ternary_planes"):
            numbers = [op.x.element.code_bits, bits_of(op.y), 0, 0]
            tables = tables if step.tables[-1].role == "limits" else [tables[0], np.empty(0, np.int32), tables[1]]
        elif step.kernel in ("conv_bytes", "conv_ternary_bytes"):
            rows = 0 if op.x.is_codes else 1 if step.encode is None else len(tables[0]) // 256
            numbers = [bits_of(op.y), rows, op.x.element.planes, 0]
            tables = tables if step.encode is not None else [np.empty(0, np.int8), *tables]
            tables = tables if step.tables[-1].role == "limits" else [*tables[:2], np.empty(0, np.int32), tables[2]]
        elif step.record.whole:
            bits_in = -1 if op.x.dtype == "bits" else op.x.element.code_bits
            rows = 1 if step.encode is None else len(tables[0]) // 256
            numbers = [bits_in, bits_of(op.y), rows, 0]
            tables = tables if step.encode is not None else [np.empty(0, np.int8), *tables]
            tables = tables if step.tables[-1].role == "limits" else [*tables[:2], np.empty(0, np.int32), tables[2]]
        elif step.kernel in ("dense_columns", "dense_quads"):
            numbers = [op.fan_in, op.y.shape[2], columns.planes(op), 0]
        elif step.kernel == "dense":
            numbers = [op.fan_in, height * width * words(channels), op.y.shape[2], 0]
        elif step.kernel in CODED:
            numbers = [1 if step.encode is None else len(tables[0]) // 256, 0, 0, 0]
            tables = tables if step.encode is not None else [np.empty(0, np.int8), *tables]
            numbers[1] = len(tables[1]) if step.kernel == "conv_dots" else 0
        elif step.kernel == "conv_tiles" and len(tables) == 3:
            tables = [tables[0], np.empty(0, np.uint8), *tables[1:]]
    elif isinstance(op, Pool):
        w = op.window
        numbers = [bits_of(op.y), 0, 0, 0]
        pool = [*op.x.shape, *op.y.shape[:2], *w.kernel, *w.stride, *w.padding[:2], *w.dilation]
    elif isinstance(op, SumPool):
        w = op.window
        numbers = [bits_of(op.x), bits_of(op.y), 0, 0]
        pool = [*op.x.shape, *op.y.shape[:2], *w.kernel, *w.stride, *w.padding[:2], *w.dilation]
    elif isinstance(op, Scores) and step.kernel == "scores_dots":
        numbers = [height * width * words(channels), op.y.shape[2], 0, 0]
    elif isinstance(op, Binarize):
        numbers = [op.y.shape[0] * op.y.shape[1], op.y.shape[2], len(tables[0]), 0]
    else:
        bits = op.x.element.code_bits if step.record.ternary else bits_of(op.x)
        numbers = [height * width, channels, op.y.shape[2], bits]
    sizes = [table.nbytes for table in tables] + [0] * (TABLES - len(tables))
    head = [NAMES.index(step.kernel), case.tier, len(case.x), step.x.nbytes, step.x.nbytes // height]
    head += [step.y.nbytes, step.scratch, int(case.by_rows), *numbers, *conv, *pool, *sizes]
    return np.array(head, np.int32).tobytes() + b"".join(t.tobytes() for t in tables) + _bytes(step.x, case.x)


def run(program: Path, batch: Sequence[Case]) -> str | None:
    """What is wrong with the first case of the batch that is, or None."""
    done = subprocess.run(
        [str(program)], input=b"".join(map(encoded, batch)), capture_output=True, check=False, timeout=3000
    )
    at = 0
    for case in batch:
        op, step = case.step.op, case.step
        times = 2 if case.by_rows else 1
        size = step.y.nbytes
        data = done.stdout[at : at + times * size * len(case.x)]
        at += len(data)
        if len(data) < times * size * len(case.x):
            return f"{case}: {done.stderr.decode(errors='replace')[:3000] or f'status {done.returncode}'}"
        maps = np.frombuffer(data, np.uint8).reshape(len(case.x), times, size)
        for i in range(times):
            found = _decoded(step.y, maps[:, i])
            expected = _expected(case)
            wrong = evaluator.first_difference(case.program, op, 0, expected, found)
            if wrong is not None:
                return f"{case}: {'by rows: ' if i else ''}{wrong}"
    return None if done.returncode == 0 else f"status {done.returncode}: {done.stderr.decode(errors='replace')[:3000]}"


def _expected(case: Case) -> evaluator.Evaluated:
    """What the step should give."""
    step, op = case.step, case.step.op
    if isinstance(op, Pool):
        return evaluator.Evaluated({op.y.name: evaluator.pooled(op.window, case.x)}, {})
    if isinstance(op, Conv | Binarize | Flatten | SumPool):
        return evaluator.evaluate(case.program, case.x, 0)
    return evaluator.Evaluated({op.y.name: evaluator.scored(case.program, op, 0, case.x)}, {step.y.name: case.x})


def _decoded(value: Value, data: NDArray[np.uint8]) -> NDArray[Any]:
    height, width, channels = value.shape
    if not value.element.planes:
        return np.ascontiguousarray(data).view(value.element.value).reshape(len(data), *value.shape)
    if value.is_codes:
        count = value.element.code_bits
        each = np.ascontiguousarray(data).reshape(len(data), height * width, count, -1)
        plain = replace(value, dtype="bits")
        planes = [_decoded(plain, np.ascontiguousarray(each[:, :, p])) for p in range(count)]
        return np.asarray(sum(plane.astype(np.uint8) << np.uint8(p) for p, plane in enumerate(planes)))
    bits = np.unpackbits(np.ascontiguousarray(data).reshape(len(data), -1), axis=1, bitorder="little")
    maps = bits.reshape(len(data), height, width, 32 * words(channels)).astype(bool)
    assert not maps[..., channels:].any(), f"an unused bit of {value.name!r} is set"
    return maps[..., :channels]

"""Speed of the exported C on this machine: nanoseconds and multiply-adds a second, layer by layer.

    python benchmarks/c_kernels.py [mnist cifar10 dense grouped] [--cc gcc] [--flags="-O2" --flags="-O3 -mpopcnt"]
    python benchmarks/c_kernels.py cifar10 --on cortex-m55 [--cpu cortex-m55] [--optimize speed] [--ram 400K]
    python benchmarks/c_kernels.py mnist --bits 8 --on cortex-m4
    python benchmarks/c_kernels.py mnist --weights ternary --on cortex-m4
    python benchmarks/c_kernels.py mnist separable --bits 8 --weights int8 --on cortex-m4

Weights are random and thresholds lie near the middle of the sums, so about half of all bits are set. With --bits,
layers write codes instead, whose thresholds lie at equal distances, and three quarters of the codes are 0.
With --on, instructions are counted in an emulator instead. Times are CPU time of one thread, the smallest mean of
several rounds; each layer includes two clock readings.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.net.bits import pack_signs, pack_ternary
from blrc.net.elements import code_type
from blrc.program import program_file, reference
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Encode, Op, Program, Scores, Value, Window
from blrc.program.vectors import record
from blrc.targets.c.build.host import HostBuild
from blrc.targets.c.emit import emit
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import find
from blrc.targets.c.options import parse_bytes, parse_optimize
from blrc.targets.options import EmitOptions

SAME = Window((3, 3), padding=(1, 1, 1, 1))
HALF = Window((2, 2), (2, 2))


@dataclass(frozen=True)
class Layer:
    """A convolution, or a dense layer where `window` is None."""

    outputs: int
    window: Window | None = SAME
    pool: Window | None = None
    groups: int = 1


NETWORKS: dict[str, tuple[tuple[int, int, int], Sequence[Layer]]] = {
    "mnist": ((28, 28, 1), [Layer(32, pool=HALF), Layer(64, pool=HALF), Layer(512, None)]),
    "cifar10": (
        (32, 32, 3),
        [
            *(layer for n in (128, 256, 512) for layer in (Layer(n), Layer(n, pool=HALF))),
            Layer(1024, None),
        ],
    ),
    "dense": ((28, 28, 1), [Layer(1024, None), Layer(1024, None), Layer(1024, None)]),
    "separable": (
        (32, 32, 3),
        [
            Layer(16, Window((3, 3), (2, 2), (1, 1, 1, 1))),
            *(layer for n in (32, 64) for layer in (Layer(n // 2, groups=n // 2), Layer(n, Window((1, 1))))),
        ],
    ),
    "grouped": (
        (32, 32, 3),
        [Layer(64), Layer(64, groups=64), Layer(128, Window((1, 1))), Layer(128, groups=4), Layer(128, None)],
    ),
}


WEIGHTS = ("binary", "ternary", "int8")
ZEROS = 0.4
"""Share of ternary weights that are 0."""


def network(
    shape: tuple[int, int, int], layers: Sequence[Layer], bits: int = 0, weights: str = "binary", seed: int = 0
) -> Program:
    """A random program: uint8 input, these layers, 10 scores.

    Layers write codes of so many bits, or with 0 bits +-1. Their weights are one of `WEIGHTS`.
    """
    rng = np.random.default_rng(seed)
    x = Value("input", "uint8", shape)
    codes = Value("codes", "int8", shape)
    ops: list[Op] = [Encode("encode", x, codes, "encode.table")]
    constants = {"encode.table": np.arange(-127, 129).clip(-127, 127).astype(np.int8)[None]}
    at = codes
    sample: NDArray[Any] = np.random.default_rng([seed, 1]).integers(-127, 128, (1, *shape)).astype(np.int8)
    for i, layer in enumerate(layers):
        window = layer.window or Window(at.shape[:2])
        name = f"{'dense' if layer.window is None else 'conv'}{i + 1}"
        height, width = window.output(*at.shape[:2])
        size = (height, width) if layer.pool is None else layer.pool.output(height, width)
        element = code_type(bits) if bits else "bits"
        y = Value(f"{name}.bits", element, (*size, layer.outputs))
        op = Conv(name, at, y, f"{name}.weights", f"{name}.thresholds", window, layer.groups, layer.pool)
        op = replace(op, ternary=weights == "ternary", whole=weights == "int8")
        rows = (layer.outputs, *window.kernel, op.group_channels)
        signs = rng.integers(0, 2, rows) * 2 - 1
        if op.whole:
            constants[op.weights] = rng.integers(-127, 128, rows).astype(np.int8)
        else:
            zeros = rng.random(rows) < ZEROS if op.ternary else np.zeros(rows, bool)
            constants[op.weights] = pack_ternary(np.where(zeros, 0, signs)) if op.ternary else pack_signs(signs)
        constants[op.thresholds] = rng.integers(-2, 3, layer.outputs).astype(np.int32)
        if bits:
            before = Program(x, tuple(ops), of_one(constants), ("map",), 0.01)
            constants[op.thresholds] = levels(op, before, sample)
            sample = op.run(replace(before, constants=of_one(constants)), sample)
        ops.append(op)
        at = y
    scores = Scores("scores", at, Value("scores", "int32", (1, 1, 10)), "scores.weights", "scores.bias")
    constants[scores.weights] = rng.integers(-127, 128, (10, *at.shape)).astype(np.int8)
    constants[scores.bias] = np.zeros(10, np.int32)
    ops.append(scores)
    return check(Program(x, tuple(ops), of_one(constants), ("map",), 0.01))


def of_one(tables: Mapping[str, NDArray[Any]]) -> dict[str, Constant]:
    return {name: Constant((table,), (0,)) for name, table in tables.items()}


def levels(op: Conv, before: Program, sample: NDArray[Any]) -> NDArray[np.int32]:
    """Thresholds at equal distances, which three quarters of the pooled sums do not reach."""
    z, (low, high) = op.preactivation(before, sample), before.bounds(op)
    lowest = np.quantile(z, 0.75 ** (1 if op.pool is None else 1 / op.pool.taps))
    line = np.ceil(lowest + z.std() / 64 * np.arange(op.y.element.high)).clip(low, high + 1).astype(np.int32)
    return np.tile(line, (op.y.shape[2], 1))


def measure(program: Program, folder: Path, flags: Sequence[str], cc: str | None, rounds: int) -> None:
    """Print one table; refuses to time an answer that is wrong."""
    raw = np.random.default_rng(1).integers(0, 256, (2, *program.input.shape)).astype(np.uint8)
    with HostBuild(folder, "bench", flags, cc) as build:
        expected, found = reference.run(program, raw), build.run(raw)
        for op in program.ops:
            if op.y.name in found and not np.array_equal(expected[op.y.name], found[op.y.name]):
                raise SystemExit(f"{op.name} is wrong: not timed")
        _, whole = build.time(raw, 1)
        repeats = max(1, int(1e8 / whole))
        results = [build.time(raw, repeats) for _ in range(rounds)]
        whole = min(total for _, total in results)
        print(f"  {' '.join(flags)}: {build.flash} bytes of code and tables")
        for step in build.layout.steps:
            ns = min(each[step.op.name] for each, _ in results)
            rate = step.op.macs / ns
            print(f"    {step.op.name:10} {step.kernel:12} {ns:12,.0f} ns {rate:8.1f} GMAC/s")
        total = program.macs
        print(f"    {'whole':23} {whole:12,.0f} ns {total / whole:8.1f} GMAC/s")


def count(program: Program, folder: Path, machine: str) -> None:
    """Print the instructions of each layer for one image; refuses to count where an answer is wrong."""
    raw = np.random.default_rng(1).integers(0, 256, (1, *program.input.shape)).astype(np.uint8)
    with EmulatedBuild(folder, "bench", find(machine)) as build:
        expected, found = reference.run(program, raw), build.run(raw)
        if wrong := [name for name in expected if name in found and not np.array_equal(expected[name], found[name])]:
            raise SystemExit(f"{', '.join(wrong)}: wrong, not counted")
        steps = build.step_instructions(raw) or {}
        print(f"  {build.compiler}: arena {build.layout.arena_bytes:,} bytes")
        for step in build.layout.steps:
            print(f"    {step.op.name:10} {step.kernel:12} {steps[step.op.name]:14,} instructions")
        print(f"    {'whole':23} {sum(steps.values()):14,}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=["mnist", "cifar10"], help=", ".join(NETWORKS))
    parser.add_argument("--bits", type=int, default=0, help="of the codes that layers write; 0: they write +-1")
    parser.add_argument("--weights", choices=WEIGHTS, default="binary", help=f"of ternary ones, {ZEROS:.0%} are 0")
    parser.add_argument("--flags", action="append", help="compiler flags, once for each table")
    parser.add_argument("--cc")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--on", help="count instructions on this machine (blrc.targets.c.machines.table)")
    parser.add_argument("--cpu", default="portable")
    parser.add_argument("--optimize", default="size")
    parser.add_argument("--ram", help="for --optimize speed, such as 400K")
    arguments = parser.parse_args()
    for name in arguments.networks:
        program = network(*NETWORKS[name], arguments.bits, arguments.weights)
        nothing = record(program, np.zeros((1, *program.input.shape), np.uint8))
        ram = parse_bytes(arguments.ram, "--ram")
        form = parse_optimize(arguments.optimize)
        options = EmitOptions("bench", nothing, "0", optimize=form, ram=ram, cpu=arguments.cpu)
        files = {**emit(program, options).files, "bench.program.npz": program_file.to_bytes(program)}
        print(name)
        with tempfile.TemporaryDirectory() as folder:
            for file, content in files.items():
                (Path(folder) / file).write_bytes(content)
            if arguments.on is not None:
                count(program, Path(folder), arguments.on)
                continue
            for flags in arguments.flags or ["-O2", "-O3 -mpopcnt"]:
                measure(program, Path(folder), shlex.split(flags), arguments.cc, arguments.rounds)


if __name__ == "__main__":
    main()

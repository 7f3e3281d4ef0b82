"""The exported C beside other runtimes on x86-64, shape by shape: how many times faster is it?

    python benchmarks/bench.py [a b c d e f g h] [--rounds 15] [--json FILE] [--plot FILE.svg]

One thread, batch 1. For every shape all contestants run in turn, in one process, and the median of each one's CPU time
is taken: the C at each level of the instruction set that this machine has; ONNX Runtime, with all optimisations and its
arrays bound once, in float32 and in int8 (QLinearConv, QLinearMatMul) on the same layer (the convolution or matrix
product alone, on real-valued or 8-bit input) or network (with bias, ReLU and max pooling); the ONNX file that blrc
writes of the shape; PyTorch; Larq Compute Engine where BLRC_LCE_PYTHON names an interpreter that has it (`make lce`);
and the popcount peak (`blrc.benchmark.peak`). Convolutions also run with twice as many outputs: what the time does not
grow by is not spent on outputs. Goals follow (`goals.py`), with what stands in the way of those that are missed. The C
is compiled with `blrc.targets.c.native.library.host_flags`: -O3, and -mpopcnt where the CPU has it, which the portable
level has too, then. Weights are random. What the C computes is compared with the reference before it is timed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from c_kernels import NETWORKS, network
from goals import COUNTS, goals

from blrc import display
from blrc.benchmark.clock import SECONDS, Run, interleaved
from blrc.benchmark.host import versions
from blrc.benchmark.ours import compile_levels
from blrc.benchmark.peak import Peak
from blrc.benchmark.report import RATIOS, peak_fraction, times
from blrc.benchmark.rivals import lce, twins
from blrc.benchmark.rivals.registry import FLOAT32, INT8, OURS, TORCH, in_onnx_runtime
from blrc.benchmark.rivals.torch_twin import in_torch, one_thread
from blrc.benchmark.run import ROUNDS
from blrc.net.bits import pack_signs
from blrc.program import vectors
from blrc.program.legal import check
from blrc.program.program import Constant, Conv, Program, Scores, Value, Window
from blrc.store.places import write_atomically
from blrc.targets.c.kernels.tiers import allowed
from blrc.targets.c.native.library import library_files
from blrc.targets.onnx import emit
from blrc.targets.options import EmitOptions
from blrc.verification.inputs.stimuli import random_inputs
from blrc.version import VERSION


@dataclass(frozen=True)
class Shape:
    """A layer, dense where `kernel` is 0, or a network of `c_kernels`."""

    title: str
    size: int = 1
    channels: int = 0
    outputs: int = 0
    kernel: int = 0
    network: str = ""


SHAPES = {
    "a": Shape("conv 3x3 256 to 256, 14x14", 14, 256, 256, 3),
    "b": Shape("conv 3x3 128 to 128, 32x32", 32, 128, 128, 3),
    "c": Shape("conv 3x3 512 to 512, 8x8", 8, 512, 512, 3),
    "d": Shape("conv 3x3 32 to 64, 14x14", 14, 32, 64, 3),
    "e": Shape("dense 3136 to 512", 1, 3136, 512),
    "f": Shape("dense 8192 to 1024", 1, 8192, 1024),
    "g": Shape("the MNIST network", network="mnist"),
    "h": Shape("the CIFAR-10 network", network="cifar10"),
}
LAYER = "layer"


def layer(shape: Shape) -> Program:
    """One layer with bits before and behind it, and a single score."""
    rng = np.random.default_rng(0)
    kernel = max(shape.kernel, 1)
    x = Value("x", "bits", (shape.size, shape.size, shape.channels))
    y = Value("y", "bits", (shape.size, shape.size, shape.outputs))
    op = Conv(LAYER, x, y, "weights", "thresholds", Window((kernel, kernel), padding=(kernel // 2,) * 4))
    scores = Scores("scores", y, Value("scores", "int32", (1, 1, 1)), "score weights", "bias")
    constants = {
        "weights": pack_signs(rng.integers(0, 2, (shape.outputs, kernel, kernel, shape.channels)) * 2 - 1),
        "thresholds": rng.integers(-20, 20, shape.outputs).astype(np.int32),
        "score weights": np.ones((1, *y.shape), np.int8),
        "bias": np.zeros(1, np.int32),
    }
    tables = {name: Constant((table,), (0,)) for name, table in constants.items()}
    return check(Program(x, (op, scores), tables, ("map",), 1.0))


def contestants(program: Program, there: tuple[str, ...], stack: ExitStack) -> Iterator[tuple[str, Run]]:
    """The C at each level, checked; then its rivals."""
    sample, name = random_inputs(program.input, 1, 1), "net"
    alone = program.ops[0].name == LAYER
    ops = program.ops[:1] if alone else program.ops
    for level in compile_levels(library_files(program, name), name, program, sample, there):
        stack.enter_context(level.native)
        yield level.name, level.step(LAYER) if alone else level.network()
    if alone:
        yield OURS, in_onnx_runtime(emit.op_model(program, program.ops[0]))
    else:
        options = EmitOptions(name, vectors.record(program, sample), VERSION)
        yield OURS, in_onnx_runtime(emit.emit(program, options).files[f"{name}.onnx"])
    yield FLOAT32, in_onnx_runtime(twins.float32_model(program, ops, bare=alone))
    yield INT8, in_onnx_runtime(twins.int8_model(program, ops, bare=alone))
    yield TORCH, in_torch(program, ops)


def wider(shape: Shape, there: tuple[str, ...], stack: ExitStack) -> Iterator[tuple[tuple[str, str], Run]]:
    """The layer with twice as many outputs, at each level."""
    program = layer(replace(shape, outputs=2 * shape.outputs))
    for level in compile_levels(
        library_files(program, "net"), "net", program, random_inputs(program.input, 1, 1), there
    ):
        stack.enter_context(level.native)
        yield ("wider", level.name), level.step(LAYER)


def program_of(shape: Shape) -> Program:
    return network(*NETWORKS[shape.network]) if shape.network else layer(shape)


def larq(names: Sequence[str], stack: ExitStack) -> tuple[dict[str, Run], dict[str, str]]:
    """Larq Compute Engine on these shapes, one process for all, and its version; nothing where it is not there."""
    if (python := lce.interpreter()) is None:
        return {}, {}
    networks: dict[str, dict[str, Any]] = {}
    for name in names:
        program, whole = program_of(SHAPES[name]), bool(SHAPES[name].network)
        built = lce.network(program.ops if whole else program.ops[:1], bare=not whole)
        assert built is not None
        networks[name] = built
    engine = stack.enter_context(lce.Engine(list(networks.values()), python))
    return {name: engine.run(i) for i, name in enumerate(networks)}, {"larq-compute-engine": engine.version}


def measured(
    shape: Shape, rounds: int, seconds: float, there: tuple[str, ...], peak: Peak, others: Mapping[str, Run]
) -> dict[str, Any]:
    """What the table and the JSON hold of a shape; `others` are contestants that run elsewhere."""
    program = program_of(shape)
    work = program.macs if shape.network else program.ops[0].macs
    with ExitStack() as stack:
        runs: dict[tuple[str, str], Run] = {("", who): run for who, run in contestants(program, there, stack)}
        runs |= {("", who): run for who, run in others.items()}
        runs |= {("peak", level): peak.run(level) for level in there}
        if shape.kernel:
            runs |= dict(wider(shape, there, stack))
        stack.enter_context(one_thread())
        found = interleaved(runs, rounds, seconds)
    spent = {who: time for (kind, who), time in found.items() if not kind}
    peaks = {level: peak.macs(level) / found["peak", level].cpu for level in there}
    row = {
        "title": shape.title,
        "macs": work,
        **times(spent, there),
        "peak_fraction": peak_fraction(spent, work, peaks),
        "peak_gmacs": {level: round(value / 1e9, 1) for level, value in peaks.items()},
    }
    if shape.kernel:
        twice = {level: found["wider", level].cpu for level in there}
        row["fixed_us"] = {level: round(1e6 * max(0.0, 2 * spent[level].cpu - twice[level]), 2) for level in there}
    return {**row, **{key: before_avx2(row[key]) for key in RATIOS}}


def before_avx2(ratios: Mapping[str, float]) -> dict[str, float]:
    """What a CPU before AVX2 takes is the better of two levels."""
    return {**ratios, "portable": max(ratios["portable"], ratios.get("popcnt", 0))}


def measure(names: Sequence[str], rounds: int, seconds: float) -> dict[str, Any]:
    """All of these shapes: what the JSON holds."""
    found: dict[str, Any] = {}
    with Peak() as peak, ExitStack() as stack:
        levels = allowed(peak.levels)
        elsewhere, version = larq(names, stack)
        for name in names:
            others = {lce.LCE: elsewhere[name]} if name in elsewhere else {}
            found[name] = measured(SHAPES[name], rounds, seconds, levels, peak, others)
            print(f"{name} {SHAPES[name].title}: measured", file=sys.stderr, flush=True)
    return {"versions": {**versions(), **version}, "rounds": rounds, "levels": list(levels), "shapes": found}


def table(shapes: Mapping[str, Mapping[str, Any]], levels: tuple[str, ...]) -> str:
    """Of the C's levels: us (times faster than float32, than int8; of the popcount peak); of the rivals: us."""
    rivals = rivals_of(shapes)
    rows = [("", "", *levels, *rivals)]
    for name, row in shapes.items():
        us = row["us"]
        cells = [
            f"{us[level]:,.1f} ({us[FLOAT32] / us[level]:.1f}, {us[INT8] / us[level]:.1f}; "
            + (f"{100 * row['peak_fraction'][level]:.0f} %)" if level in row["peak_fraction"] else "-)")
            for level in levels
        ]
        rows.append((name, row["title"], *cells, *(f"{us[rival]:,.1f}" if rival in us else "-" for rival in rivals)))
    return "\n".join(display.table(rows, left=2))


def goals_table(shapes: Mapping[str, Mapping[str, Any]], levels: tuple[str, ...]) -> str:
    """Every goal of the levels that this machine has; of a missed one, what was measured that stands in the way."""
    rows, verdicts = [("", "level", "than", "goal", "counts", "here")], [""]
    for goal in goals(shapes, levels):
        rows.append((goal.shape, goal.level, goal.rival, f"{goal.goal:g}", f"{goal.counts:.2f}", f"{goal.found:.2f}"))
        verdicts.append("reached" if goal.reached else f"missed: {goal.why}")
    lines = display.table(rows, left=3)
    return "\n".join(f"{line}  {verdict}".rstrip() for line, verdict in zip(lines, verdicts, strict=True))


def rivals_of(shapes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Who was timed besides the C."""
    there = {name for row in shapes.values() for name in row["us"]}
    return [rival for rival in (OURS, FLOAT32, INT8, TORCH, lce.LCE) if rival in there]


def drawn(shapes: Mapping[str, Mapping[str, Any]], levels: tuple[str, ...]) -> bytes:
    """The figure: how many times faster than float32, on a logarithmic axis. Needs matplotlib."""
    from blrc.benchmark.show import figure

    who = (*levels, *(rival for rival in rivals_of(shapes) if rival != FLOAT32))
    series = {
        name: [row["us"][FLOAT32] / row["us"][name] if name in row["us"] else None for row in shapes.values()]
        for name in who
    }
    return figure.to_svg(figure.bars(list(shapes), series, "", f"times faster than {FLOAT32} (CPU time)", FLOAT32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), help="a to h")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one measurement")
    parser.add_argument("--json", type=Path, help="write the table here")
    parser.add_argument("--plot", type=Path, help="draw it into this SVG file")
    arguments = parser.parse_args()
    if unknown := set(arguments.shapes) - set(SHAPES):
        parser.error(f"no such shape: {', '.join(sorted(unknown))}; there are {', '.join(SHAPES)}")
    record = measure(arguments.shapes, arguments.rounds, arguments.seconds)
    levels, found = tuple(record["levels"]), record["shapes"]
    about = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    print(f"us of CPU time ({about}); of the C: times faster than {FLOAT32}, than {INT8}; of the popcount peak")
    print(table(found, levels))
    print(f"\ngoals, times faster than a rival on a Zen 4 CPU; {COUNTS:.0%} of a ratio to float32 count as reached")
    print(goals_table(found, levels))
    if arguments.json is not None:
        write_atomically(arguments.json, (json.dumps(record, indent=2) + "\n").encode())
    if arguments.plot is not None:
        write_atomically(arguments.plot, drawn(found, levels))


if __name__ == "__main__":
    main()

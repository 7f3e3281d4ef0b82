"""Time a model's C on this machine in one thread with batch 1, at every level, layer by layer, beside its rivals.

A level is a part of the CPU's instruction set for which the C has kernels of its own, such as ``portable`` or ``avx2``.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from blrc.benchmark.clock import SECONDS, Run, Time, interleaved
from blrc.benchmark.ours import Level, compile_levels, levels_of
from blrc.benchmark.peak import Peak
from blrc.benchmark.rivals import lce
from blrc.benchmark.rivals.registry import OURS, RIVALS, TORCH
from blrc.benchmark.subject import Subject, told_apart
from blrc.program.program import Op, WeightedOp
from blrc.targets.c.kernels.tiers import allowed, host_cpu
from blrc.targets.c.layout.layout import HOSTS, PORTABLE, Layout
from blrc.targets.c.native.library import library_files
from blrc.targets.c.size.choose import choose
from blrc.targets.requests import Optimize
from blrc.version import VERSION

Progress = Callable[[str, int, int], None]
NETWORK = "network"
_Key = tuple[str, int, str]  # kind, row, contestant


@dataclass(frozen=True)
class Row:
    """Hold the times of a layer, of the network, or of the ensemble.

    Attributes:
        what: the layer's name, ``network``, or ``ensemble of N``.
        kernel: name of the layer's kernel in the C, as in the manifest; empty for the network and the ensemble.
        macs: number of multiply-adds of one run.
        binary: whether all of them multiply bits by bits.
        times: times by contestant, which is a level of the C or one of `blrc.benchmark.rivals`.
    """

    what: str
    kernel: str
    macs: int
    binary: bool
    times: Mapping[str, Time] = field(default_factory=dict)


@dataclass(frozen=True)
class Other:
    """Hold what another choice of export options would have given.

    Attributes:
        options: options of ``blrc export``.
        level: the highest level of the C that this CPU has.
        time: time of one network.
        arena, tables: bytes of the arena and of the tables.
    """

    options: str
    level: str
    time: Time
    arena: int
    tables: int


@dataclass(frozen=True)
class Host:
    """Hold everything that was measured on this machine.

    Attributes:
        levels: levels of the instruction set at which the C was timed.
        rounds: number of rounds.
        peaks: binary multiply-adds per second by level, with all operands in registers.
        rows: times of the layers, of the network, and of the ensemble where there are several members.
        others: times of other choices of export options.
        left_out: contestants that did not take part, each with the reason.
        versions: versions of the packages that took part.
    """

    levels: tuple[str, ...]
    rounds: int
    peaks: Mapping[str, float]
    rows: tuple[Row, ...]
    others: tuple[Other, ...]
    left_out: Mapping[str, str]
    versions: Mapping[str, str]


def measure(
    subject: Subject,
    rounds: int,
    others: bool = True,
    seconds: float = SECONDS,
    progress: Progress = lambda what, done, total: None,
) -> Host:
    """Time a model on this machine.

    Args:
        subject: the model to time.
        rounds: number of rounds, in each of which every contestant has its turn.
        others: also time other choices of export options.
        seconds: time of one measurement.
        progress: called with what is being done, how much of it is done, and how much there is.

    Raises:
        BlrcError: there is no compiler, or the C computes wrong values and is therefore not timed.
    """
    program, steps, members = subject.program, subject.layout.steps, len(subject.program.members)
    rows = [_row(step.op.name, step.kernel, (step.op,)) for step in steps]
    rows.append(_row(NETWORK, "", program.ops))
    if members > 1:
        rows.append(replace(rows[-1], what=f"ensemble of {members}", macs=members * rows[-1].macs))
    with ExitStack() as stack:
        progress("compiling", 0, 1)
        peak = stack.enter_context(Peak())
        there = allowed(peak.levels)
        levels = _compiled(subject, subject.files, subject.layout, there, stack)
        runs: dict[_Key, Run] = {}
        for level in levels:
            ours = [level.step(step.op.name) for step in steps] + [level.network()]
            ours += [level.ensemble()] if members > 1 else []
            runs |= {("row", i, level.name): run for i, run in enumerate(ours)}
        left_out = {name: reason for name in RIVALS if (reason := _left_out(name, subject))}
        for name in (name for name in RIVALS if name not in left_out):
            rival = RIVALS[name]
            for i, step in enumerate(steps):
                if (run := rival.step(subject, step)) is not None:
                    runs["row", i, name] = run
            for i, whole in ((len(steps), False), (len(steps) + 1, True))[: len(rows) - len(steps)]:
                if (run := rival.network(subject, whole)) is not None:
                    runs["row", i, name] = run
        all_ops = [[step.op] for step in steps] + [list(program.ops)]
        larq, version = _larq(all_ops, stack) if lce.missing() is None else ({}, {})
        runs |= {("row", i, lce.LCE): run for i, run in larq.items()}
        left_out |= {} if version else {lce.LCE: str(lce.missing())}
        runs |= {("peak", 0, level): peak.run(level) for level in there}
        choices = _choices(subject, there, stack) if others else []
        runs |= {("other", i, ""): level.network() for i, (_, _, level) in enumerate(choices)}
        progress("compiling", 1, 1)
        if TORCH not in left_out:
            from blrc.benchmark.rivals.torch_twin import one_thread

            stack.enter_context(one_thread())
        times = interleaved(runs, rounds, seconds, lambda done, total: progress("rounds", done, total))
    return Host(
        levels=tuple(level.name for level in levels),
        rounds=rounds,
        peaks={level: peak.macs(level) / times["peak", 0, level].cpu for level in there},
        rows=tuple(replace(row, times=_of_row(times, i, levels)) for i, row in enumerate(rows)),
        others=tuple(
            Other(options, level.name, times["other", i, ""], layout.arena_bytes, _tables(layout))
            for i, (options, layout, level) in enumerate(choices)
        ),
        left_out=left_out,
        versions={**versions(), **version},
    )


def versions() -> dict[str, str]:
    """Return the versions of blrc, of Python, and of the installed packages that take part."""
    found = {"blrc": VERSION, "python": platform.python_version()}
    for package in ("onnxruntime", "torch"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _row(what: str, kernel: str, ops: Sequence[Op]) -> Row:
    weighted = [op for op in ops if isinstance(op, WeightedOp)]
    binary = bool(weighted) and all(op.is_binary for op in weighted)
    return Row(what, kernel, sum(op.macs for op in ops), binary)


def _of_row(times: Mapping[_Key, Time], row: int, levels: Sequence[Level]) -> dict[str, Time]:
    names = [*(level.name for level in levels), *RIVALS, lce.LCE]
    return {name: times["row", row, name] for name in names if ("row", row, name) in times}


def _larq(rows: Sequence[Sequence[Op]], stack: ExitStack) -> tuple[dict[int, Run], dict[str, str]]:
    """Return runs of Larq Compute Engine for the rows that it has layers for, and its version."""
    networks = {i: found for i, ops in enumerate(rows) if (found := lce.network(ops)) is not None}
    engine = stack.enter_context(lce.Engine(list(networks.values()), str(lce.interpreter())))
    return {i: engine.run(at) for at, i in enumerate(networks)}, {"larq-compute-engine": engine.version}


def _left_out(name: str, subject: Subject) -> str | None:
    """Return why a rival does not take part, or None if it does."""
    if (missing := RIVALS[name].missing) is not None:
        return missing
    return (
        "no ONNX file: export with --target onnx too, and give the folder"
        if name == OURS and subject.onnx is None
        else None
    )


def _compiled(
    subject: Subject, files: Mapping[str, bytes], layout: Layout, there: Sequence[str], stack: ExitStack
) -> list[Level]:
    levels = compile_levels(files, subject.name, subject.program, subject.sample, levels_of(layout, there))
    for level in levels:
        stack.enter_context(level.native)
    return levels


def _choices(subject: Subject, there: Sequence[str], stack: ExitStack) -> list[tuple[str, Layout, Level]]:
    """Compile the other choices of options that give different C, each at its highest level on this machine."""
    known, found = [told_apart(subject.layout)], []
    sizes: tuple[Optimize, ...] = ("size", "speed", "ram")
    first = [] if subject.layout.cpu == PORTABLE else ["--cpu portable"]
    options = [(PORTABLE, " ".join([*first, *_optimize(each, bool(first))]), each) for each in sizes]
    if (here := host_cpu()) in HOSTS:
        options.append((here, f"--cpu {here}", "size"))
    for cpu, words, optimize in options:
        layout = choose(subject.program, optimize, cpu=cpu)
        if told_apart(layout) not in known:
            known.append(told_apart(layout))
            files = library_files(subject.program, subject.name, cpu, optimize)
            found.append((words, layout, _compiled(subject, files, layout, levels_of(layout, there)[-1:], stack)[0]))
    return found


def _optimize(choice: Optimize, default: bool) -> list[str]:
    """Return the ``--optimize`` option, or nothing if it is the default and other options are given (`default`)."""
    return [] if default and choice == "size" else [f"--optimize {choice}"]


def _tables(layout: Layout) -> int:
    return sum(step.flash for step in layout.steps)

"""Verify an export on other processors, in emulators: equality with the reference, memory, instructions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from blrc.errors import BlrcError
from blrc.program import Program
from blrc.targets.c.emulated import DoesNotFitError, EmulatedBuild, missing_tools
from blrc.targets.c.machines import ALL, Machine, find
from blrc.verification.engines import c_engine
from blrc.verification.run import InputSet, Progress, Tally, compare_inputs, compare_ops, not_compared

Status = Literal["equal", "differs", "does not fit", "skipped"]


@dataclass(frozen=True)
class Device:
    """What was found on one machine.

    Attributes:
        name, title: of the machine.
        status: ``differs`` also where the code does not compile, crashes, or fails its self-test.
        detail: the first difference, the numbers of what does not fit, or what to install; empty where all is equal.
        inputs: on how many whole inputs all layers of all members were compared.
        values_compared: all values, those of each op alone included.
        flash: bytes of code and constants of the model, as compiled.
        ram: bytes of the arena.
        stack: bound in bytes for one call.
        instructions: of one classification of the first recorded input by the first member; None where not counted.
        compiler: with its version and flags.
    """

    name: str
    title: str
    status: Status
    detail: str = ""
    inputs: int = 0
    values_compared: int = 0
    flash: int | None = None
    ram: int | None = None
    stack: int | None = None
    instructions: int | None = None
    compiler: str | None = None


def parse_machines(text: str) -> tuple[str, ...]:
    """Names with commas between, or ``all``; in the order of `machines.ALL`, each once.

    Raises:
        BlrcError: a name that there is not.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name != "all" and name not in ALL]
    if unknown or not names:
        raise BlrcError(
            f"--on {text!r}: no machine {', '.join(unknown) or 'named'}; there are {', '.join(ALL)}, and all"
        )
    return tuple(name for name in ALL if name in names or "all" in names)


def verify_devices(
    folder: Path, name: str, names: Sequence[str], inputs: Sequence[InputSet], seed: int, progress: Progress
) -> tuple[Device, ...]:
    """Every machine of `names`, as many at a time as there are cores.

    Args:
        inputs: the sets that each machine is given, or as much of each as its emulator can take.
        seed: of the maps that reach the threshold edges.
    """
    done = 0

    def one(machine: str) -> Device:
        nonlocal done
        result = verify_device(folder, name, machine, inputs, seed)
        done += 1
        progress(f"machines ({machine}: {result.status})", done, len(names))
        return result

    progress("machines", 0, len(names))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return tuple(pool.map(one, names))


def verify_device(folder: Path, name: str, machine_name: str, inputs: Sequence[InputSet], seed: int) -> Device:
    """One machine: build, self-test, each op alone, the inputs, and what one classification costs."""
    machine = find(machine_name)
    made = partial(Device, machine.name, machine.title)
    lacking = missing_tools(machine)
    if lacking:
        return made("skipped", "; ".join(f"{tool.program} not found: install {tool.package}" for tool in lacking))
    try:
        with EmulatedBuild(folder, name, machine) as build:
            return _compared(build, machine, inputs, seed, made)
    except DoesNotFitError as error:
        return made("does not fit", str(error))
    except BlrcError as error:
        return made("differs", str(error))


def _compared(
    build: EmulatedBuild, machine: Machine, inputs: Sequence[InputSet], seed: int, made: Callable[..., Device]
) -> Device:
    program: Program = build.program
    engine = c_engine(build, machine.title, machine.limit)
    tally = Tally()
    if machine.limit is None:  # the maps that reach every edge would take a slow emulator hours
        compare_ops(program, [engine], seed, tally, _quiet)
    for each in inputs:
        if tally.difference is None:
            compare_inputs(program, [engine], each, tally, _quiet)
    problems = [] if tally.difference is None else [str(tally.difference)]
    problems += [] if problems else not_compared(program, [engine], tally)
    if not problems and (failed := build.selftest()):
        problems.append(f"{machine.title}: the export's self-test returns {failed}")
    recorded = inputs[0].raw
    if not problems and not np.array_equal(build.answers(recorded, stop=True).label, build.answers(recorded).label):
        problems.append(f"{machine.title}: stopping early changes a label of the recorded vectors")
    return made(
        "differs" if problems else "equal",
        "; ".join(problems),
        sum(counts.get(engine.name, 0) for counts in tally.inputs.values()),
        sum(tally.values.get(engine.name, {}).values()),
        build.flash,
        build.ram,
        build.stack,
        build.instructions(recorded),
        build.compiler,
    )


def _quiet(what: str, done: int, total: int) -> None:
    pass


def to_table(devices: Sequence[Device]) -> str:
    """A line for each machine, and below it what is wrong with it."""
    head = ("", "", "inputs", "flash", "RAM", "stack", "instructions")
    rows = [
        (d.name, d.status, *(_number(n) for n in (d.inputs or None, d.flash, d.ram, d.stack, d.instructions)))
        for d in devices
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = []
    for row, detail in zip((head, *rows), ("", *(d.detail for d in devices)), strict=True):
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
        lines += [f"      {detail}"] if detail else []
    return "\n".join(lines)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"

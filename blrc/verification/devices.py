"""Verify an export on other processors, in emulators: equality with the reference, memory, instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Literal

from blrc.display import table
from blrc.errors import BlrcError
from blrc.program.program import Program
from blrc.targets.c.build.compiler import ToolError
from blrc.targets.c.machines.emulated import EmulatedBuild, missing_tools
from blrc.targets.c.machines.emulator import TimedOutError
from blrc.targets.c.machines.table import ALL, Machine, find
from blrc.targets.c.size.fit import DoesNotFitError, Need
from blrc.verification.engines import c_engine
from blrc.verification.run import InputSet, Progress, Tally, compare_inputs, compare_ops, compare_ties, not_compared
from blrc.workers import thread_pool

Status = Literal["equal", "differs", "timed out", "not built", "does not fit", "no room to test", "skipped"]


@dataclass(frozen=True)
class Device:
    """Hold what was found on one machine.

    Attributes:
        name, title: the machine's name and its title.
        status: the result in words. ``differs`` also covers code that crashes or fails its self-test; ``not built``
            means that a compiler or linker fails; ``no room to test`` means that the model fits, but not together with
            the code that compares its layers there.
        detail: the first difference, the numbers of what does not fit, or what to install; where all is equal, empty or
            a note on what could not be done.
        inputs: the number of whole inputs on which all layers of all members were compared.
        values_compared: the number of all values, those of each op alone included.
        flash: bytes of the model's code and constants as compiled; if it is too large to be compiled, bytes of its
            tables.
        ram: bytes of the arena.
        stack: an upper bound in bytes for one call.
        instructions: instructions that the first member takes to classify the first recorded input; None if not
            counted.
        compiler: the compiler with its version and flags.
        needs_ram: bytes of RAM in all: arena, input, scores or sums of members, and stack.
        has: bytes of flash and RAM of the machine, if these are limits.
        sets: the number of these inputs in each set, by its name.
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
    needs_ram: int | None = None
    has: tuple[int, int] | None = None
    sets: Mapping[str, int] = field(default_factory=dict)


def parse_machines(machines: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the machines that a user names, in the order of the table, each once. Case does not matter.

    Args:
        machines: a list of names, a text of names separated by commas, or ``all``; None stands for no machine.

    Raises:
        BlrcError: a name is unknown, or there is no name.
    """
    if machines is None:
        return ()
    text = machines if isinstance(machines, str) else ",".join(machines)
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name != "all" and name not in ALL]
    if unknown or not names:
        near = [match for name in unknown for match in get_close_matches(name, ALL, 1, 0.9)]
        meant = f" (did you mean {', '.join(near)}?)" if near else ""
        raise BlrcError(
            f"--on {text!r}: no machine {', '.join(unknown) or 'named'}{meant}; there are {', '.join(ALL)}, and all"
        )
    return tuple(name for name in ALL if name in names or "all" in names)


def verify_devices(
    folder: Path, name: str, names: Sequence[str], inputs: Sequence[InputSet], seed: int, progress: Progress
) -> tuple[Device, ...]:
    """Verify the export on every machine of `names`, as many at a time as there are cores.

    Args:
        inputs: the sets that each machine is given, or as much of each as its emulator can take.
        seed: the seed of the maps that reach the threshold edges.
    """
    done = 0

    def one(machine: str) -> Device:
        nonlocal done
        result = verify_device(folder, name, machine, inputs, seed)
        done += 1
        progress(f"machines ({machine}: {result.status})", done, len(names))
        return result

    progress("machines", 0, len(names))
    with thread_pool() as pool:
        return tuple(pool.map(one, names))


def verify_device(folder: Path, name: str, machine_name: str, inputs: Sequence[InputSet], seed: int) -> Device:
    """Verify the export on one machine: build, self-test, each op alone, the inputs, and one classification's cost."""
    machine = find(machine_name)
    made: Callable[..., Device] = partial(Device, machine.name, machine.title, has=machine.fits)
    lacking = missing_tools(machine)
    if lacking:
        return made("skipped", "; ".join(f"{tool.program} not found: install {tool.package}" for tool in lacking))
    try:
        with EmulatedBuild(folder, name, machine) as build:
            return _compared(build, machine, inputs, seed, made)
    except DoesNotFitError as error:
        return made("does not fit", str(error), **_numbers(error.need))
    except TimedOutError as error:
        return made("timed out", str(error))
    except ToolError as error:
        return made("not built", str(error))
    except BlrcError as error:
        return made("differs", str(error))


def _numbers(need: Need) -> dict[str, int | None]:
    return {
        "flash": need.flash,
        "ram": need.arena,
        "stack": None if need.least else need.stack,
        "needs_ram": need.ram,
    }


def _compared(
    build: EmulatedBuild, machine: Machine, inputs: Sequence[InputSet], seed: int, made: Callable[..., Device]
) -> Device:
    measured = {**_numbers(build.need), "compiler": build.compiler}
    if not build.runs:
        return _only_selftest(build, machine, partial(made, **measured))
    program: Program = build.program
    engine = c_engine(build, machine.title, machine.limit, build.step_fits)
    tally = Tally()
    if machine.limit is None:  # the maps that reach every edge would take a slow emulator hours
        compare_ops(program, [engine], seed, tally, _quiet)
    compare_ties(program, [engine], tally)
    for each in inputs:
        if tally.difference is None:
            compare_inputs(program, [engine], each, tally, _quiet)
    problems = [] if tally.difference is None else [str(tally.difference)]
    problems += [] if problems else not_compared(program, [engine], tally)
    if not problems and (failed := build.selftest()):
        problems.append(f"{machine.title}: the export's self-test returns {failed}")
    notes = [f"{build.no_room}: no self-test"] if build.no_room else []
    if machine.limit is None and (large := [s.op.name for s in build.layout.steps if not build.step_fits(s.op.name)]):
        notes.append(f"{machine.title}: no room to run alone, on maps that reach its thresholds: {', '.join(large)}")
    sets = {name: counts[engine.name] for name, counts in tally.inputs.items() if engine.name in counts}
    instructions = None
    try:
        instructions = build.instructions(inputs[0].raw)
    except TimedOutError:
        raise
    except BlrcError as error:  # the same program ran well without being counted
        notes.append(f"instructions not counted ({str(error).splitlines()[0]})")
    return made(
        "differs" if problems else "equal",
        "; ".join(problems or notes),
        sum(sets.values()),
        sum(tally.values.get(engine.name, {}).values()),
        instructions=instructions,
        sets=sets,
        **measured,
    )


def _only_selftest(build: EmulatedBuild, machine: Machine, made: Callable[..., Device]) -> Device:
    failed = build.selftest()
    if failed:
        return made("differs", f"{machine.title}: the export's self-test returns {failed}")
    done = "nor its self-test" if failed is None else "only its self-test was run, and found no difference"
    return made("no room to test", f"{build.no_room}; {done}")


def unchecked(devices: Sequence[Device], strict: bool) -> tuple[str, ...]:
    """Return a line for each machine on which a comparison that was required was not made.

    Timeouts and failed builds always count. With `strict`, missing tools and a lack of room for the test count too.
    """
    demanded = ("timed out", "not built", *(("no room to test", "skipped") if strict else ()))
    return tuple(f"{each.name}: {each.status}: {each.detail}" for each in devices if each.status in demanded)


def _quiet(what: str, done: int, total: int) -> None:
    pass


def to_table(devices: Sequence[Device]) -> str:
    """Return a table with a line for each machine, followed by its details if there are any."""
    head = ("", "", "inputs", "flash", "RAM", "stack", "instructions")
    rows = [
        (d.name, d.status, *(_number(n) for n in (d.inputs or None, d.flash, d.ram, d.stack, d.instructions)))
        for d in devices
    ]
    details = ("", *(d.detail for d in devices))
    lines: list[str] = []
    for line, detail in zip(table([head, *rows], left=2), details, strict=True):
        lines += [f"  {line}", *([f"      {detail}"] if detail else [])]
    return "\n".join(lines)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"

"""Measure what a model costs on other machines: instructions, counted exactly in an emulator, layer by layer."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from blrc.benchmark.host import Progress
from blrc.benchmark.rivals.published import Int8, int8_of
from blrc.benchmark.subject import Subject, told_apart
from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.vectors import record
from blrc.targets.c.emit import emit
from blrc.targets.c.layout.layout import CPUS, HOSTS, PORTABLE
from blrc.targets.c.machines.emulated import EmulatedBuild
from blrc.targets.c.machines.table import Machine, find
from blrc.targets.c.size.choose import choose
from blrc.targets.options import EmitOptions
from blrc.targets.requests import Optimize
from blrc.version import VERSION

OPTIMIZE: tuple[Optimize, ...] = ("size", "speed", "ram")


@dataclass(frozen=True)
class StepCost:
    """Hold what one step of the C costs on a machine.

    Attributes:
        what, kernel: names of the layer and its kernel, as in the manifest.
        macs: number of multiply-adds.
        instructions: number of instructions of this step alone.
        int8: instructions of the int8 layer of the same shape with its pooling, or None where they were never counted
            (`blrc.benchmark.rivals.published`).
    """

    what: str
    kernel: str
    macs: int
    instructions: int
    int8: int | None = None


@dataclass(frozen=True)
class Choice:
    """Hold what one choice of export options costs on a machine.

    Attributes:
        options: options of ``blrc export``; empty for the export itself, or for a portable one that optimises size,
            which replaces it where the model is no export or its C is for another host.
        instructions: instructions of one classification by one member, or None where they could not be counted.
        flash, arena: bytes of flash and of the arena.
        ram: bytes of RAM in all: arena, input, scores and stack.
        detail: why there are no instructions.
        steps: costs of the steps. Empty for the export itself, whose steps are in `Device`, and where the steps could
            not be run alone.
    """

    options: str
    instructions: int | None
    flash: int | None
    arena: int
    ram: int | None
    detail: str = ""
    steps: tuple[StepCost, ...] = ()


@dataclass(frozen=True)
class Device:
    """Hold what was measured on one machine.

    Attributes:
        name, title: names of the machine.
        macs: number of multiply-adds of one member.
        compiler: the compiler with its version and flags.
        steps: costs of the export's steps; empty where they could not be run alone.
        choices: costs of the export first, then those of other choices of options.
        int8: figures of the same network in int8, or None where it was never measured.
        detail: what could not be done, and why.
    """

    name: str
    title: str
    macs: int
    compiler: str = ""
    steps: tuple[StepCost, ...] = ()
    choices: tuple[Choice, ...] = ()
    int8: Int8 | None = field(default=None, repr=False)
    detail: str = ""


def measure_devices(
    subject: Subject, names: Sequence[str], others: bool = True, progress: Progress = lambda what, done, total: None
) -> tuple[Device, ...]:
    """Count a model's instructions for its sample on each of these machines.

    Args:
        subject: the model to measure.
        names: names of machines, from `blrc.targets.c.machines.table.ALL`.
        others: also count the instructions of other choices of ``--cpu`` and ``--optimize``.
        progress: called with what is being done, the number of finished machines and the number of all machines.
    """
    found = []
    for done, name in enumerate(names):
        progress(f"machines ({name})", done, len(names))
        with tempfile.TemporaryDirectory(prefix="blrc-bench-") as temporary:
            found.append(_device(subject, find(name), others, Path(temporary)))
    progress("machines", len(names), len(names))
    return tuple(found)


def _device(subject: Subject, machine: Machine, others: bool, work: Path) -> Device:
    program, work_of = subject.program, subject.program.macs
    of_another = subject.layout.cpu in HOSTS and subject.layout.cpu != cpu_of(machine)
    if subject.exported is None or of_another:  # C for another host says nothing about this machine
        folder = _written(subject, PORTABLE, "size", work / "export")
    else:
        folder = _put(subject.exported, work / "export")
    int8 = int8_of(program)
    try:
        with EmulatedBuild(folder, subject.name, machine) as build:
            steps, detail = _steps(subject, build, int8)
            choices = [_choice("", build, subject)]
            compiler = build.compiler
    except BlrcError as error:
        return Device(machine.name, machine.title, work_of, int8=int8, detail=str(error))
    known = [told_apart(build.layout)]
    for cpu, optimize in _options(machine) if others else ():
        layout = choose(program, optimize, cpu=cpu)
        if told_apart(layout) in known:
            continue
        known.append(told_apart(layout))
        options = " ".join([*([] if cpu == PORTABLE else [f"--cpu {cpu}"]), f"--optimize {optimize}"])
        try:
            other_folder = _written(subject, cpu, optimize, work / f"{cpu}-{optimize}")
            with EmulatedBuild(other_folder, subject.name, machine) as other:
                steps_of_other, _ = _steps(subject, other, int8)
                choices.append(replace(_choice(options, other, subject), steps=steps_of_other))
        except BlrcError as error:
            choices.append(Choice(options, None, None, layout.arena_bytes, None, str(error)))
    return Device(machine.name, machine.title, work_of, compiler, steps, tuple(choices), int8, detail)


def cpu_of(machine: Machine) -> str:
    """Return the ``--cpu`` choice whose C runs best on this machine."""
    return machine.name if machine.name in CPUS else PORTABLE


def _options(machine: Machine) -> list[tuple[str, Optimize]]:
    """Return the values of ``--cpu`` and ``--optimize`` of all exports for a machine."""
    cpus = dict.fromkeys((PORTABLE, cpu_of(machine)))
    return [(cpu, optimize) for cpu in cpus for optimize in (OPTIMIZE if cpu not in HOSTS else OPTIMIZE[:1])]


def _steps(subject: Subject, build: EmulatedBuild, int8: Int8 | None) -> tuple[tuple[StepCost, ...], str]:
    try:
        counted = build.step_instructions(subject.sample)
    except BlrcError as error:
        return (), str(error)
    if counted is None:
        return (), f"{build.machine.title}: its emulator cannot count instructions"
    layers = () if int8 is None else int8.layers.get(build.machine.name, ())
    beside = dict(zip((step.op.name for step in build.layout.steps), layers, strict=False))
    return tuple(
        StepCost(step.op.name, step.kernel, step.op.macs, counted[step.op.name], beside.get(step.op.name))
        for step in build.layout.steps
    ), ""


def _choice(options: str, build: EmulatedBuild, subject: Subject) -> Choice:
    instructions, detail = None, ""
    try:
        instructions = build.instructions(subject.sample)
    except BlrcError as error:
        detail = str(error)
    return Choice(options, instructions, build.need.flash, build.need.arena, build.need.ram, detail)


def _written(subject: Subject, cpu: str, optimize: Optimize, folder: Path) -> Path:
    """Write an export of the program with these options, limited to the files that an emulator needs."""
    program, vectors = subject.program, record(subject.program, subject.sample)
    emitted = emit(program, EmitOptions(subject.name, vectors, VERSION, optimize=optimize, cpu=cpu))
    files = {**emitted.files, f"{subject.name}.program.npz": program_file.to_bytes(program)}
    return _put(files, folder)


def _put(files: Mapping[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder

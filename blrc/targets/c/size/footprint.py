"""Compute what an export takes in flash and RAM before anything is compiled.

Tables, arena, input and scores are exact. Code and stack are upper bounds for a 32-bit Cortex-M4 with -Os, or for a
Cortex-M55 if the layout is for that. They come from sizes that were measured once (`Sizes`), and depend on the layout
only, never on the tools of this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from blrc.program.program import Program
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.layout.layout import CPUS, Layout, Step
from blrc.targets.c.layout.macros import runtime_macros

# Frames of the generated functions, and their code.
CLASSIFY_FRAME = 16
PREDICT_FRAMES = 24 + 32  # the frames of predict and add, above observe
PREDICT_OTHER = 24 + 32 + 80  # the frames of predict, of what it calls, and of the head
MEMBER_FRAME = 8  # added to the frame of observe if tables are chosen by member
STRIPS_FRAME = 32  # added to the frame of observe if steps run in strips
STRIP_BYTES = 24  # added for each step in strips: its state, and the address of its map
PART_BYTES = 112  # added for each group of strips: the geometry of the rows at hand
ENSEMBLE_CODE = 332
VALUES_CODE = 320  # the same functions of a network that gives values
GATE_CODE = 64
HEADS_CODE = 52  # what several heads add: NAME_label, and the limits of the scores
HEAD_BYTES = 12  # for each head: where its scores begin, a multiplier and a shift
HEADS_ENSEMBLE_CODE = 172  # the loops over heads
HEADS_GATE_CODE = 40
HEADS_FRAME = 32  # added to the frames of predict and add
SHAPE_BYTES = {"conv": 27 * 4, "pool": 13 * 4, "": 0}
ALIGNMENT = 3  # bytes that may be lost before each table


@dataclass(frozen=True, eq=False)
class Sizes:
    """Hold the bytes of the runtime as a compiler makes it at -Os, from ``sizes.json``.

    ``tools/cortex_m_sizes.py`` writes that file.

    Attributes:
        compiler: which compiler, and for which CPU.
        code: bytes of code and constants of each source, by its name without prefix and ending: the most over all
            settings of the runtime's macros.
        stack: bytes of stack of each function with its callees, without the buffers that macros size (`buffer_bytes`).
    """

    compiler: str
    code: Mapping[str, int]
    stack: Mapping[str, int]


@cache
def measured() -> Mapping[str, Sizes]:
    """Return the measured sizes, by CPU."""
    stored = json.loads(Path(__file__).with_name("sizes.json").read_text(encoding="ascii"))
    return {cpu: Sizes(**sizes) for cpu, sizes in stored.items()}


def sizes_for(layout: Layout) -> Sizes:
    """Return the measured sizes from which a layout's bounds on code and stack come."""
    return measured()[CPUS[layout.cpu].sizes]


@dataclass(frozen=True)
class Part:
    """Hold a number of bytes and what they are for; `layer` is "" for what serves several layers."""

    layer: str
    what: str
    nbytes: int


@dataclass(frozen=True)
class Memory:
    """Describe what one export takes.

    Attributes:
        flash: all that a firmware links to classify with one network, or to predict with an ensemble.
        certainty_flash: bytes on top of that if one network is asked for its certainty (``NAME_predict``).
        slots: maps in the arena, which share their memory over time.
        ram: the arena, the caller's other buffers, and the stack.
        calls: stack of ``classify``, which ensembles do not have, and of ``predict``.
        step_stack: stack of ``predict``, the deeper call, while it runs each step, by the op's name.
    """

    flash: tuple[Part, ...]
    certainty_flash: int
    slots: tuple[Part, ...]
    ram: tuple[Part, ...]
    calls: Mapping[str, int]
    step_stack: Mapping[str, int]

    @property
    def stack(self) -> int:
        """Return the stack of the deeper call, which counts towards budgets."""
        return max(self.calls.values())

    @property
    def flash_bytes(self) -> int:
        return sum(part.nbytes for part in self.flash)

    @property
    def code_bytes(self) -> int:
        return sum(part.nbytes for part in self.flash if part.what == "code")

    @property
    def ram_bytes(self) -> int:
        return sum(part.nbytes for part in self.ram)


def measure(layout: Layout) -> Memory:
    """Return the memory that an export of this layout takes."""
    program, code_of = layout.program, sizes_for(layout).code
    together = len(program.members) > 1
    tables = [
        Part(step.op.name, table.role, table.nbytes + pointers)
        for step in layout.steps
        for table in step.tables
        for pointers in [4 * len(table.of_member) if len(table.arrays) > 1 else 0]
    ]
    certainty = code_of["values" if program.values else "head"] + _ensemble_code(layout)
    code = [
        Part("", "code", _own_code(layout)),
        *(Part("", "code", code_of[name]) for name in sorted(runtime_files(layout))),
        *([Part("", "code", certainty)] if together else []),
    ]
    calls = call_stacks(layout)
    step_stack = {name: _predict_frames(layout) + nbytes for name, nbytes in step_stacks(layout).items()}
    ram = [*given(layout), Part("", "stack", max(calls.values()))]
    slots = [Part(step.op.name, "map", layout.slot_bytes(step.y)) for step in layout.steps]
    gaps = ALIGNMENT * sum(len(table.arrays) for step in layout.steps for table in step.tables)
    return Memory(
        (*tables, Part("", "alignment", gaps), *code),
        0 if together else certainty,
        tuple(slots),
        tuple(part for part in ram if part.nbytes),
        calls,
        step_stack,
    )


def call_stacks(layout: Layout) -> dict[str, int]:
    """Return the stack that ``NAME_predict`` takes, and for a single network also ``NAME_classify``, by call.

    A network of values has ``NAME_values`` in place of it.
    """
    deepest = max(step_stacks(layout).values())
    single = "values" if layout.program.values else "classify"
    classify = {} if len(layout.program.members) > 1 else {single: CLASSIFY_FRAME + deepest}
    frames = _predict_frames(layout)
    return {**classify, "predict": max(frames + deepest, PREDICT_OTHER + frames - PREDICT_FRAMES)}


def _predict_frames(layout: Layout) -> int:
    """Return the bytes of the frames of predict and add, above observe."""
    return PREDICT_FRAMES + (HEADS_FRAME if layout.program.heads and not layout.program.values else 0)


def _ensemble_code(layout: Layout) -> int:
    """Return the bytes of the functions of ``<name>.c`` that combine the answers of members."""
    if layout.program.values:
        return VALUES_CODE
    several, gate = bool(layout.program.heads), layout.program.gate > 0
    heads = several * (HEADS_ENSEMBLE_CODE + gate * HEADS_GATE_CODE)
    return ENSEMBLE_CODE + gate * GATE_CODE + heads


def given(layout: Layout) -> list[Part]:
    """Return the buffers that the caller gives."""
    program, together = layout.program, len(layout.program.members) > 1
    return [
        Part("", "arena", layout.arena_bytes),
        Part("", "input", program.input.nbytes),
        Part("", "scores", 0 if together else program.output.nbytes),
        Part("", "sums of members", _sums(program) if together else 0),
    ]


def _sums(program: Program) -> int:
    """Return the bytes of the sums of members and of what they say."""
    if program.values:
        return 8 + 24 * program.classes  # with mean and variance of each value
    return 8 + 16 * program.classes + 16 * len(program.parts)


def runtime_files(layout: Layout) -> set[str]:
    """Return the runtime's files that a firmware links to classify, without prefix and ending."""
    kernels = {source for step in layout.steps for source in step.record.sources(CPUS[layout.cpu])}
    ends = {"digest"} if layout.program.values else {"argmax", "digest"}
    return kernels | ends | ({"strips"} if layout.rows else set())


def buffer_bytes(function: str, macros: Mapping[str, int]) -> int:
    """Return the bytes of the macro-sized arrays that a function of the runtime has on the stack."""
    return KERNELS[function].buffers(macros) if function in KERNELS else 0


def step_stacks(layout: Layout) -> dict[str, int]:
    """Return the stack that ``NAME_observe`` takes while it runs each step, by the op's name."""
    macros, stack = runtime_macros(layout), sizes_for(layout).stack
    frame, following = _observe_frame(layout), stack["strips_next"] if layout.rows else 0

    def kernel(step: Step) -> int:
        return stack[step.kernel] + step.record.buffers(macros)

    return {step.op.name: frame + max(following, kernel(step)) for step in layout.steps}


def _observe_frame(layout: Layout) -> int:
    """Return the bytes of the frame of ``NAME_observe``.

    The frame holds the addresses of maps, so it grows with the number of steps. If steps run in strips, it holds their
    state as well.
    """
    plain = 48 + 4 * (len(layout.steps) - 2) // 8 * 8 + (MEMBER_FRAME if len(layout.program.members) > 1 else 0)
    plain += max(step.record.frame for step in layout.steps)
    groups = _strip_groups(layout)
    if not groups:
        return plain
    strips = sum(STRIP_BYTES * steps + PART_BYTES for steps in groups)
    return -(-(plain + STRIPS_FRAME + strips) // 8) * 8


def _strip_groups(layout: Layout) -> list[int]:
    """Return the number of steps of each group that runs row by row."""
    return [end - first for first, end in layout.groups if end - first > 1]


def _own_code(layout: Layout) -> int:
    """Return the bytes of the code of ``<name>.c`` and of its constants."""
    shapes = sum(SHAPE_BYTES[step.record.geometry] for step in layout.steps)
    choices = sum(len(table.arrays) > 1 for step in layout.steps for table in step.tables)
    strips = sum(72 + 12 * steps for steps in _strip_groups(layout))
    count = 0 if layout.program.values else len(layout.program.heads)
    heads = HEADS_CODE + HEAD_BYTES * count if count else 0
    return 104 + 56 * len(layout.steps) + 4 * choices + strips + shapes + heads

"""Run many networks of one structure with C that is compiled once: their tables are given while it runs.

Members that are sampled from one checkpoint differ in their tables only. The C here is that of an ensemble of `SLOTS`
members, so every table that differs is found through a pointer. One more file holds these pointers instead of the
tables.
"""

from __future__ import annotations

import queue
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.program import Constant, Encode, Program
from blrc.targets.c.kernels.tiers import host_cpu
from blrc.targets.c.layout.layout import Table, lay_out
from blrc.targets.c.native.calls import ALIGN, address
from blrc.targets.c.native.library import library_files
from blrc.targets.c.native.network import Native
from blrc.targets.c.native.wrapper import entry
from blrc.targets.c.text import stored, text
from blrc.targets.c.text.reflow import reflow
from blrc.targets.c.text.symbols import Symbols, name_all
from blrc.targets.c.text.tables import declarations

NAME = "net"
SLOTS = 4
FILE = "blrc_host_slots.c"


def structure(program: Program) -> Program:
    """Return what networks have in common that one library of `Slots` can run.

    This is the program without weights, with a member for each slot. Look-up tables of the input stay, because their
    largest code decides how wide the thresholds are.
    """
    kept = {op.table for op in program.ops if isinstance(op, Encode)}
    constants = {}
    for name, constant in program.constants.items():
        table = constant.tables[constant.of_member[0]]
        constants[name] = Constant((table if name in kept else np.zeros_like(table),) * SLOTS, tuple(range(SLOTS)))
    members = tuple(f"slot {slot}" for slot in range(SLOTS))
    return replace(program, constants=constants, members=members, score_scale=1.0, gate=0, heads=(), values=())


class Slots:
    """Run every network of one structure; several threads may do so at a time, each in its own slot.

    Args:
        program: any of the networks.
        flags, cc: the compiler and its flags, as for `Native`.

    Raises:
        BlrcError: there is no compiler, or it refuses the code.
    """

    def __init__(self, program: Program, flags: Sequence[str] | None = None, cc: str | None = None) -> None:
        common = structure(program)
        symbols = name_all(lay_out(common, cpu=host_cpu()), NAME, program_file.digest(common))
        files = {
            file: content
            for file, content in library_files(common, NAME).items()
            if not (file.startswith(f"{NAME}_weights") and file.endswith(".c"))
        }
        model, tables = files[f"{NAME}.c"].decode("ascii"), reflow(declarations(symbols))
        assert tables in model
        files[f"{NAME}.c"] = model.replace(tables, _declarations(symbols)).encode("ascii")
        files[FILE] = _source(symbols).encode("ascii")
        self.program = common
        self._like = [(table.arrays[0].shape, table.arrays[0].dtype) for table in _tables(common)]
        self._given = [index for index, table in enumerate(_tables(common)) if _differs(table)]
        self._native = Native(files, NAME, common, 1, flags, cc, slots=True)
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(SLOTS):
            self._free.put(slot)

    def scores(self, program: Program, raw: NDArray[Any], threads: int = 1) -> NDArray[np.int32]:
        """Return the scores of a program's first member, ``(N, classes)``, as `blrc.program.reference.scores` does.

        Raises:
            BlrcError: the program has another structure; or as for `Native.scores`.
        """
        tables = [_aligned(table.arrays[table.of_member[0]]) for table in _tables(program)]
        if [(table.shape, table.dtype) for table in tables] != self._like:
            raise BlrcError(f"{NAME}: the program has other tables than the one that was compiled")
        slot = self._free.get()
        try:
            for index in self._given:
                self._native.calls.entries["set"](index, slot, address(tables[index]))
            return self._native.scores(raw, slot, threads)
        finally:
            self._free.put(slot)

    def close(self) -> None:
        """Release the library."""
        self._native.close()


def _tables(program: Program) -> list[Table]:
    return [table for step in lay_out(program, cpu=host_cpu()).steps for table in step.tables]


def _differs(table: Table) -> bool:
    """Return whether a table is given for each slot; one that depends on the structure alone is compiled in."""
    return len(table.arrays) > 1


def _pointers(symbols: Symbols) -> list[str]:
    """Return for each table that differs the C declarator of its pointers."""
    return [
        f"const {text.c_type(table.arrays[0].dtype)} *{symbols.table(step, table)}[{SLOTS}];\n"
        for step in symbols.layout.steps
        for table in step.tables
        if _differs(table)
    ]


def _fixed(symbols: Symbols) -> list[tuple[str, str]]:
    """Return the declaration and the definition of each table that all slots share."""
    upper = symbols.upper
    return [
        (stored.declare(upper, name, table.arrays[0]) + ";\n", stored.define(upper, name, table.arrays[0]))
        for step in symbols.layout.steps
        for table in step.tables
        if not _differs(table)
        for name in [symbols.table(step, table)]
    ]


def _declarations(symbols: Symbols) -> str:
    """Return the declarations that stand in ``<name>.c`` in place of those of tables."""
    pointers = "".join(f"extern {pointers}" for pointers in _pointers(symbols))
    return pointers + "".join(declaration for declaration, _ in _fixed(symbols))


def _source(symbols: Symbols) -> str:
    """Return the text that stands in place of ``<name>_weights.c``; it also has the function that sets the pointers."""
    named = [(step, table) for step in symbols.layout.steps for table in step.tables]
    cases = "".join(
        f"    case {i}:\n        {symbols.table(step, table)}[slot] = "
        f"(const {text.c_type(table.arrays[0].dtype)} *)data;\n        break;\n"
        for i, (step, table) in enumerate(named)
        if _differs(table)
    )
    shown = '#if defined(__GNUC__)\n__attribute__((visibility("default")))\n#endif\n'
    signature = f"void {entry(NAME, 'set')}(uint32_t table, uint32_t slot, const void *data)"
    return (
        f'#include "{NAME}_blrc.h"\n\n{_declarations(symbols)}\n'
        f"{''.join(_pointers(symbols))}{''.join(fixed for _, fixed in _fixed(symbols))}\n{shown}{signature};\n"
        f"{signature}\n{{\n    switch (table) {{\n{cases}    default:\n        break;\n    }}\n}}\n"
    )


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the array whose address is a multiple of `ALIGN`."""
    memory = np.empty(array.nbytes + ALIGN, np.uint8)
    copy = memory[-address(memory) % ALIGN :][: array.nbytes].view(array.dtype)
    copy[:] = array
    return copy

"""``<name>_weights.h`` and ``<name>_weights*.c``: constant tables."""

from __future__ import annotations

from blrc.targets.c import text
from blrc.targets.c.layout import Step, Table
from blrc.targets.c.symbols import Symbols, head

# Compilers need some 100 bytes of memory for every byte of such a file.
FILE_LIMIT = 8 * 2**20
WARN_FROM = 2**20


def tables_header(symbols: Symbols, version: str) -> str:
    """Declarations of all tables, for ``<name>.c``."""
    lines = [
        declaration + ";\n"
        for step in symbols.layout.steps
        for table in step.tables
        for declaration in _declarations(symbols, step, table)
    ]
    body = f'#include "{symbols.name}.h"\n\n{symbols.refuse()}\n' + text.extern_c("".join(lines))
    what = f"{symbols.name}: declarations of its tables. Private to the library."
    return head(symbols, version, what) + text.guarded(f"{symbols.upper}_WEIGHTS_H", body)


def table_files(symbols: Symbols, version: str, limit: int = FILE_LIMIT) -> dict[str, str]:
    """``<name>_weights.c``, and ``<name>_weights_2.c`` and so on where one file would pass `limit` characters.

    A table is never split, so a single large one may still pass it.
    """
    groups: list[list[str]] = [[]]
    for step in symbols.layout.steps:
        for table in step.tables:
            definition = _definitions(symbols, step, table)
            if groups[-1] and sum(map(len, groups[-1])) + len(definition) > limit:
                groups.append([])
            groups[-1].append(definition)
    files = {}
    for i, group in enumerate(groups):
        size = sum(map(len, group))
        what = f"{symbols.name}: tables"
        what += f", part {i + 1} of {len(groups)}." if len(groups) > 1 else "."
        if size >= WARN_FROM:
            what += (
                f"\n\nLarge: {size / 2**20:.1f} MiB of text. An editor may be slow on it, and a compiler may take "
                "seconds and much memory; it needs to be compiled only once."
            )
        content = head(symbols, version, what) + f'#include "{symbols.name}_weights.h"\n\n{symbols.refuse()}\n'
        files[f"{symbols.name}_weights{'' if i == 0 else f'_{i + 1}'}.c"] = content + "\n".join(group)
    return files


def _declarations(symbols: Symbols, step: Step, table: Table) -> list[str]:
    name, c_type = symbols.table(step, table), text.c_type(table.arrays[0].dtype)
    length = len(table.arrays[0])
    if len(table.arrays) == 1:
        return [f"extern const {c_type} {name}[{length}]"]
    each = [f"extern const {c_type} {name}_{i}[{length}]" for i in range(len(table.arrays))]
    return [*each, f"extern const {c_type} *const {name}[{len(table.of_member)}]"]


def _definitions(symbols: Symbols, step: Step, table: Table) -> str:
    name, c_type = symbols.table(step, table), text.c_type(table.arrays[0].dtype)
    title = text.comment(f"{step.op.name}: {table.role}, {table.nbytes} bytes")
    if len(table.arrays) == 1:
        return title + text.array(f"const {c_type} {name}[{len(table.arrays[0])}]", table.arrays[0])
    each = [text.array(f"const {c_type} {name}_{i}[{len(array)}]", array) for i, array in enumerate(table.arrays)]
    members = [f"{name}_{i}" for i in table.of_member]
    return title + "".join(each) + text.wrap(f"const {c_type} *const {name}[{len(members)}] = {{", members, "};")

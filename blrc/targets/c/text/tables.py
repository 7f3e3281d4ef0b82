"""Write the constant tables, ``<name>_weights*.c``, and their declarations."""

from __future__ import annotations

from collections.abc import Iterable

from blrc.targets.c.layout.layout import Step, Table
from blrc.targets.c.text import stored, text
from blrc.targets.c.text.symbols import Symbols, head

# Compilers need some 100 bytes of memory for every byte of such a file.
FILE_LIMIT = 8 * 2**20
WARN_FROM = 2**20


def declarations(symbols: Symbols) -> str:
    """Return the declarations of all tables, for ``<name>.c``."""
    return _linked(symbols, [(step, table) for step in symbols.layout.steps for table in step.tables])


def table_files(symbols: Symbols, version: str, limit: int = FILE_LIMIT) -> dict[str, str]:
    """Return ``<name>_weights.c``, and ``<name>_weights_2.c`` and so on if one file would pass `limit` characters.

    A table is never split, so a file with a single large one may still pass the limit.
    """
    groups: list[dict[tuple[Step, Table], str]] = [{}]
    for step in symbols.layout.steps:
        for table in step.tables:
            definition = _definitions(symbols, step, table)
            if groups[-1] and sum(map(len, groups[-1].values())) + len(definition) > limit:
                groups.append({})
            groups[-1][step, table] = definition
    files = {}
    for i, group in enumerate(groups):
        size = sum(map(len, group.values()))
        what = f"{symbols.name}: tables"
        what += f", part {i + 1} of {len(groups)}." if len(groups) > 1 else "."
        if size >= WARN_FROM:
            what += (
                f"\n\nLarge: {size / 2**20:.1f} MiB of text. An editor may be slow on it, and a compiler may take "
                "seconds and much memory; it needs to be compiled only once."
            )
        includes = f'#include "{symbols.name}_blrc.h"\n\n{symbols.refuse()}\n'
        body = f"{includes}{_linked(symbols, group)}\n" + "\n".join(group.values())
        files[f"{symbols.name}_weights{'' if i == 0 else f'_{i + 1}'}.c"] = head(
            symbols, version, what
        ) + symbols.source(body)
    return files


def _linked(symbols: Symbols, tables: Iterable[tuple[Step, Table]]) -> str:
    """Return declarations that also a C++ compiler links with those of another file."""
    return text.extern_c("".join(_declarations(symbols, step, table) for step, table in tables))


def _declarations(symbols: Symbols, step: Step, table: Table) -> str:
    name, upper = symbols.table(step, table), symbols.upper
    if len(table.arrays) == 1:
        return stored.declare(upper, name, table.arrays[0]) + ";\n"
    each = [stored.declare(upper, f"{name}_{i}", array) + ";\n" for i, array in enumerate(table.arrays)]
    of_member = stored.declare(upper, f"{name}_of", stored.member_index(table.of_member)) + ";\n"
    pointers = f"extern const {text.c_type(table.arrays[0].dtype)} *const {name}[{len(table.of_member)}];\n"
    return "".join(each) + _if_far(symbols, of_member, pointers)


def _definitions(symbols: Symbols, step: Step, table: Table) -> str:
    name, upper = symbols.table(step, table), symbols.upper
    title = text.comment(f"{step.op.name}: {table.role}, {table.nbytes} bytes")
    if len(table.arrays) == 1:
        return title + stored.define(upper, name, table.arrays[0])
    each = [stored.define(upper, f"{name}_{i}", array) for i, array in enumerate(table.arrays)]
    members, c_type = [f"{name}_{i}" for i in table.of_member], text.c_type(table.arrays[0].dtype)
    of_member = stored.define(upper, f"{name}_of", stored.member_index(table.of_member))
    pointers = text.wrap(f"const {c_type} *const {name}[{len(members)}] = {{", members, "};")
    return title + "".join(each) + _if_far(symbols, of_member, pointers)


def _if_far(symbols: Symbols, far: str, near: str) -> str:
    return f"#if defined({symbols.upper}_BLRC_FAR_TABLES)\n{far}#else\n{near}#endif\n"

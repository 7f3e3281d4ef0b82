"""Write every file of a C export.

The files are byte-identical on every machine for the same program and options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.legal import check
from blrc.program.program import Program
from blrc.targets.c.layout.layout import CPUS, HOSTS, Layout
from blrc.targets.c.layout.macros import DEFAULTS, runtime_macros
from blrc.targets.c.runtime_files import constant, runtime_files
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import choose
from blrc.targets.c.text import selftest, text
from blrc.targets.c.text.ensemble import ensemble_file
from blrc.targets.c.text.header import header
from blrc.targets.c.text.makefile import makefile
from blrc.targets.c.text.source import source
from blrc.targets.c.text.symbols import Symbols, name_all
from blrc.targets.c.text.tables import table_files, tables_header
from blrc.targets.options import EmitOptions, Emitted
from blrc.targets.runtime_licence import LICENCE, RUNTIME_LICENCE


def emit(program: Program, options: EmitOptions) -> Emitted:
    """Return all files of the C export by name, and the kernels and bytes of the layers for the manifest.

    Raises:
        BlrcError: the name cannot be used in C, or no vectors were recorded.
    """
    symbols = _symbols(program, options)
    layout, name, version = symbols.layout, options.name, options.version
    runtime, tables = runtime_sources(layout, name), table_files(symbols, version)
    files = {
        **_model(symbols, options),
        **tables,
        f"{name}_vectors.c": selftest.vectors_file(symbols, version, options.vectors),
        f"{name}_selftest.c": selftest.main_file(symbols, version),
        **runtime,
        RUNTIME_LICENCE: LICENCE,
        "Makefile": makefile(
            name, [f"{name}.c", f"{name}_ensemble.c", *tables, *(f for f in runtime if f.endswith(".c"))]
        ),
    }
    contents = {file: content.encode("ascii") for file, content in files.items()}
    packages = {}
    if options.packages:
        from blrc.targets.c.packages.registry import package_files, place_of  # most exports have none

        contents |= package_files(symbols, options, files)
        packages = {package: place_of(package, name) for package in options.packages}
    about = _about(symbols, selftest.count(options.vectors))
    return Emitted(contents, {**about, "optimize": options.optimize, "packages": packages})


def emit_library(program: Program, options: EmitOptions) -> dict[str, bytes]:
    """Return those files of `emit` that are compiled into a library.

    They leave out the self-test and packages, which hold whole inputs.

    Raises:
        BlrcError: as for `emit`.
    """
    symbols = _symbols(program, options)
    runtime, tables = runtime_sources(symbols.layout, options.name), table_files(symbols, options.version)
    files = {**_model(symbols, options), **tables, **runtime}
    return {file: content.encode("ascii") for file, content in files.items()}


def _symbols(program: Program, options: EmitOptions) -> Symbols:
    check(program)
    if len(options.vectors.inputs) == 0:
        raise BlrcError("target c: no recorded vectors; the self-test needs at least one input")
    layout = choose(program, options.optimize, options.ram, options.cpu, options.flash)
    return name_all(layout, options.name, program_file.digest(program), options.license)


def _model(symbols: Symbols, options: EmitOptions) -> dict[str, str]:
    """Return the model's own headers and sources, without its tables."""
    name, version = options.name, options.version
    return {
        f"{name}.h": header(symbols, version, selftest.count(options.vectors)),
        f"{name}.c": source(symbols, version, {"BLRC_ABI": constant("BLRC_ABI"), **runtime_macros(symbols.layout)}),
        f"{name}_ensemble.c": ensemble_file(symbols, version),
        f"{name}_weights.h": tables_header(symbols, version),
    }


def runtime_sources(layout: Layout, name: str) -> dict[str, str]:
    """Return the runtime's files that this layout needs, by name.

    Names of files and symbols carry the model's prefix, so that two models link into one firmware.

    Raises:
        BlrcError: the runtime does not define a macro, so the installation is damaged.
    """
    sources = {source for step in layout.steps for source in step.record.sources(CPUS[layout.cpu])}
    sources |= {"argmax", "digest", "head"} | ({"strips"} if layout.rows else set())
    texts = {file: _read(path) for file, path in runtime_files().items()}
    for macro, value in runtime_macros(layout).items():
        line, other = f"#define {macro} {DEFAULTS[macro]}", f"#define {macro} {value}"
        texts["blrc.h"], found = re.subn(f"^{line}$", other, texts["blrc.h"], flags=re.MULTILINE)
        if found != 1:
            raise BlrcError(f"the C runtime does not define {macro}: install blrc again")
    used = _with_headers(texts, {f"blrc_{source}.c" for source in sources})
    return {prefixed(file, name): prefixed(of_language(file, content), name) for file, content in used.items()}


def of_language(file: str, content: str) -> str:
    """Return a runtime file such that a source is compiled only by a compiler that can read ``blrc.h``.

    See `text.of_language`.
    """
    if not file.endswith(".c"):
        return content
    start = content.index("#include ")
    body = content[start:].removeprefix('#include "blrc.h"\n').strip("\n")
    return f'{content[:start]}#include "blrc.h"\n\n{text.if_readable("blrc", body)}'


def prefixed(text: str, name: str) -> str:
    """Put the model's name in front of every symbol, macro and file name of the runtime."""
    text = re.sub(r"\bblrc_", f"{name}_blrc_", text)
    text = re.sub(r"\bBLRC_", f"{name.upper()}_BLRC_", text)
    return re.sub(r"\bblrc\.h\b", f"{name}_blrc.h", text)


def _with_headers(texts: Mapping[str, str], sources: set[str]) -> dict[str, str]:
    """Return the sources and the headers that they include, directly or indirectly."""
    reached, frontier = set[str](), sources
    while frontier:
        reached |= frontier
        included = {h for file in frontier for h in re.findall(r'^#include "(.+)"$', texts[file], re.MULTILINE)}
        frontier = included & texts.keys() - reached
    return {file: text for file, text in texts.items() if file in reached}


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii")


def _about(symbols: Symbols, vectors: int) -> dict[str, object]:
    """Return what the manifest says about the C target."""
    layout = symbols.layout
    found = None if layout.cpu in HOSTS else footprint.measure(layout)
    layers = [
        {
            "index": i,
            "op": step.op.name,
            "fused": [] if step.encode is None else [step.encode.name],
            "kernel": step.kernel,
            "why": step.why,
            "input": step.x.name,
            "output": step.y.name,
            "shape": list(step.y.shape),
            "type": step.y.dtype,
            "flash_bytes": step.flash,
            "tables": {table.role: table.nbytes for table in step.tables},
            "ram_bytes": layout.slot_bytes(step.y),
            "scratch_bytes": step.scratch,
            "rows_kept": layout.rows.get(step.y.name),
            "stack_bytes": None if found is None else found.step_stack[step.op.name],
        }
        for i, step in enumerate(layout.steps)
    ]
    return {
        "abi": constant("BLRC_ABI"),
        "members": len(layout.program.members),
        "input_bytes": layout.program.input.nbytes,
        "table_bytes": sum(step.flash for step in layout.steps),
        "arena": {"bytes": layout.arena_bytes, "align": layout.align, "offsets": dict(layout.arena.offsets)},
        "selftest_vectors": vectors,
        "cpu": layout.cpu,
        "memory": None
        if found is None
        else {
            "bound_for": footprint.sizes_for(layout).compiler,
            "flash_bytes": found.flash_bytes,
            "code_bytes": found.code_bytes,
            "certainty_bytes": found.certainty_flash,
            "ram_bytes": found.ram_bytes,
            "ram": {part.what: part.nbytes for part in found.ram},
            "stack_bytes": found.stack,
            "stack": dict(found.calls),
        },
        "layers": layers,
    }

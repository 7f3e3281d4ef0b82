"""Write every file of a C export.

The files are byte-identical on every machine for the same program and options.
"""

from __future__ import annotations

from blrc.errors import BlrcError
from blrc.program import program_file
from blrc.program.legal import check
from blrc.program.program import Program
from blrc.targets.c.layout.layout import HOSTS
from blrc.targets.c.runtime_files import constant
from blrc.targets.c.size import footprint
from blrc.targets.c.size.choose import choose
from blrc.targets.c.text import selftest
from blrc.targets.c.text.header import header
from blrc.targets.c.text.makefile import makefile
from blrc.targets.c.text.reflow import reflow
from blrc.targets.c.text.runtime import number_of, runtime_sources
from blrc.targets.c.text.source import source
from blrc.targets.c.text.symbols import Symbols, name_all
from blrc.targets.c.text.tables import table_files
from blrc.targets.options import EmitOptions, Emitted


def emit(program: Program, options: EmitOptions) -> Emitted:
    """Return all files of the C export by name, and the kernels and bytes of the layers for the manifest.

    Raises:
        BlrcError: the name cannot be used in C, or no vectors were recorded.
    """
    symbols = _symbols(program, options)
    name = options.name
    library = _library(symbols, options)
    files = {
        **library,
        f"{name}_selftest.c": selftest.selftest_file(symbols, options.version, options.vectors),
        "Makefile": makefile(name, [file for file in library if file.endswith(".c")]),
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
    files = _library(symbols, options)
    return {file: content.encode("ascii") for file, content in files.items()}


def _symbols(program: Program, options: EmitOptions) -> Symbols:
    check(program)
    if len(options.vectors.inputs) == 0:
        raise BlrcError("target c: no recorded vectors; the self-test needs at least one input")
    layout = choose(program, options.optimize, options.ram, options.cpu, options.flash)
    return name_all(layout, options.name, program_file.digest(program), options.license)


def _library(symbols: Symbols, options: EmitOptions) -> dict[str, str]:
    """Return the headers and sources without the self-test."""
    name, version = options.name, options.version
    runtime = runtime_sources(symbols.layout, name)
    return {
        f"{name}.h": reflow(header(symbols, version, selftest.count(options.vectors))),
        f"{name}.c": reflow(source(symbols, version, number_of(runtime, name))),
        **table_files(symbols, version),
        **{file: reflow(content) for file, content in runtime.items()},
    }


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

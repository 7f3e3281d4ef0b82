"""Measure code and stack of the runtime on a Cortex-M4 and a Cortex-M55 with -Os.

Write `blrc/targets/c/size/sizes.json` again after a change of the runtime:

    PYTHONPATH=. python tools/cortex_m_sizes.py
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blrc.targets.c.build import compiler
from blrc.targets.c.build.callgraph import FLAG, CallGraph, deepest, read_call_graph
from blrc.targets.c.kernels.families.codes import CODES
from blrc.targets.c.kernels.families.levels import BYTES
from blrc.targets.c.runtime_files import is_for_hosts, runtime_files
from blrc.targets.c.size import footprint
from blrc.workers import thread_pool

COMPILER = ("arm-none-eabi-gcc",)
Flags = tuple[str, ...]
M4, M55 = ("-mcpu=cortex-m4", "-mthumb", "-Os"), ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-Os")
MEASURED = {"cortex-m4": M4, "cortex-m55": M55}
"""Flags for what the rows of `blrc.targets.c.kernels.cpus` call their sizes."""

# Settings of the runtime's macros: every pair of code buffers that layers can ask for, from the smallest on.
VARIANTS = [
    {
        "BLRC_BIT_THRESHOLDS": bits,
        "BLRC_CODE_THRESHOLDS": bits,
        "BLRC_LEVEL_LIMITS": bits,
        "BLRC_GATHER_WORDS": gathered,
        "BLRC_CODES": codes,
        "BLRC_CODE_ROWS": rows,
        "BLRC_BYTES": BYTES // CODES * codes,
    }
    for bits in (16, 32)
    for gathered, codes, rows in (
        *((1, codes, 8) for codes in (4, 8)),
        *((9, codes, 8) for codes in (12, 16, 20)),
        *((36, codes, 8) for codes in (24, 28, 32)),
        (36, 32, 16),
    )
]


WITH_CODES = "blrc_conv_*[bcp][oay][dlit]*s.c"
"""Matches files that need no other: conv_bytes, _codes, _columns, _pairs and _ternary_bytes."""


@dataclass(frozen=True)
class Measured:
    """Bytes of code by object, and who calls whom."""

    code: Mapping[str, int]
    graph: CallGraph


def measure_folder(folder: Path, include: Path, objects: Path, cpu: Flags, files: str = "*.c") -> Measured:
    """Compile every C file of `folder`, or those that match."""
    objects.mkdir()
    made = [
        compiler.compile_object(COMPILER, (*cpu, FLAG), source, objects / f"{source.stem}.o", include)
        for source in sorted(folder.glob(files))
    ]
    sizes = compiler.measure(made, "arm-none-eabi-size")
    assert not any(size.data or size.bss for size in sizes.values())
    return Measured({Path(name).stem: size.text for name, size in sizes.items()}, read_call_graph(objects))


# What a firmware brings itself: start-up, and what a compiler may call in any program.
_FIRMWARE = """
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t n)
{ char *t = to; const char *f = from; while (n-- > 0) *t++ = *f++; return to; }
void *memset(void *to, int value, size_t n) { char *t = to; while (n-- > 0) *t++ = (char)value; return to; }
void *volatile keep[] = {(void *)memcpy, (void *)memset};
void start(void) { CALL; for (;;) { } }
"""


def linked_bytes(folder: Path, objects: Path, calls: str) -> int:
    """Flash that the export in `folder` brings to a firmware which has the C statement `calls` and links only what it
    needs: that of the linked image, libgcc included, minus that of a firmware without the model."""
    objects.mkdir()
    flags = (*M4, "-ffunction-sections", "-fdata-sections")
    library = [
        compiler.compile_object(COMPILER, flags, source, objects / f"{source.stem}.o", folder)
        for source in sorted(folder.glob("*.c"))
    ]

    def image(name: str, call: str, parts: Sequence[Path]) -> int:
        main = objects / f"{name}.c"
        main.write_text(('#include "net.h"\n' if parts else "") + _FIRMWARE.replace("CALL", call), encoding="ascii")
        made = compiler.compile_object(COMPILER, [*flags, "-fno-builtin"], main, objects / f"{name}.o", folder)
        elf = objects / f"{name}.elf"
        link = [*COMPILER, *flags[:2], "-nostdlib", "-Wl,--gc-sections,-e,start,--undefined=keep", str(made)]
        compiler.run_tool([*link, *map(str, parts), "-lgcc", "-o", str(elf)], "linking")
        return next(iter(compiler.measure([elf], "arm-none-eabi-size").values())).text

    return image("with", calls, library) - image("without", "", [])


def measure_runtime(variant: Mapping[str, int], folder: Path, cpu: Flags) -> Measured:
    """The runtime's files under one setting of its macros."""
    sources = folder / "src"
    sources.mkdir(parents=True)
    for path in runtime_files().values():
        if is_for_hosts(path):
            continue
        text = path.read_text(encoding="ascii")
        for macro, value in variant.items():
            text = re.sub(rf"^(#define {macro}) \d+$", rf"\1 {value}", text, flags=re.MULTILINE)
        (sources / path.name).write_text(text, encoding="ascii")
    # Files that have no code buffers are the same in most variants.
    files = "*.c" if variant["BLRC_CODES"] in (4, 12, 28) or variant["BLRC_CODE_ROWS"] == 16 else WITH_CODES
    return measure_folder(sources, sources, folder / "objects", cpu, files)


# Firmware is often compiled as freestanding, where compilers make no calls of memcpy and memset out of loops.
ENVIRONMENTS: tuple[Flags, ...] = ((), ("-ffreestanding",))


def runtime_figures(
    cpu: Flags, variants: Sequence[Mapping[str, int]] = VARIANTS, environments: Sequence[Flags] = ENVIRONMENTS
) -> tuple[dict[str, int], dict[str, int]]:
    """Code of each file, and stack of each function that generated code calls without the buffers that macros size:
    the largest over these variants and environments."""
    code: dict[str, int] = {}
    stack: dict[str, int] = {}

    cases = [(variant, (*cpu, *more)) for more in environments for variant in variants]

    def measured_case(case: tuple[Mapping[str, int], Flags]) -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            return measure_runtime(case[0], Path(folder) / "runtime", case[1])

    with thread_pool() as pool:
        found = list(pool.map(measured_case, cases))
    for (variant, _), measured in zip(cases, found, strict=True):
        for file, nbytes in measured.code.items():
            name = file.removeprefix("blrc_")
            code[name] = max(code.get(name, 0), nbytes)
        for title in measured.graph.frames:
            name = title.removeprefix("blrc_")
            if ":" not in title and not name.startswith("digest_"):
                own = deepest(measured.graph, title) - footprint.buffer_bytes(name, variant)
                stack[name] = max(stack.get(name, 0), own)
    return dict(sorted(code.items())), dict(sorted(stack.items()))


def compiler_version() -> str:
    """Such as ``gcc 12.2.1``."""
    return f"gcc {compiler.run_tool([*COMPILER, '-dumpfullversion'], 'asking the compiler').strip()}"


def measured() -> dict[str, dict[str, object]]:
    """Return what `sizes.json` holds: by CPU the compiler, code and stack."""
    found: dict[str, dict[str, object]] = {}
    for cpu, flags in MEASURED.items():
        code, stack = runtime_figures(flags)
        found[cpu] = {"compiler": f"{compiler_version()}, {' '.join(flags)}", "code": code, "stack": stack}
    return found


if __name__ == "__main__":
    SIZES = Path(footprint.__file__).with_name("sizes.json")
    SIZES.write_text(json.dumps(measured(), indent=1) + "\n", encoding="ascii")

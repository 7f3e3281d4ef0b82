"""Measures code and stack of the runtime and of generated files on a Cortex-M4 with -Os.

Write `blrc/targets/c/cortex_m4.py` again after a change of the runtime or of what the C target generates:

    python tests/targets/cortex_m4_sizes.py
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blrc.runtime_files import runtime_dir
from blrc.targets.c import build
from blrc.targets.c.callgraph import FLAG, CallGraph, deepest, read_call_graph

COMPILER = ("arm-none-eabi-gcc",)
FLAGS = ("-mcpu=cortex-m4", "-mthumb", "-Os", FLAG)
WRITTEN = Path(build.__file__).parent / "cortex_m4.py"

# Settings of the runtime's macros, from the smallest layers to the largest.
VARIANTS = [
    {"BLRC_BIT_THRESHOLDS": bits, "BLRC_CODE_THRESHOLDS": bits, **buffers}
    for bits in (16, 32)
    for buffers in (
        {"BLRC_GATHER_WORDS": 1, "BLRC_CODES": 4, "BLRC_CODE_ROWS": 8},
        {"BLRC_GATHER_WORDS": 9, "BLRC_CODES": 12, "BLRC_CODE_ROWS": 8},
        {"BLRC_GATHER_WORDS": 36, "BLRC_CODES": 28, "BLRC_CODE_ROWS": 8},
        {"BLRC_GATHER_WORDS": 36, "BLRC_CODES": 32, "BLRC_CODE_ROWS": 16},
    )
]


@dataclass(frozen=True)
class Measured:
    """Bytes of code by object, and who calls whom."""

    code: Mapping[str, int]
    graph: CallGraph


def measure_folder(folder: Path, include: Path, objects: Path) -> Measured:
    """Compile every C file of `folder`."""
    objects.mkdir()
    made = [
        build.compile_object(COMPILER, FLAGS, source, objects / f"{source.stem}.o", include)
        for source in sorted(folder.glob("*.c"))
    ]
    sizes = build.measure(made, "arm-none-eabi-size")
    assert not any(size.data or size.bss for size in sizes.values())
    return Measured({Path(name).stem: size.text for name, size in sizes.items()}, read_call_graph(objects))


def measure_runtime(variant: Mapping[str, int], folder: Path) -> Measured:
    """The runtime's files under one setting of its macros."""
    sources = folder / "src"
    sources.mkdir(parents=True)
    for path in [runtime_dir() / "include" / "blrc.h", *(runtime_dir() / "src").iterdir()]:
        text = path.read_text(encoding="ascii")
        for macro, value in variant.items():
            text = re.sub(rf"^(#define {macro}) \d+$", rf"\1 {value}", text, flags=re.MULTILINE)
        (sources / path.name).write_text(text, encoding="ascii")
    return measure_folder(sources, sources, folder / "objects")


def runtime_figures() -> tuple[dict[str, int], dict[str, int]]:
    """Code of each file, and stack of each function that generated code calls without the buffers that macros size:
    the largest over all variants."""
    from blrc.targets.c.memory import buffer_bytes

    code: dict[str, int] = {}
    stack: dict[str, int] = {}
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            measured = measure_runtime(variant, Path(folder) / "runtime")
        for file, nbytes in measured.code.items():
            name = file.removeprefix("blrc_")
            code[name] = max(code.get(name, 0), nbytes)
        for title in measured.graph.frames:
            name = title.removeprefix("blrc_")
            if ":" not in title and not name.startswith("digest_"):
                own = deepest(measured.graph, title) - buffer_bytes(name, variant)
                stack[name] = max(stack.get(name, 0), own)
    return dict(sorted(code.items())), dict(sorted(stack.items()))


def module(code: Mapping[str, int], stack: Mapping[str, int], version: str) -> str:
    """The text of the data module."""

    def entries(figures: Mapping[str, int]) -> str:
        return "".join(f'    "{name}": {nbytes},\n' for name, nbytes in figures.items())

    return (
        '"""Bytes on a Cortex-M4 at -Os: written by `python tests/targets/cortex_m4_sizes.py`, not by hand.\n\n'
        "A test measures again and compares.\n"
        '"""\n\n'
        f'COMPILER = "{version}, -mcpu=cortex-m4 -mthumb -Os"\n\n'
        "# Code and constants of each file of the runtime, the largest over the settings of its macros.\n"
        f"CODE = {{\n{entries(code)}}}\n\n"
        "# Stack of each function with its callees, without the buffers that macros size (`memory.buffer_bytes`).\n"
        f"STACK = {{\n{entries(stack)}}}\n"
    )


def compiler_version() -> str:
    """Such as ``gcc 12.2.1``."""
    return f"gcc {build.run_tool([*COMPILER, '-dumpfullversion'], 'asking the compiler').strip()}"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    WRITTEN.write_text(module(*runtime_figures(), compiler_version()), encoding="ascii")

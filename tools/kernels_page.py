"""Write docs/kernels.md from the records of kernels and CPUs:

PYTHONPATH=. python tools/kernels_page.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from blrc.targets.c.kernels.cpus import CPUS
from blrc.targets.c.kernels.kernel import Kernel
from blrc.targets.c.kernels.registry import KERNELS
from blrc.targets.c.runtime_files import runtime_dir, runtime_files

PAGE = Path(__file__).resolve().parents[1] / "docs" / "kernels.md"

_HEAD = """\
# Kernels

<!-- Written by tools/kernels_page.py; a test compares. Edit blrc/targets/c/kernels/ and run it again. -->

A kernel is a function of the C runtime that computes one op of a network. All kernels are bit-exact: which one is taken
never changes a result. For every op `blrc export` takes the kernel that needs the fewest instructions of those that can
compute the op on the CPU that `--cpu` names ([registry.py](../blrc/targets/c/kernels/registry.py)). Where estimates are
equal, it takes the first one of a section. `blrc inspect` says which kernel each layer has.

Kernels that need scratch memory besides the maps are taken with `--optimize speed` alone, as long as what they need
fits `--ram` and `--flash`; the one that needs the most memory is given up first. Kernels that can run row by row
share the memory of the maps between them ([strips.py](../blrc/targets/c/layout/strips.py)). What the arguments mean
stands in [blrc.h](../runtime/include/blrc.h).
"""

_LEVELS = """\
Lanes are bits of the word in which bit-sliced kernels compute. Gathered words are the most of a window that is copied
to the stack before its bits are counted. A host's export chooses among the levels when it runs. The bounds on code
and stack come from sizes that were measured on a Cortex-M4 and a Cortex-M55
([sizes.json](../blrc/targets/c/size/sizes.json)).
"""


def cpu_table() -> str:
    """Return a table of the CPUs."""
    rows = [
        "| `--cpu` | instructions for a counted multiply-add | bit-sliced lanes | gathered words | levels |",
        "|---|---:|---:|---:|---|",
    ]
    for cpu in CPUS.values():
        lanes, counted = str(cpu.lanes or "-"), "-" if cpu.levels else f"{cpu.counted:g}"
        rows.append(f"| `{cpu.name}` | {counted} | {lanes} | {cpu.gather_words} | {', '.join(cpu.levels) or '-'} |")
    return "\n".join(rows) + "\n"


def section(kernel: Kernel[Any], prototype: str) -> str:
    """Return what the page says of a kernel."""
    source = runtime_files()[f"blrc_{kernel.name}.c"].relative_to(runtime_dir())
    traits = [
        *(["needs scratch memory besides the maps (`--optimize speed`)"] if kernel.takes_ram else []),
        *(["can run row by row"] if kernel.strips else []),
    ]
    rows = {
        "does": kernel.about,
        "computes": kernel.needs,
        "chosen": kernel.chosen,
        "besides": ", ".join(traits),
        "source": f"[{source.name}](../runtime/{source.as_posix()})",
    }
    told = "".join(f"- {title}: {what}\n" for title, what in rows.items() if what)
    return f"### {kernel.name}\n\n{told}\n```c\n{prototype}\n```\n"


def prototypes() -> dict[str, str]:
    """Return the declaration of each kernel in the runtime's header, by name."""
    text = (runtime_dir() / "include" / "blrc.h").read_text(encoding="ascii")
    found = re.finditer(r"^void blrc_(\w+)\([^;]*;", text, re.MULTILINE)
    return {match[1]: match[0] for match in found}


def page() -> str:
    """Return the text of docs/kernels.md."""
    by_cpus: dict[tuple[str, ...], list[Kernel[Any]]] = {}
    for kernel in KERNELS.values():
        by_cpus.setdefault(tuple(cpu for cpu in CPUS if kernel.exists_on(CPUS[cpu])), []).append(kernel)
    parts = [_HEAD, "## CPUs\n", cpu_table(), _LEVELS]
    declared = prototypes()
    for cpus, kernels in sorted(by_cpus.items(), key=lambda item: -len(item[0])):
        parts.append(f"## On {'every CPU' if len(cpus) == len(CPUS) else ', '.join(cpus)}\n")
        parts += [section(kernel, declared[kernel.name]) for kernel in kernels]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The linker script of a bare-metal machine, and what the linker says of programs that are too large."""

from __future__ import annotations

import re

from blrc.targets.c.machines.table import Memory


def linker_script(memory: Memory, stack: int) -> str:
    """Vectors, code, constants and the image of initialised data in flash; data in RAM, with the stack at its top.

    Args:
        stack: bytes that are kept free for it: what does not leave them does not link.
    """
    vectors = "" if memory.vectors is None else f"    VECTORS (rx) : ORIGIN = {memory.vectors:#x}, LENGTH = 1K\n"
    place = "FLASH" if memory.vectors is None else "VECTORS"
    return (
        f"MEMORY\n{{\n{vectors}    FLASH (rx) : ORIGIN = {memory.flash:#x}, LENGTH = {memory.flash_bytes}\n"
        f"    RAM (rwx) : ORIGIN = {memory.ram:#x}, LENGTH = {memory.ram_bytes}\n}}\n"
        + _SECTIONS.replace("PLACE", place).replace("STACK", str(stack))
    )


def overflow(complaint: str) -> tuple[str, int] | None:
    """The region of memory (``FLASH``, ``RAM``) that the linker found too small, and by how many bytes; or None."""
    found = re.search(r"region [`']?(\w+)'? overflowed by (\d+) bytes", complaint)
    return None if found is None else (found[1], int(found[2]))


_SECTIONS = """\
ENTRY(machine_reset)
SECTIONS
{
    .vectors : { KEEP(*(.vectors)) } > PLACE
    .text : { *(.text*) *(.rodata*) . = ALIGN(4); } > FLASH
    .ARM.exidx : { *(.ARM.exidx*) } > FLASH
    machine_data_source = LOADADDR(.data);
    .data : { machine_data = .; *(.data*) . = ALIGN(4); machine_data_end = .; } > RAM AT > FLASH
    .bss (NOLOAD) : { machine_bss = .; *(.bss*) *(COMMON) . = ALIGN(4); machine_bss_end = .; } > RAM
    .stack (NOLOAD) : { . = ALIGN(8); . += STACK; } > RAM
    machine_stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""

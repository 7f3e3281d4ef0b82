"""Write the linker script of a bare-metal machine, and read what the linker says of programs that are too large."""

from __future__ import annotations

import re

from blrc.targets.c.machines.table import Memory


def linker_script(memory: Memory, stack: int) -> str:
    """Return a linker script for a bare-metal machine.

    Vectors, code, constants and the initial values of data lie in flash. Data lie in RAM, with the stack at its end.

    Args:
        memory: the machine's memory.
        stack: bytes that are kept free for the stack; a program that leaves fewer does not link.
    """
    vectors = "" if memory.vectors is None else f"    VECTORS (rx) : ORIGIN = {memory.vectors:#x}, LENGTH = 1K\n"
    place = "FLASH" if memory.vectors is None else "VECTORS"
    return (
        f"MEMORY\n{{\n{vectors}    FLASH (rx) : ORIGIN = {memory.flash:#x}, LENGTH = {memory.flash_bytes}\n"
        f"    RAM (rwx) : ORIGIN = {memory.ram:#x}, LENGTH = {memory.ram_bytes}\n}}\n"
        + _SECTIONS.replace("PLACE", place).replace("STACK", str(stack))
    )


def overflow(complaint: str) -> tuple[str, int] | None:
    """Return the region that the linker found too small (``FLASH``, ``RAM``), and by how many bytes.

    It is None where the linker complains of something else.
    """
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

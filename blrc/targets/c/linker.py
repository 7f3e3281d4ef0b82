"""The linker script of a bare-metal machine."""

from __future__ import annotations

from blrc.targets.c.machines import Memory


def linker_script(memory: Memory) -> str:
    """Vectors, code, constants and the image of initialised data in flash; data in RAM, with the stack at its top."""
    vectors = "" if memory.vectors is None else f"    VECTORS (rx) : ORIGIN = {memory.vectors:#x}, LENGTH = 1K\n"
    place = "FLASH" if memory.vectors is None else "VECTORS"
    return (
        f"MEMORY\n{{\n{vectors}    FLASH (rx) : ORIGIN = {memory.flash:#x}, LENGTH = {memory.flash_bytes}\n"
        f"    RAM (rwx) : ORIGIN = {memory.ram:#x}, LENGTH = {memory.ram_bytes}\n}}\n"
        + _SECTIONS.replace("PLACE", place)
    )


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
    machine_stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""

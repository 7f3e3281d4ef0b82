"""The simulated AVR: bytes in and out, instructions counted exactly, and what it says when firmware goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from blrc.errors import BlrcError
from blrc.targets.c.build import compiler
from blrc.targets.c.machines.simavr import SimAvr, build_runner
from blrc.targets.c.runtime_files import runtime_dir

MACHINES = runtime_dir() / "machines"
ADD_ONE = """
#include "machine.h"

int main(void)
{
    uint8_t bytes[7];
    uint32_t count, i;

    while ((count = io_read(bytes, sizeof bytes)) > 0) {
        for (i = 0; i < count; ++i) {
            bytes[i] = (uint8_t)(bytes[i] + 1);
        }
        io_write(bytes, count);
    }
    io_exit(0);
}
"""
# Two instructions each time around.
LOOP = r"""
#include "machine.h"

int main(void)
{
    uint16_t left = ROUNDS;

    __asm__ volatile("1: sbiw %0, 1\n\tbrne 1b" : "+w"(left));
    io_exit(0);
}
"""


def compiled(folder: Path, text: str, *flags: str) -> Path:
    source = folder / "firmware.c"
    source.write_text(text)
    command = ["avr-gcc", "-mmcu=atmega2560", "-Os", "-std=gnu99", *compiler.STRICT, *flags, f"-I{MACHINES}"]
    compiler.run_tool([*command, str(source), str(MACHINES / "avr.c"), "-o", str(folder / "firmware.elf")], "compiling")
    return folder / "firmware.elf"


@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256)) * 3])
def test_bytes_go_in_and_out(simulated_avr: SimAvr, tmp_path: Path, data: bytes) -> None:
    out, _ = simulated_avr.run(compiled(tmp_path, ADD_ONE), data, tmp_path)
    assert out == bytes((byte + 1) % 256 for byte in data)


def test_instructions_are_counted_exactly(simulated_avr: SimAvr, tmp_path: Path) -> None:
    counts = [
        simulated_avr.run(compiled(tmp_path, LOOP, f"-DROUNDS={rounds}"), b"", tmp_path)[1] for rounds in (1, 2, 60_000)
    ]
    assert counts[1] - counts[0] == 2
    assert counts[2] - counts[0] == 2 * 59_999


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("io_exit(7);", "status 7: no message"),
        ("return 0;", "status 100: .* jumps to itself"),
        ('__asm__ volatile(".word 0xFFFF");', "status 100: .* no such instruction"),
        ('__asm__ volatile("cli\\n\\tsleep");', "status 100: .* sleeps without a status"),
        ("*(volatile uint8_t *)0xFFF0 = 1;", "status 100: .* crashed"),
        ('__asm__ volatile("sei"); for (;;) {}', "did not finish in 1 s"),
    ],
)
def test_firmware_that_goes_wrong(simulated_avr: SimAvr, tmp_path: Path, body: str, complaint: str) -> None:
    firmware = compiled(tmp_path, f'#include "machine.h"\nint main(void)\n{{\n    {body}\n    return 0;\n}}\n')
    with pytest.raises(BlrcError, match=rf"(?s)firmware\.elf on atmega2560: {complaint}"):
        simulated_avr.run(firmware, b"", tmp_path, timeout=1.0)


def test_an_unknown_microcontroller_is_named(simulated_avr: SimAvr, tmp_path: Path) -> None:
    firmware = compiled(tmp_path, ADD_ONE)
    with pytest.raises(BlrcError, match="no such microcontroller"):
        SimAvr(simulated_avr.runner, "atmega9").run(firmware, b"", tmp_path)


def test_firmware_that_is_none_is_named(simulated_avr: SimAvr, tmp_path: Path) -> None:
    (tmp_path / "firmware.elf").write_bytes(b"none")
    with pytest.raises(BlrcError, match=r"firmware\.elf: cannot be read"):
        simulated_avr.run(tmp_path / "firmware.elf", b"", tmp_path)


def test_without_the_library_its_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(BlrcError, match="install libsimavr-dev and libelf-dev"):
        build_runner(tmp_path, [*compiler.find_compiler(), "-nostdlib"])

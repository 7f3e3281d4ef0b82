"""An export, compiled for an AVR and run in simavr, its files unchanged."""

from __future__ import annotations

from pathlib import Path

from blrc import program_file
from blrc.runtime_files import runtime_dir
from blrc.targets.c import build, driver
from blrc.targets.c.compiled import Compiled
from blrc.targets.c.simavr import SimAvr
from blrc.targets.c.symbols import name_all

MACHINES = runtime_dir() / "machines"
FLAGS = ("-mmcu=atmega2560", "-Os", "-std=c99", *build.STRICT)
MODES = ("run", "op", "add", "predict")

# Reads a mode, an argument and a member, then samples; writes what `driver.host_main` writes.
MAIN = """\
#include "driver_core.h"
#include "machine.h"

static uint32_t driver_x[DRIVER_MOST_WORDS], driver_y[DRIVER_MOST_WORDS];

static void driver_observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context, (void)member, (void)op;
    io_write(output, bytes);
}

int main(void)
{
    uint32_t order[3] = {0, 0, 0}, bytes;
    int32_t result;

    io_read(order, sizeof order);
    bytes = order[0] == 1 ? driver_x_bytes[order[1]] : DRIVER_INPUT_BYTES;
    while (io_read(driver_x, bytes) == bytes) {
        if (order[0] == 0) {
            result = driver_run(order[2], driver_x, driver_observe, 0);
            io_write(&result, sizeof result);
        } else if (order[0] == 1) {
            driver_step(order[1], order[2], driver_x, driver_y);
            io_write(driver_y, driver_y_bytes[order[1]]);
        } else {
            result = driver_ask(order[0] == 3, order[1], driver_x);
            if (result < 0) {
                io_exit(1);
            }
            io_write(driver_ensemble.log_p, sizeof driver_ensemble.log_p);
            io_write(driver_ensemble.p, sizeof driver_ensemble.p);
            io_write(driver_ensemble.p_squared, sizeof driver_ensemble.p_squared);
            io_write(&driver_got.label, sizeof driver_got.label);
            io_write(&driver_got.members, sizeof driver_got.members);
            io_write(&driver_got.mean, sizeof driver_got.mean);
            io_write(&driver_got.variance, sizeof driver_got.variance);
            io_write(&result, sizeof result);
        }
    }
    io_exit(0);
}
"""

SELFTEST = """\
#include "NAME.h"
#include "machine.h"

static uint8_t arena[UPPER_ARENA_SIZE];

int main(void)
{
    const int32_t result = NAME_selftest(arena);

    io_write(&result, sizeof result);
    io_exit(0);
}
"""


class AvrBuild(Compiled):
    """Compiled into the export's folder. `instructions` are those of the last run."""

    _order = "<"

    def __init__(self, folder: Path, name: str, machine: SimAvr, flags: tuple[str, ...] = FLAGS) -> None:
        super().__init__(folder, name)
        self.flags = flags
        self.instructions = 0
        self._machine = machine
        symbols = name_all(self.layout, name, program_file.digest(self.program))
        (folder / "driver_core.h").write_text(driver.core(symbols))
        own = [file for file in build.sources(folder, name) if file.name != f"{name}.c"]
        self.firmware = self.link("driver", MAIN, own)

    def link(self, what: str, main: str, sources: list[Path]) -> Path:
        """Firmware of a main function and C files."""
        source, out = self.folder / f"avr_{what}.c", self.folder / f"avr_{what}.elf"
        source.write_text(main)
        files = map(str, [source, *sources, MACHINES / "avr.c"])
        build.run_tool(["avr-gcc", *self.flags, f"-I{MACHINES}", *files, "-o", str(out)], f"compiling {source.name}")
        return out

    def selftest(self) -> int:
        """What the export's self-test gives."""
        main = SELFTEST.replace("NAME", self.name).replace("UPPER", self.name.upper())
        files = [*build.sources(self.folder, self.name), self.folder / f"{self.name}_vectors.c"]
        out, self.instructions = self._machine.run(self.link("selftest", main, files), b"", self.folder)
        return int.from_bytes(out, "little", signed=True)

    def sizes(self) -> build.Sizes:
        """Of the firmware: flash is text and data, RAM data and bss."""
        return build.measure([self.firmware], "avr-size")[self.firmware.name]

    def _execute(self, mode: str, argument: str, member: int, data: bytes) -> bytes:
        order = b"".join(n.to_bytes(4, "little") for n in (MODES.index(mode), int(argument), member))
        out, self.instructions = self._machine.run(self.firmware, order + data, self.folder)
        return out

"""Write the driver's main function for a machine without a command line: a microcontroller, or WebAssembly."""

from __future__ import annotations

from blrc.targets.c.text import text

MODES = ("run", "add", "predict", "repeat", "settle", "op", "repeat_op")
OF_STEPS = MODES[5:]


def whole_main() -> str:
    """Return the main function that runs whole inferences.

    It reads a header of three words (mode, argument, member) and then samples, and writes what the driver of the host
    writes (`blrc.targets.c.build.driver.host_main`). The mode ``repeat N`` classifies the first sample N times and
    writes its last label. Two runs of it differ by the instructions of the additional classifications and by nothing
    else.
    """
    return _WHOLE


def steps_main() -> str:
    """Return the main function that runs steps alone.

    ``DRIVER_ROOM`` bytes hold the input and output of a step; steps that need more cannot be run. In all else it does
    as `whole_main` does. The mode ``repeat_op`` runs a step on the first map again and again. Its argument is the
    step's index plus, for each run but the first, the number of steps.
    """
    return _STEPS


def selftest_main(name: str) -> str:
    """Return the main function that calls the export's self-test once and writes its result as a word."""
    return text.fill(_SELFTEST, {**text.model(name), "name.h": f"{name}.h"})


_WHOLE = """\
#define DRIVER_NO_STEPS

#include "machine.h"

#include "driver_core.h"

static uint32_t device_x[(DRIVER_INPUT_BYTES + 3) / 4];

static void device_observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context;
    (void)member;
    driver_part(io_write, op, output, bytes);
}

static int device_answer(int predict, uint32_t argument)
{
    const int32_t settled = driver_ask(predict, argument, device_x);

    if (settled < 0) {
        return 4;
    }
    driver_tell(io_write, settled);
    return 0;
}

static void device_settle(void)
{
#ifdef DRIVER_SETTLES
    int32_t settled;

    while (io_read(&driver_ensemble.members, 4) == 4 &&
           io_read(driver_ensemble.log_p, sizeof driver_ensemble.log_p) == sizeof driver_ensemble.log_p) {
        settled = driver_settled();
        io_write(&settled, sizeof settled);
    }
#endif
}

int main(void)
{
    uint32_t header[3], i;
    int32_t label;
    int status = 0;

    if (io_read(header, sizeof header) != sizeof header || header[2] >= DRIVER_MEMBERS) {
        io_exit(2);
        return 2;
    }
    if (header[0] == 4) {
        device_settle();
    }
    while (status == 0 && io_read(device_x, DRIVER_INPUT_BYTES) == DRIVER_INPUT_BYTES) {
        switch (header[0]) {
        case 0:
            label = driver_run(header[2], device_x, device_observe, 0);
            driver_part(io_write, DRIVER_OPS, &label, sizeof label);
            break;
        case 1:
        case 2:
            status = device_answer(header[0] == 2, header[1]);
            break;
        case 3:
            label = 0;
            for (i = 0; i < header[1]; ++i) {
                label = driver_run(header[2], device_x, 0, 0);
            }
            io_write(&label, sizeof label);
            break;
        default:
            status = 2;
            break;
        }
    }
    io_exit(status);
    return 0;
}
"""

_STEPS = """\
#define DRIVER_NO_WHOLE

#include "machine.h"

#include "driver_core.h"

static uint32_t device_maps[DRIVER_ROOM / 4 + 1];

int main(void)
{
    uint32_t header[3], op, y, i;

    if (io_read(header, sizeof header) != sizeof header || header[2] >= DRIVER_MEMBERS || header[0] < 5) {
        io_exit(2);
        return 2;
    }
    op = header[1] % DRIVER_OPS;
    y = (driver_x_bytes[op] + 3) / 4;
    if (4 * y + driver_y_bytes[op] > sizeof device_maps || (header[0] == 5 && header[1] != op)) {
        io_exit(2);
        return 2;
    }
    while (io_read(device_maps, driver_x_bytes[op]) == driver_x_bytes[op]) {
        for (i = op; i <= header[1]; i += DRIVER_OPS) {
            driver_step(op, header[2], device_maps, device_maps + y);
        }
        io_write(device_maps + y, driver_y_bytes[op]);
    }
    io_exit(0);
    return 0;
}
"""

_SELFTEST = """\
#include "machine.h"

#include "name.h"

static uint32_t device_arena[(NAME_ARENA_SIZE + 3) / 4];

int main(void)
{
    const int32_t result = name_selftest(device_arena);

    io_write(&result, sizeof result);
    io_exit(0);
    return 0;
}
"""

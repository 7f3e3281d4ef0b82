"""The driver's main function on a machine that has no command line: an emulated microcontroller, or WebAssembly."""

from __future__ import annotations

MODES = ("run", "op", "add", "predict", "repeat", "repeat_op")


def device_main() -> str:
    """Reads a header of three words (mode, argument, member) and then samples; writes as `driver.host_main` does.

    ``repeat N`` classifies the first sample N times and writes its last label: two runs of it differ by the
    instructions of N classifications and by nothing else. ``repeat_op`` runs a step on the first map again and again:
    its argument is the step's index plus, for each run but the first, the number of steps.
    """
    return _MAIN


def selftest_main(name: str) -> str:
    """One call of the export's self-test; writes its result as a word."""
    return _SELFTEST.replace("name_", f"{name}_").replace("NAME_", f"{name.upper()}_").replace("name.h", f"{name}.h")


_MAIN = """\
#include "machine.h"

#include "driver_core.h"

static uint32_t device_x[DRIVER_MOST_WORDS];
static uint32_t device_y[DRIVER_MOST_WORDS];

static void device_observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context;
    (void)member;
    (void)op;
    io_write(output, bytes);
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

int main(void)
{
    uint32_t header[3], bytes, i;
    int32_t label;
    int status = 0;

    if (io_read(header, sizeof header) != sizeof header || header[2] >= DRIVER_MEMBERS ||
        (header[0] == 1 && header[1] >= DRIVER_OPS)) {
        io_exit(2);
        return 2;
    }
    bytes = DRIVER_INPUT_BYTES;
    if (header[0] == 1 || header[0] == 5) {
        bytes = driver_x_bytes[header[1] % DRIVER_OPS];
    }
    while (status == 0 && io_read(device_x, bytes) == bytes) {
        switch (header[0]) {
        case 0:
            label = driver_run_whole(header[2], device_x, device_observe, 0);
            io_write(&label, sizeof label);
            break;
        case 1:
            driver_step(header[1], header[2], device_x, device_y);
            io_write(device_y, driver_y_bytes[header[1]]);
            break;
        case 2:
        case 3:
            status = device_answer(header[0] == 3, header[1]);
            break;
        case 4:
            label = 0;
            for (i = 0; i < header[1]; ++i) {
                label = driver_run(header[2], device_x, 0, 0);
            }
            io_write(&label, sizeof label);
            break;
        case 5:
            for (i = header[1] % DRIVER_OPS; i <= header[1]; i += DRIVER_OPS) {
                driver_step(header[1] % DRIVER_OPS, header[2], device_x, device_y);
            }
            io_write(device_y, driver_y_bytes[header[1] % DRIVER_OPS]);
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

"""C around an export that lets the host run it on many samples, whole or one step alone.

Two texts. The core includes ``<name>.c``, to reach its static steps, and knows no input or output: it can be compiled
for an emulator as well. The host's main function moves samples between files and the core.
"""

from __future__ import annotations

from blrc.targets.c import text
from blrc.targets.c.layout import Layout, Step
from blrc.targets.c.symbols import Symbols, element


def step_cases(symbols: Symbols, scratch: str) -> str:
    """Cases of a switch over a step's index that run it alone, from ``x`` to ``y`` for ``member``.

    Args:
        scratch: an array, for steps that need memory besides.
    """
    layout = symbols.layout

    def whole(step: Step) -> list[str]:
        return [f"&{symbols.shape(step)}"] if layout.in_strips(step) else []

    def between(step: Step) -> list[str]:
        return [scratch] if step.scratch else []

    return "".join(
        f"    case {i}:\n"
        + text.call(
            symbols.step(step),
            ["member", *whole(step), f"(const {element(step.x)} *)x", *between(step), f"({element(step.y)} *)y"],
            "        ",
        )
        + "        break;\n"
        for i, step in enumerate(layout.steps)
    )


def core(symbols: Symbols) -> str:
    """``driver_step``, ``driver_run`` and the sizes of every step's maps."""
    layout, name, upper = symbols.layout, symbols.name, symbols.upper
    x_bytes = ", ".join(str(step.x.nbytes) for step in layout.steps)
    y_bytes = ", ".join(str(step.y.nbytes) for step in layout.steps)
    return (
        f'#include "{name}.c"\n\n'
        f"#define DRIVER_OPS {len(layout.steps)}\n"
        f"#define DRIVER_MEMBERS {len(layout.program.members)}\n"
        f"#define DRIVER_INPUT_BYTES {layout.program.input.nbytes}\n"
        f"#define DRIVER_MOST_WORDS {most_words(layout)}\n\n"
        f"static const uint32_t driver_x_bytes[DRIVER_OPS] = {{{x_bytes}}};\n"
        f"static const uint32_t driver_y_bytes[DRIVER_OPS] = {{{y_bytes}}};\n"
        f"static uint32_t driver_arena[({upper}_ARENA_SIZE + 3) / 4];\n"
        f"static int32_t driver_scores[{upper}_CLASSES];\n\n"
        + text.comment("One step alone.")
        + "static void driver_step(uint32_t op, uint32_t member, const void *x, void *y)\n{\n    switch (op) {\n"
        + step_cases(symbols, "driver_arena")
        + "    default:\n        break;\n    }\n}\n\n"
        + text.comment("All steps; the observer sees each output.")
        + f"static int driver_run(uint32_t member, const void *x, {name}_observer observer, void *context)\n{{\n"
        f"    const {element(layout.program.input)} *const input = (const {element(layout.program.input)} *)x;\n\n"
        f"    return {name}_observe(member, input, driver_arena, driver_scores, observer, context);\n}}\n\n"
        + _collect(symbols)
        + _ANSWER.replace("INPUT_TYPE", element(layout.program.input))
        .replace("GATED", "name_gated(&driver_ensemble)" if layout.program.gate else "0")
        .replace("name_", f"{name}_")
    )


def _collect(symbols: Symbols) -> str:
    """``driver_run_whole``: the observer sees every step's whole output, in order, also where steps run row by row."""
    layout = symbols.layout
    if not layout.rows:
        return "#define driver_run_whole driver_run\n\n"
    starts = [sum(-(-step.y.nbytes // 4) for step in layout.steps[:i]) for i in range(len(layout.steps) + 1)]
    return (
        _COLLECT.replace("WORDS", str(starts[-1]))
        .replace("STARTS", ", ".join(map(str, starts[:-1])))
        .replace("name_", f"{symbols.name}_")
    )


_COLLECT = """\
static uint32_t driver_maps[WORDS];
static uint32_t driver_filled[DRIVER_OPS];
static const uint32_t driver_starts[DRIVER_OPS] = {STARTS};

static void driver_keep(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    unsigned char *const to = (unsigned char *)(driver_maps + driver_starts[op]) + driver_filled[op];
    uint32_t i;

    (void)context;
    (void)member;
    for (i = 0; i < bytes && driver_filled[op] + bytes <= driver_y_bytes[op]; ++i) {
        to[i] = ((const unsigned char *)output)[i];
    }
    driver_filled[op] += bytes;
}

/* All steps; the observer then sees each output as a whole. A step that gave too much or too little is seen to. */
static int driver_run_whole(uint32_t member, const void *x, name_observer observer, void *context)
{
    int32_t op;
    int label;

    for (op = 0; op < DRIVER_OPS; ++op) {
        driver_filled[op] = 0;
    }
    label = driver_run(member, x, driver_keep, 0);
    for (op = 0; op < DRIVER_OPS; ++op) {
        observer(context, member, op, driver_maps + driver_starts[op],
                 driver_filled[op] == driver_y_bytes[op] ? driver_filled[op] : 0);
    }
    return label;
}

"""


def most_words(layout: Layout) -> int:
    """Words that hold the largest map that a step reads or writes."""
    most = max(max(step.x.nbytes, step.y.nbytes) for step in layout.steps)
    return (max(most, layout.program.input.nbytes) + 3) // 4


_ANSWER = """\
static name_ensemble driver_ensemble;
static name_answer driver_got;

/* So many members (0: all, or the first alone where it is gated), or as many as the model wants for this confidence.
 * 1: the answer is settled; 0; or an error. */
static int driver_ask(int predict, uint32_t argument, const void *x)
{
    const INPUT_TYPE *const input = (const INPUT_TYPE *)x;
    uint32_t k;
    int status;

    if (predict) {
        status = name_predict(input, driver_arena, &driver_ensemble, argument, &driver_got);
    } else {
        status = name_start(&driver_ensemble);
        for (k = 0; k < (argument == 0 ? DRIVER_MEMBERS : argument) && status == 0; ++k) {
            status = name_add(&driver_ensemble, input, driver_arena);
            if (argument == 0 && GATED) {
                break;
            }
        }
        if (status == 0) {
            status = name_ask(&driver_ensemble, &driver_got);
        }
    }
    return status < 0 ? status : name_settled(&driver_ensemble);
}

/* What driver_ask found: the sums, the answer, and whether it is settled (answers.record). */
static void driver_tell(void (*write)(const void *data, uint32_t bytes), int32_t settled)
{
    write(driver_ensemble.log_p, sizeof driver_ensemble.log_p);
    write(driver_ensemble.p, sizeof driver_ensemble.p);
    write(driver_ensemble.p_squared, sizeof driver_ensemble.p_squared);
    write(&driver_got.label, sizeof driver_got.label);
    write(&driver_got.members, sizeof driver_got.members);
    write(&driver_got.mean, sizeof driver_got.mean);
    write(&driver_got.variance, sizeof driver_got.variance);
    write(&settled, sizeof settled);
}
"""


def host_main() -> str:
    """The main function on the host: ``driver order OUT``, ``run 0 MEMBER IN OUT``, ``op INDEX MEMBER IN OUT``.

    It reads samples from IN to its end, as they lie in memory. ``run`` writes for each what every step gives, then the
    label as int32; ``op`` writes what the step gives; ``time REPEATS MEMBER IN OUT`` runs the first sample again and
    again and writes nanoseconds for each step (uint64 sums over the repeats), then for the whole. ``add MEMBERS 0 IN
    OUT`` adds so many members (0: as many as the gate asks for) and asks; ``predict CONFIDENCE 0 IN OUT`` lets the
    model stop early. Both write for each sample the sums, then the answer, then whether it is settled
    (`answers.record`).
    """
    return _MAIN


_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver_core.h"

static uint32_t driver_x[DRIVER_MOST_WORDS];
static uint32_t driver_y[DRIVER_MOST_WORDS];
static FILE *driver_out;
static uint64_t driver_spent[DRIVER_OPS + 1];
static uint64_t driver_last;

static void driver_write(const void *data, uint32_t bytes)
{
    if (fwrite(data, 1, bytes, driver_out) != bytes) {
        fprintf(stderr, "driver: cannot write\\n");
        exit(2);
    }
}

static void driver_observe(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    (void)context;
    (void)member;
    (void)op;
    driver_write(output, bytes);
}

static uint64_t driver_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void driver_clock(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    const uint64_t now = driver_now();

    (void)context;
    (void)member;
    (void)output;
    (void)bytes;
    driver_spent[op] += now - driver_last;
    driver_last = driver_now();
}

static void driver_time(uint32_t repeats, uint32_t member)
{
    uint64_t start;
    uint32_t i;

    for (i = 0; i < repeats; ++i) {
        driver_last = driver_now();
        driver_run(member, driver_x, driver_clock, 0);
    }
    start = driver_now();
    for (i = 0; i < repeats; ++i) {
        driver_run(member, driver_x, 0, 0);
    }
    driver_spent[DRIVER_OPS] = driver_now() - start;
    driver_write(driver_spent, sizeof driver_spent);
}

static void driver_answer(int predict, uint32_t argument)
{
    const int32_t settled = driver_ask(predict, argument, driver_x);

    if (settled < 0) {
        fprintf(stderr, "driver: error %ld of the ensemble\\n", (long)settled);
        exit(3);
    }
    driver_tell(driver_write, settled);
}

int main(int argc, char **argv)
{
    const char *const mode = argc > 1 ? argv[1] : "";
    uint32_t op, member, bytes;
    FILE *in;

    driver_out = fopen(argv[argc - 1], "wb");
    if (driver_out == 0) {
        return 2;
    }
    if (strcmp(mode, "order") == 0) {
        op = 1;
        driver_write(&op, sizeof op);
        return fclose(driver_out) == 0 ? 0 : 2;
    }
    if (argc != 6) {
        return 2;
    }
    op = (uint32_t)atoi(argv[2]);
    member = (uint32_t)atoi(argv[3]);
    in = fopen(argv[4], "rb");
    if (in == 0 || member >= DRIVER_MEMBERS || (strcmp(mode, "op") == 0 && op >= DRIVER_OPS)) {
        return 2;
    }
    bytes = strcmp(mode, "op") == 0 ? driver_x_bytes[op] : DRIVER_INPUT_BYTES;
    while (fread(driver_x, 1, bytes, in) == bytes) {
        if (strcmp(mode, "run") == 0) {
            const int32_t label = driver_run_whole(member, driver_x, driver_observe, 0);

            driver_write(&label, sizeof label);
        } else if (strcmp(mode, "op") == 0) {
            driver_step(op, member, driver_x, driver_y);
            driver_write(driver_y, driver_y_bytes[op]);
        } else if (strcmp(mode, "add") == 0 || strcmp(mode, "predict") == 0) {
            driver_answer(strcmp(mode, "predict") == 0, op);
        } else {
            driver_time(op, member);
            break;
        }
    }
    fclose(in);
    return fclose(driver_out) == 0 ? 0 : 2;
}
"""

"""Write C around an export that lets the host run it on many samples, whole or one step alone.

There are two texts. The core includes ``<name>.c``, to reach its static steps, and does no input or output, so it can
be compiled for an emulator as well. The host's main function moves samples between files and the core.
"""

from __future__ import annotations

from collections.abc import Iterable

from blrc.program.program import Value
from blrc.targets.c.build.asking import LABELS, VALUES
from blrc.targets.c.layout.layout import Layout, Step
from blrc.targets.c.text import text
from blrc.targets.c.text.symbols import Symbols, element


def step_cases(symbols: Symbols, scratch: str) -> str:
    """Return the cases of a switch over a step's index that run it alone, from ``x`` to ``y`` for ``member``.

    Args:
        scratch: name of an array for steps that need scratch memory.
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
    """Return the core: ``driver_step``, ``driver_run``, ``driver_ask`` and the sizes of every step's maps.

    With the macro ``DRIVER_NO_STEPS`` it leaves out single steps, with ``DRIVER_NO_WHOLE`` whole inferences, and in
    each case the memory for them. On a small device the model may not fit together with both.
    """
    layout, name = symbols.layout, symbols.name
    program = layout.program
    scratch = max(step.scratch for step in layout.steps)
    whole = text.fill(
        _WHOLE + (VALUES if program.values else LABELS),
        {
            **text.model(name),
            "NAME_CLASSES": symbols.outputs,
            "INPUT_TYPE": element(program.input),
            "GATED": f"{name}_gated(&driver_ensemble)" if program.gate else "0",
        },
    )
    return (
        f'#include "{name}.c"\n\n'
        f"#define DRIVER_OPS {len(layout.steps)}\n"
        f"#define DRIVER_MEMBERS {len(program.members)}\n"
        f"#define DRIVER_CLASSES {program.classes}\n"
        f"#define DRIVER_HEADS {len(program.parts)}\n"
        f"#define DRIVER_INPUT_BYTES {program.input.nbytes}\n"
        f"#define DRIVER_MOST_WORDS {most_words(layout)}\n\n"
        f"#ifndef DRIVER_NO_WHOLE\n{whole}#endif\n\n"
        "#ifndef DRIVER_NO_STEPS\n"
        + (f"static uint32_t driver_scratch[{-(-scratch // 4)}];\n" if scratch else "")
        + f"static const uint32_t driver_x_bytes[DRIVER_OPS] = {{{_sizes(step.x for step in layout.steps)}}};\n"
        f"static const uint32_t driver_y_bytes[DRIVER_OPS] = {{{_sizes(step.y for step in layout.steps)}}};\n\n"
        + text.comment("One step alone.")
        + "static void driver_step(uint32_t op, uint32_t member, const void *x, void *y)\n{\n    switch (op) {\n"
        + step_cases(symbols, "driver_scratch")
        + "    default:\n        break;\n    }\n}\n#endif\n"
    )


def _sizes(values: Iterable[Value]) -> str:
    return ", ".join(str(value.nbytes) for value in values)


def most_words(layout: Layout) -> int:
    """Return how many words hold any sample that the driver reads, and any map that a step reads or writes."""
    most = max(max(step.x.nbytes, step.y.nbytes) for step in layout.steps)
    return (max(most, layout.program.input.nbytes, 4 + 4 * layout.program.classes) + 3) // 4


_WHOLE = """\
static uint32_t driver_arena[(NAME_ARENA_SIZE + 3) / 4];
static int32_t driver_scores[NAME_CLASSES];
static name_ensemble driver_ensemble;

/* All steps; the observer sees each output, where steps run row by row in parts. */
static int driver_run(uint32_t member, const void *x, name_observer observer, void *context)
{
    return name_observe(member, (const INPUT_TYPE *)x, driver_arena, driver_scores, observer, context);
}

/* A part of what a step gave, or after all steps (op is then DRIVER_OPS) the label; the host puts parts together. */
static void driver_part(void (*write)(const void *data, uint32_t bytes), int32_t op, const void *data, uint32_t bytes)
{
    uint32_t about[2];

    about[0] = (uint32_t)op;
    about[1] = bytes;
    write(about, sizeof about);
    write(data, bytes);
}

"""


def host_main() -> str:
    """Return the host's main function, which runs the core on samples from a file.

    It reads samples from IN to its end, in their memory layout, and writes to OUT:

    - ``order OUT`` writes the word 1, which shows the byte order.
    - ``run 0 MEMBER IN OUT`` writes for each sample what every step gives. Each part follows its step's index and its
      number of bytes; a step that runs row by row gives several parts. The last part is the label as int32
      (`observed.together`).
    - ``op INDEX MEMBER IN OUT`` runs one step alone and writes what it gives.
    - ``time REPEATS MEMBER IN OUT`` runs the first sample again and again. It writes nanoseconds for each step, then
      for the whole, each a uint64 sum over the repeats.
    - ``add MEMBERS 0 IN OUT`` adds so many members and asks for the answer; 0 stands for as many as the gate asks for.
    - ``predict CONFIDENCE 0 IN OUT`` lets the model stop early. Like ``add``, it writes for each sample the sums, then
      the answer, then whether it is settled (`answers.record`).
    - ``settle 0 0 IN OUT`` reads numbers of members and sums of log p, and writes whether these have settled the label.
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
    driver_part(driver_write, op, output, bytes);
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
    int32_t word;
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
    bytes = DRIVER_INPUT_BYTES;
    if (strcmp(mode, "op") == 0) {
        bytes = driver_x_bytes[op];
    } else if (strcmp(mode, "settle") == 0) {
        bytes = 4 + 4 * DRIVER_CLASSES;
    }
    while (fread(driver_x, 1, bytes, in) == bytes) {
        if (strcmp(mode, "run") == 0) {
            word = driver_run(member, driver_x, driver_observe, 0);
            driver_part(driver_write, DRIVER_OPS, &word, sizeof word);
        } else if (strcmp(mode, "settle") == 0) {
            driver_ensemble.members = driver_x[0];
#ifdef DRIVER_SETTLES
            memcpy(driver_ensemble.log_p, driver_x + 1, sizeof driver_ensemble.log_p);
            word = driver_settled();
            driver_write(&word, sizeof word);
#endif
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

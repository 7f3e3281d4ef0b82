"""Write the C file that lets a process of the host run an export on many samples in memory.

It is compiled into a shared library beside the export's own files (`blrc.targets.c.native.library`) and is never part
of an export. It has no mutable globals: each caller gives its own working memory, so that threads can share the
library.
"""

from __future__ import annotations

import re

from blrc.targets.c.build.driver import most_words, step_cases
from blrc.targets.c.native.answering import LABELS, VALUES
from blrc.targets.c.native.maps import MAPS, map_of
from blrc.targets.c.text.symbols import Symbols, element

FILE = "blrc_host_wrapper.c"


def entry(name: str, function: str) -> str:
    """Return the symbol of an entry point of the library of model `name`."""
    return f"{name}_blrc_host_{function}"


def host_wrapper(symbols: Symbols) -> str:
    """Return the wrapper's text.

    For its callers a bit is one byte (0 is -1, all else +1); everything else is as in the network. The arrays ``x`` and
    the results hold `count` samples one after the other. ``work`` points to `work_bytes` bytes at a multiple of 64. The
    entry points return 0 or a negative error:

    - ``scores(x, count, member, work, scores, labels)`` computes scores and labels; ``scores`` may be null.
    - ``answers(x, count, predict, argument, work, log_p, p, p_squared, label, members, mean, variance, settled)`` does
      what the driver's ``add`` and ``predict`` do. Where ``log_p`` is null, it writes only ``label``. A sample
      has as many labels, means and variances as there are heads; one of values has none of labels and ``p``, and
      means and variances of each value. Its sums stand in ``log_p``, those of squares in ``p_squared``.
    - ``run(x, count, member, work, outputs, labels)`` writes every step's output; ``outputs`` has one pointer for each.
    - ``op(index, repeats, x, count, member, work, y)`` runs one step alone, `repeats` times on each sample.
    """
    layout = symbols.layout
    steps, value = layout.steps, layout.program.input
    scratch = max(step.scratch for step in steps)
    words = {
        "STEP_CASES": step_cases(symbols, "scratch"),
        "STEP_SCRATCH": f"    uint32_t scratch[{scratch // 4}];\n\n" if scratch else "",
        "X_MAPS": ",\n    ".join(map_of(step.x) for step in steps),
        "Y_MAPS": ",\n    ".join(map_of(step.y) for step in steps),
        "INPUT_MAP": map_of(value),
        "INPUT_TYPE": element(value),
        "STEPS": str(len(steps)),
        "MOST_WORDS": str(most_words(layout)),
        "HOST_HEADS": str(len(layout.program.parts)),
        "GATED": f"{symbols.name}_gated(&work->ensemble)" if layout.program.gate else "0",
        "REFUSE": symbols.refuse(),
        "NAME_CLASSES": symbols.outputs,
        "host_": entry(symbols.name, ""),
        "NAME_": f"{symbols.upper}_",
        "name_": f"{symbols.name}_",
    }
    # In one pass: what is put in may hold the words, a model may be called steps.
    answers = VALUES if layout.program.values else LABELS
    template = _TEXT.replace("ANSWERS\n", answers).replace("MAPS\n", MAPS)
    text = re.sub(rf"\b({'|'.join(words)})", lambda found: words[found[1]], template)
    return f'#include "{symbols.name}.c"\n' + text


_TEXT = """\
#include <string.h>

REFUSE
#if defined(__GNUC__)
#define NAME_SHOWN __attribute__((visibility("default")))
#else
#define NAME_SHOWN
#endif

MAPS
#define NAME_TOO_MUCH (-100) /* a step told of more or fewer bytes than its map has */

typedef struct host_work {
    uint32_t arena[(NAME_ARENA_SIZE + 3) / 4];
    uint32_t x[MOST_WORDS];
    uint32_t y[MOST_WORDS];
    int32_t scores[NAME_CLASSES];
    name_ensemble ensemble;
} host_work;

typedef struct host_watch {
    unsigned char *to[STEPS];
    uint32_t left[STEPS];
    int status;
} host_watch;

static const host_map host_input_map = INPUT_MAP;
static const host_map host_x_maps[STEPS] = {
    X_MAPS};
static const host_map host_y_maps[STEPS] = {
    Y_MAPS};

static void host_step(uint32_t op, uint32_t member, const void *x, void *y)
{
STEP_SCRATCH    switch (op) {
STEP_CASES    default:
        break;
    }
}

NAME_SHOWN uint64_t host_work_bytes(void);
NAME_SHOWN uint64_t host_work_bytes(void)
{
    return sizeof(host_work);
}

NAME_SHOWN int host_scores(const unsigned char *x, uint64_t count, uint32_t member, host_work *work, int32_t *scores,
                           int64_t *labels);
NAME_SHOWN int host_scores(const unsigned char *x, uint64_t count, uint32_t member, host_work *work, int32_t *scores,
                           int64_t *labels)
{
    uint64_t i;

    for (i = 0; i < count; ++i) {
        const INPUT_TYPE *const input = (const INPUT_TYPE *)host_pack(&host_input_map, x, work->x);
        const int label = name_observe(member, input, work->arena, scores == 0 ? work->scores : scores, 0, 0);

        if (label < 0) {
            return label;
        }
        labels[i] = label;
        x += host_input_map.outside;
        scores = scores == 0 ? 0 : scores + NAME_CLASSES;
    }
    return 0;
}

ANSWERS
static void host_keep(void *context, uint32_t member, int32_t op, const void *output, uint32_t bytes)
{
    host_watch *const watch = (host_watch *)context;
    int64_t written;

    (void)member;
    if (bytes > watch->left[op]) {
        watch->status = NAME_TOO_MUCH;
        return;
    }
    watch->left[op] -= bytes;
    written = host_unpack(&host_y_maps[op], output, bytes, watch->to[op]);
    if (written < 0) {
        watch->status = (int)written;
        return;
    }
    watch->to[op] += written;
}

NAME_SHOWN int host_run(const unsigned char *x, uint64_t count, uint32_t member, host_work *work,
                        unsigned char *const *outputs, int32_t *labels);
NAME_SHOWN int host_run(const unsigned char *x, uint64_t count, uint32_t member, host_work *work,
                        unsigned char *const *outputs, int32_t *labels)
{
    host_watch watch;
    uint64_t i;
    uint32_t op;

    watch.status = 0;
    for (op = 0; op < STEPS; ++op) {
        watch.to[op] = outputs[op];
        watch.left[op] = 0;
    }
    for (i = 0; i < count; ++i) {
        const INPUT_TYPE *const input = (const INPUT_TYPE *)host_pack(&host_input_map, x, work->x);

        for (op = 0; op < STEPS; ++op) {
            watch.left[op] = host_y_maps[op].inside;
        }
        labels[i] = name_observe(member, input, work->arena, work->scores, host_keep, &watch);
        if (labels[i] < 0) {
            return labels[i];
        }
        for (op = 0; op < STEPS && watch.status == 0; ++op) {
            watch.status = watch.left[op] == 0 ? 0 : NAME_TOO_MUCH;
        }
        if (watch.status != 0) {
            return watch.status;
        }
        x += host_input_map.outside;
    }
    return 0;
}

NAME_SHOWN int host_op(uint32_t op, uint64_t repeats, const unsigned char *x, uint64_t count, uint32_t member,
                       host_work *work, unsigned char *y);
NAME_SHOWN int host_op(uint32_t op, uint64_t repeats, const unsigned char *x, uint64_t count, uint32_t member,
                       host_work *work, unsigned char *y)
{
    uint64_t i, k;

    for (i = 0; i < count; ++i) {
        const void *const input = host_pack(&host_x_maps[op], x, work->x);
        int64_t written;

        for (k = 0; k < repeats; ++k) {
            host_step(op, member, input, work->y);
        }
        written = host_unpack(&host_y_maps[op], work->y, host_y_maps[op].inside, y);
        if (written < 0) {
            return (int)written;
        }
        x += host_x_maps[op].outside;
        y += written;
    }
    return 0;
}
"""

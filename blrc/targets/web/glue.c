/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Beside the generated C in a WebAssembly module: memory for one input and its answer, and the C API over it.
 *
 * NAME_ and name_ stand for the model's prefix. What the page has to read it finds through the pointers. */
#include "name_.h"

#include <stddef.h>

#define EXPORT(function) __attribute__((export_name(#function)))

static uint32_t arena[(NAME_ARENA_SIZE + 3) / 4];
static uint8_t input[NAME_INPUT_SIZE];
static name_ensemble ensemble;
static name_answer answer;

#if NAME_ARENA_ALIGN > 4
#error "the arena wants more than the alignment of a uint32_t"
#endif

EXPORT(input) uint8_t *name_web_input(void)
{
    return input;
}

/* Sums over the members so far, for each class: int32 and uint32. */
EXPORT(log_p) const int32_t *name_web_log_p(void)
{
    return ensemble.log_p;
}

EXPORT(p) const uint32_t *name_web_p(void)
{
    return ensemble.p;
}

EXPORT(start) int name_web_start(void)
{
    return name_init(&ensemble);
}

EXPORT(add) int name_web_add(void)
{
    return name_add(&ensemble, input, arena);
}

/* The label, or a negative error; mean and variance are those of the last answer. */
EXPORT(ask) int name_web_ask(void)
{
    return name_result(&ensemble, &answer);
}

EXPORT(mean) uint32_t name_web_mean(void)
{
    return answer.mean;
}

EXPORT(variance) uint32_t name_web_variance(void)
{
    return answer.variance;
}

EXPORT(settled) int name_web_settled(void)
{
    return name_is_final(&ensemble);
}

EXPORT(gated) int name_web_gated(void)
{
#ifdef NAME_GATE
    return name_gated(&ensemble);
#else
    return 0;
#endif
}

/* All that generated code may need of a libc. The compiler must not make calls of themselves of these loops. */
void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memset(void *to, int value, size_t count);

void *memcpy(void *restrict to, const void *restrict from, size_t count)
{
    uint8_t *t = to;
    const uint8_t *f = from;

    while (count-- != 0) {
        *t++ = *f++;
    }
    return to;
}

void *memset(void *to, int value, size_t count)
{
    uint8_t *t = to;

    while (count-- != 0) {
        *t++ = (uint8_t)value;
    }
    return to;
}

/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Where a window lies: which of its taps are inside the map. */
#ifndef BLRC_WINDOW_H
#define BLRC_WINDOW_H

#include "blrc.h"

/* Taps first <= t < end; empty where first == end. */
typedef struct blrc_span {
    int32_t first, end;
} blrc_span;

/* The taps t of 0 <= t < count with 0 <= origin + t * step < size.
 *
 *   origin + t * step >= 0    <=>  t >= ceil(-origin / step)
 *   origin + t * step < size  <=>  t < ceil((size - origin) / step)
 *
 * Undilated windows are the rule and small CPUs have no divider, hence the two cases. */
static BLRC_INLINE blrc_span blrc_inside_here(int32_t origin, int32_t step, int32_t count, int32_t size)
{
    blrc_span span = {0, size - origin};

    if (origin < 0) {
        span.first = -origin;
    }
    if (step != 1) {
        span.first = (span.first + step - 1) / step;
        span.end = span.end > 0 ? (span.end + step - 1) / step : 0;
    }
    if (span.end > count) {
        span.end = count;
    }
    if (span.first > span.end || span.end < 0) {
        span.first = span.end = 0;
    }
    return span;
}

/* The same, compiled once where compilers prefer that. */
static inline blrc_span blrc_inside(int32_t origin, int32_t step, int32_t count, int32_t size)
{
    return blrc_inside_here(origin, step, count, size);
}

static inline int32_t blrc_words(int32_t channels)
{
    return (channels + 31) / 32;
}

#endif

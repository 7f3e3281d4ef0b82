/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products on hosts, one function for each level of the instruction set: first layers, whose inputs are
 * codes, and scores, whose weights are 8 bits wide.
 *
 * Codes are stored as code + 128, without sign. That adds 128 times a row's sum of weights to every sum, wherever the
 * window lies: a tap outside the map reads 128, which is code 0. The thresholds have it added. */
#ifndef BLRC_DOTS_H
#define BLRC_DOTS_H

#include "blrc_tier.h"

#include <string.h>

#define BLRC_DOTS_ROWS 32   /* of a block: one word of the result */
#define BLRC_DOTS_PIXELS 4  /* that are computed together */
#define BLRC_DOTS_BATCH 16  /* times so many in one call */
#define BLRC_DOTS_SHORT 64  /* quads whose pairs of sums fit 16 bits: 64 * 2 * 255 */

/* A row's sum is over `quads` times 4 codes, those of quad q at the window's start + offsets[q].
 *
 * weights: for each block of 32 rows (output channels), quad after quad, of each row 4 weights: 1, -1, or 0 where the
 *   row has no more taps there.
 * A row's bit is 1 where the sum is its threshold or more; missing rows of the last block never pass. */
typedef struct blrc_dots {
    const int32_t *offsets;
    int32_t quads, blocks;
    const int8_t *weights;
    const int32_t *thresholds;
} blrc_dots;

/* Where windows start, and where `blocks` words of each one's bits are OR-ed. `together`: the 4 pixels of x[4 i] and
 * after are pooled into y[4 i]. */
typedef struct blrc_dots_batch {
    int32_t count, together;
    BLRC_ALIGNED(8) const uint8_t *x[BLRC_DOTS_PIXELS * BLRC_DOTS_BATCH];
    BLRC_ALIGNED(8) uint32_t *y[BLRC_DOTS_PIXELS * BLRC_DOTS_BATCH];
} blrc_dots_batch;

static inline int32_t blrc_quad_at(const uint8_t *x)
{
    int32_t quad;

    memcpy(&quad, x, sizeof quad);
    return quad;
}

#ifdef __cplusplus
extern "C" {
#endif

/* `count` is a multiple of 4, or 1. */
void blrc_dots_portable(const blrc_dots *in, const blrc_dots_batch *batch);
void blrc_dots_popcnt(const blrc_dots *in, const blrc_dots_batch *batch);
void blrc_dots_avx2(const blrc_dots *in, const blrc_dots_batch *batch);
void blrc_dots_avx512(const blrc_dots *in, const blrc_dots_batch *batch);

/* For each class the sum of those of its 32 * words weights whose bit in x is set. At most 2^18 words. */
void blrc_sums_portable(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y);
void blrc_sums_popcnt(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y);
void blrc_sums_avx2(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y);
void blrc_sums_avx512(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y);

/* Of this CPU. */
void blrc_dots_run(int32_t tier, const blrc_dots *in, const blrc_dots_batch *batch);
void blrc_sums_run(int32_t tier, int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y);

#ifdef __cplusplus
}
#endif

#endif

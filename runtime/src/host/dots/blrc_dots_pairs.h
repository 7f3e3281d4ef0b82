/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products for CPUs that multiply bytes and add the products by pairs, in 16 bits. They are never cut off
 * there: weights of convolutions are 1, 0 or -1, those of scores are multiplied by 1. Sums of a few quads fit, too.
 *
 * The including file defines the vectors:
 *   BLRC_V                 the type; BLRC_V_LANES its 32-bit lanes: 4 or 8
 *   BLRC_V_TARGET          the level of the instruction set
 *   BLRC_V_LOAD(p), BLRC_V_ZERO, BLRC_V_QUAD(v) the 32 bits in every lane
 *   BLRC_V_PAIRS(u, s)     products of u8 and s8, added by pairs to 16 bits; BLRC_V_WIDE(v) pairs of 16 bits, added
 *   BLRC_V_ADD16, _ADD32, _MAX32, _GREATER32
 *   BLRC_V_SIGNS(v)        the lanes' highest bits
 *   BLRC_V_SUM(v)          the sum of all lanes
 *   BLRC_V_CHOSEN(w, i, v) the bytes of v whose bit is set, from bit 4 * BLRC_V_LANES * i of w on; others 0 */
#ifndef BLRC_DOTS_PAIRS_H
#define BLRC_DOTS_PAIRS_H

#include "blrc_dots.h"

#define BLRC_DOTS_ADD(p) \
    { \
        const BLRC_V v = BLRC_V_QUAD(blrc_quad_at(x[p] + at)); \
\
        s##p##0 = BLRC_V_ADD16(s##p##0, BLRC_V_PAIRS(v, w0)); \
        s##p##1 = BLRC_V_ADD16(s##p##1, BLRC_V_PAIRS(v, w1)); \
    }

#define BLRC_DOTS_WIDEN(p) \
    z[2 * p] = BLRC_V_ADD32(z[2 * p], BLRC_V_WIDE(s##p##0)); \
    z[2 * p + 1] = BLRC_V_ADD32(z[2 * p + 1], BLRC_V_WIDE(s##p##1));

/* z += for each pixel the sums of 2 * BLRC_V_LANES rows, whose first quads' weights are at w. */
BLRC_V_TARGET static inline void blrc_dots_sums_4(const blrc_dots *in, const uint8_t *const *x, const int8_t *w,
                                                  BLRC_V *z)
{
    int32_t first, q;

    for (first = 0; first < in->quads; first += BLRC_DOTS_SHORT) {
        const int32_t end = in->quads - first < BLRC_DOTS_SHORT ? in->quads : first + BLRC_DOTS_SHORT;
        BLRC_V s00 = BLRC_V_ZERO, s10 = BLRC_V_ZERO, s20 = BLRC_V_ZERO, s30 = BLRC_V_ZERO;
        BLRC_V s01 = BLRC_V_ZERO, s11 = BLRC_V_ZERO, s21 = BLRC_V_ZERO, s31 = BLRC_V_ZERO;

        for (q = first; q < end; ++q, w += 4 * BLRC_DOTS_ROWS) {
            const BLRC_V w0 = BLRC_V_LOAD(w), w1 = BLRC_V_LOAD(w + 4 * BLRC_V_LANES);
            const int32_t at = in->offsets[q];

            BLRC_DOTS_ADD(0)
            BLRC_DOTS_ADD(1)
            BLRC_DOTS_ADD(2)
            BLRC_DOTS_ADD(3)
        }
        BLRC_DOTS_WIDEN(0)
        BLRC_DOTS_WIDEN(1)
        BLRC_DOTS_WIDEN(2)
        BLRC_DOTS_WIDEN(3)
    }
}

BLRC_V_TARGET static inline void blrc_dots_sums_1(const blrc_dots *in, const uint8_t *const *x, const int8_t *w,
                                                  BLRC_V *z)
{
    int32_t first, q;

    for (first = 0; first < in->quads; first += BLRC_DOTS_SHORT) {
        const int32_t end = in->quads - first < BLRC_DOTS_SHORT ? in->quads : first + BLRC_DOTS_SHORT;
        BLRC_V s00 = BLRC_V_ZERO, s01 = BLRC_V_ZERO;

        for (q = first; q < end; ++q, w += 4 * BLRC_DOTS_ROWS) {
            const BLRC_V w0 = BLRC_V_LOAD(w), w1 = BLRC_V_LOAD(w + 4 * BLRC_V_LANES);
            const int32_t at = in->offsets[q];

            BLRC_DOTS_ADD(0)
        }
        BLRC_DOTS_WIDEN(0)
    }
}

/* Bits of 2 * BLRC_V_LANES rows: not (threshold > sum). */
BLRC_V_TARGET static inline uint32_t blrc_dots_bits(BLRC_V low, BLRC_V high, const int32_t *thresholds)
{
    const uint32_t few = (uint32_t)BLRC_V_SIGNS(BLRC_V_GREATER32(BLRC_V_LOAD(thresholds), low));
    const uint32_t more = (uint32_t)BLRC_V_SIGNS(BLRC_V_GREATER32(BLRC_V_LOAD(thresholds + BLRC_V_LANES), high));

    return (few | more << BLRC_V_LANES) ^ ((1u << (2 * BLRC_V_LANES)) - 1u);
}

BLRC_V_TARGET static inline void blrc_dots_tile(const blrc_dots *in, int32_t pixels, int32_t together,
                                                const uint8_t *const *x, uint32_t *const *y)
{
    BLRC_V z[2 * BLRC_DOTS_PIXELS];
    int32_t block, row, p;

    for (block = 0; block < in->blocks; ++block) {
        const int32_t *const thresholds = in->thresholds + BLRC_DOTS_ROWS * block;
        const int8_t *const w = in->weights + 4 * BLRC_DOTS_ROWS * in->quads * block;

        for (row = 0; row < BLRC_DOTS_ROWS; row += 2 * BLRC_V_LANES) {
            for (p = 0; p < 2 * BLRC_DOTS_PIXELS; ++p) {
                z[p] = BLRC_V_ZERO;
            }
            if (pixels == 1) {
                blrc_dots_sums_1(in, x, w + 4 * row, z);
            } else {
                blrc_dots_sums_4(in, x, w + 4 * row, z);
            }
            if (together) {
                const BLRC_V low = BLRC_V_MAX32(BLRC_V_MAX32(z[0], z[2]), BLRC_V_MAX32(z[4], z[6]));
                const BLRC_V high = BLRC_V_MAX32(BLRC_V_MAX32(z[1], z[3]), BLRC_V_MAX32(z[5], z[7]));

                y[0][block] |= blrc_dots_bits(low, high, thresholds + row) << row;
            } else {
                for (p = 0; p < pixels; ++p) {
                    y[p][block] |= blrc_dots_bits(z[2 * p], z[2 * p + 1], thresholds + row) << row;
                }
            }
        }
    }
}

BLRC_V_TARGET static inline void blrc_dots_batched(const blrc_dots *in, const blrc_dots_batch *batch)
{
    int32_t p;

    if (batch->count == 1) {
        blrc_dots_tile(in, 1, 0, batch->x, batch->y);
    } else if (batch->together) {
        for (p = 0; p < batch->count; p += BLRC_DOTS_PIXELS) {
            blrc_dots_tile(in, BLRC_DOTS_PIXELS, 1, batch->x + p, batch->y + p);
        }
    } else {
        for (p = 0; p < batch->count; p += BLRC_DOTS_PIXELS) {
            blrc_dots_tile(in, BLRC_DOTS_PIXELS, 0, batch->x + p, batch->y + p);
        }
    }
}

BLRC_V_TARGET static inline void blrc_sums(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights,
                                           int32_t *y)
{
    const BLRC_V ones = BLRC_V_QUAD(0x01010101);
    int32_t k, i, part;

    for (k = 0; k < classes; ++k) {
        BLRC_V sum = BLRC_V_ZERO;

        for (i = 0; i < words; ++i) {
            for (part = 0; part < 8 / BLRC_V_LANES; ++part, weights += 4 * BLRC_V_LANES) {
                const BLRC_V chosen = BLRC_V_CHOSEN(x[i], part, BLRC_V_LOAD(weights));

                sum = BLRC_V_ADD32(sum, BLRC_V_WIDE(BLRC_V_PAIRS(ones, chosen)));
            }
        }
        y[k] = BLRC_V_SUM(sum);
    }
}

#endif

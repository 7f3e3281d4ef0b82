/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products with sdot: a lane is a row, and each instruction adds four products to its sum. */
#include "blrc_dots_neon.h"

#if BLRC_DOTPROD
/* The sums of 16 rows of one pixel. */
#define BLRC_DOTS_DECLARE(p) \
    int32x4_t a##p##0 = vdupq_n_s32(0), a##p##1 = a##p##0, a##p##2 = a##p##0, a##p##3 = a##p##0;

#define BLRC_DOTS_QUAD(p) \
    { \
        const int8x16_t v = blrc_neon_codes(x[p] + at); \
\
        a##p##0 = vdotq_s32(a##p##0, v, w0); \
        a##p##1 = vdotq_s32(a##p##1, v, w1); \
        a##p##2 = vdotq_s32(a##p##2, v, w2); \
        a##p##3 = vdotq_s32(a##p##3, v, w3); \
    }

#define BLRC_DOTS_WEIGHTS \
    const int32_t at = in->offsets[q]; \
    const int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);

#define BLRC_DOTS_BITS(p) blrc_dotprod_bits(a##p##0, a##p##1, a##p##2, a##p##3, thresholds)
#define BLRC_DOTS_MAX(k) vmaxq_s32(vmaxq_s32(a0##k, a1##k), vmaxq_s32(a2##k, a3##k))

static inline uint32_t blrc_dotprod_bits(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d, const int32_t *thresholds)
{
    return blrc_neon_in_order(
        blrc_neon_masks(vcgeq_s32(a, vld1q_s32(thresholds)), vcgeq_s32(b, vld1q_s32(thresholds + 4))),
        blrc_neon_masks(vcgeq_s32(c, vld1q_s32(thresholds + 8)), vcgeq_s32(d, vld1q_s32(thresholds + 12))));
}

/* Bits of the 16 rows whose weights are at w, of four pixels; where they are pooled, bits[0] alone. */
BLRC_TARGET_DOTPROD static void blrc_dotprod_4(const blrc_dots *in, int32_t together, const uint8_t *const *x,
                                               const int8_t *w, const int32_t *thresholds, uint32_t *bits)
{
    int32_t q;
    BLRC_DOTS_DECLARE(0)
    BLRC_DOTS_DECLARE(1)
    BLRC_DOTS_DECLARE(2)
    BLRC_DOTS_DECLARE(3)

    for (q = 0; q < in->quads; ++q, w += 4 * BLRC_DOTS_ROWS) {
        BLRC_DOTS_WEIGHTS

        BLRC_DOTS_QUAD(0)
        BLRC_DOTS_QUAD(1)
        BLRC_DOTS_QUAD(2)
        BLRC_DOTS_QUAD(3)
    }
    if (together) {
        bits[0] = blrc_dotprod_bits(BLRC_DOTS_MAX(0), BLRC_DOTS_MAX(1), BLRC_DOTS_MAX(2), BLRC_DOTS_MAX(3), thresholds);
    } else {
        bits[0] = BLRC_DOTS_BITS(0);
        bits[1] = BLRC_DOTS_BITS(1);
        bits[2] = BLRC_DOTS_BITS(2);
        bits[3] = BLRC_DOTS_BITS(3);
    }
}

BLRC_TARGET_DOTPROD static uint32_t blrc_dotprod_1(const blrc_dots *in, const uint8_t *const *x, const int8_t *w,
                                                   const int32_t *thresholds)
{
    int32_t q;
    BLRC_DOTS_DECLARE(0)

    for (q = 0; q < in->quads; ++q, w += 4 * BLRC_DOTS_ROWS) {
        BLRC_DOTS_WEIGHTS

        BLRC_DOTS_QUAD(0)
    }
    return BLRC_DOTS_BITS(0);
}

void blrc_dots_dotprod(const blrc_dots *in, const blrc_dots_batch *batch)
{
    int32_t thresholds[BLRC_DOTS_ROWS], block, p, i;
    uint32_t low[BLRC_DOTS_PIXELS], high[BLRC_DOTS_PIXELS];

    for (block = 0; block < in->blocks; ++block) {
        const int8_t *const w = in->weights + 4 * BLRC_DOTS_ROWS * in->quads * block;

        blrc_neon_thresholds(in, block, thresholds);
        if (batch->count == 1) {
            batch->y[0][block] |= blrc_dotprod_1(in, batch->x, w, thresholds) |
                                  blrc_dotprod_1(in, batch->x, w + 64, thresholds + 16) << 16;
        }
        for (p = 0; p + BLRC_DOTS_PIXELS <= batch->count; p += BLRC_DOTS_PIXELS) {
            blrc_dotprod_4(in, batch->together, batch->x + p, w, thresholds, low);
            blrc_dotprod_4(in, batch->together, batch->x + p, w + 64, thresholds + 16, high);
            for (i = 0; i < (batch->together ? 1 : BLRC_DOTS_PIXELS); ++i) {
                batch->y[p + i][block] |= low[i] | high[i] << 16;
            }
        }
    }
}
#else
void blrc_dots_dotprod(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_neon(in, batch);
}
#endif

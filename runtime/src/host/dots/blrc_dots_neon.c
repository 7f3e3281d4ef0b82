/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* Sums of 8-bit products with NEON that every AArch64 has: a lane of 16 bits is a row, and each instruction adds one
 * product to eight of them. */
#include "blrc_dots_neon.h"

#if BLRC_NEON
#define BLRC_DOTS_NARROW 63 /* quads whose sums fit 16 bits: 63 * 4 * 128 */

#define BLRC_DOTS_HALF 16   /* rows at a time */

/* Sums of 16 rows of one pixel: row 8 k + i is lane i of vector k. */
#define BLRC_DOTS_DECLARE(p) int16x8_t a##p##0 = vdupq_n_s16(0), a##p##1 = a##p##0;

#define BLRC_DOTS_CODE(p, j) \
    a##p##0 = vmlaq_lane_s16(a##p##0, w##j##0, v, j); \
    a##p##1 = vmlaq_lane_s16(a##p##1, w##j##1, v, j);

#define BLRC_DOTS_QUAD(p) \
    { \
        const int16x4_t v = vget_low_s16(vmovl_s8(vget_low_s8(blrc_neon_codes(x[p] + at)))); \
\
        BLRC_DOTS_CODE(p, 0) \
        BLRC_DOTS_CODE(p, 1) \
        BLRC_DOTS_CODE(p, 2) \
        BLRC_DOTS_CODE(p, 3) \
    }

/* The weights of 16 rows, those of one place of the quad side by side. */
#define BLRC_DOTS_PLACE(j) \
    const int16x8_t w##j##0 = vmovl_s8(vget_low_s8(all.val[j])), w##j##1 = vmovl_high_s8(all.val[j]);

#define BLRC_DOTS_WEIGHTS \
    const int32_t at = in->offsets[q]; \
    const int8x16x4_t all = vld4q_s8(w); \
    BLRC_DOTS_PLACE(0) \
    BLRC_DOTS_PLACE(1) \
    BLRC_DOTS_PLACE(2) \
    BLRC_DOTS_PLACE(3)

#define BLRC_DOTS_STORE(p) \
    vst1q_s16(sums + BLRC_DOTS_HALF * (p), a##p##0); \
    vst1q_s16(sums + BLRC_DOTS_HALF * (p) + 8, a##p##1);

/* Sums of 16 rows of four pixels over quads first <= q < end, at most BLRC_DOTS_NARROW. */
static void blrc_neon_sums_4(const blrc_dots *in, const uint8_t *const *x, const int8_t *w, int32_t first, int32_t end,
                             int16_t *sums)
{
    int32_t q;
    BLRC_DOTS_DECLARE(0)
    BLRC_DOTS_DECLARE(1)
    BLRC_DOTS_DECLARE(2)
    BLRC_DOTS_DECLARE(3)

    for (w += 4 * BLRC_DOTS_ROWS * first, q = first; q < end; ++q, w += 4 * BLRC_DOTS_ROWS) {
        BLRC_DOTS_WEIGHTS

        BLRC_DOTS_QUAD(0)
        BLRC_DOTS_QUAD(1)
        BLRC_DOTS_QUAD(2)
        BLRC_DOTS_QUAD(3)
    }
    BLRC_DOTS_STORE(0)
    BLRC_DOTS_STORE(1)
    BLRC_DOTS_STORE(2)
    BLRC_DOTS_STORE(3)
}

static void blrc_neon_sums_1(const blrc_dots *in, const uint8_t *const *x, const int8_t *w, int32_t first, int32_t end,
                             int16_t *sums)
{
    int32_t q;
    BLRC_DOTS_DECLARE(0)

    for (w += 4 * BLRC_DOTS_ROWS * first, q = first; q < end; ++q, w += 4 * BLRC_DOTS_ROWS) {
        BLRC_DOTS_WEIGHTS

        BLRC_DOTS_QUAD(0)
    }
    BLRC_DOTS_STORE(0)
}

static void blrc_neon_sums(const blrc_dots *in, int32_t pixels, const uint8_t *const *x, const int8_t *w, int32_t first,
                           int32_t end, int16_t *sums)
{
    if (pixels == 1) {
        blrc_neon_sums_1(in, x, w, first, end, sums);
    } else {
        blrc_neon_sums_4(in, x, w, first, end, sums);
    }
}

/* 8 rows: sum >= threshold, where thresholds that no sum reaches, or each does, have been cut to 16 bits. */
static inline uint16x8_t blrc_neon_passes(const int16_t *sums, int32_t together, const int32_t *thresholds)
{
    const int16x4_t low = vqmovn_s32(vld1q_s32(thresholds)), high = vqmovn_s32(vld1q_s32(thresholds + 4));
    int16x8_t sum = vld1q_s16(sums);

    if (together) {
        sum = vmaxq_s16(vmaxq_s16(sum, vld1q_s16(sums + BLRC_DOTS_HALF)),
                        vmaxq_s16(vld1q_s16(sums + 2 * BLRC_DOTS_HALF), vld1q_s16(sums + 3 * BLRC_DOTS_HALF)));
    }
    return vcgeq_s16(sum, vcombine_s16(low, high));
}

/* 16 rows whose sums fit 16 bits. */
static void blrc_neon_narrow(const blrc_dots *in, int32_t pixels, int32_t together, const uint8_t *const *x,
                             const int8_t *w, const int32_t *thresholds, uint32_t *bits)
{
    int16_t sums[BLRC_DOTS_PIXELS * BLRC_DOTS_HALF];
    int32_t p;

    blrc_neon_sums(in, pixels, x, w, 0, in->quads, sums);
    for (p = 0; p < (together ? 1 : pixels); ++p) {
        const int16_t *const of = sums + BLRC_DOTS_HALF * p;

        bits[p] = blrc_neon_in_order(blrc_neon_passes(of, together, thresholds),
                                     blrc_neon_passes(of + 8, together, thresholds + 8));
    }
}

/* 16 rows however many quads there are. */
static void blrc_neon_wide(const blrc_dots *in, int32_t pixels, int32_t together, const uint8_t *const *x,
                           const int8_t *w, const int32_t *thresholds, uint32_t *bits)
{
    int16_t sums[BLRC_DOTS_PIXELS * BLRC_DOTS_HALF];
    int32_t whole[BLRC_DOTS_PIXELS * BLRC_DOTS_HALF];
    int32_t first, i, p;

    memset(whole, 0, sizeof whole);
    for (first = 0; first < in->quads; first += BLRC_DOTS_NARROW) {
        const int32_t rest = in->quads - first;

        blrc_neon_sums(in, pixels, x, w, first, first + (rest < BLRC_DOTS_NARROW ? rest : BLRC_DOTS_NARROW), sums);
        for (i = 0; i < BLRC_DOTS_HALF * pixels; ++i) {
            whole[i] += sums[i];
        }
    }
    memset(bits, 0, (size_t)pixels * sizeof *bits);
    for (p = 0; p < pixels; ++p) {
        for (i = 0; i < BLRC_DOTS_HALF; ++i) {
            bits[together ? 0 : p] |= (uint32_t)(whole[BLRC_DOTS_HALF * p + i] >= thresholds[i]) << i;
        }
    }
}

void blrc_dots_neon(const blrc_dots *in, const blrc_dots_batch *batch)
{
    const int32_t pixels = batch->count < BLRC_DOTS_PIXELS ? 1 : BLRC_DOTS_PIXELS;
    int32_t thresholds[BLRC_DOTS_ROWS], block, row, p, i;
    uint32_t bits[BLRC_DOTS_PIXELS];

    for (block = 0; block < in->blocks; ++block) {
        const int8_t *const w = in->weights + 4 * BLRC_DOTS_ROWS * in->quads * block;

        blrc_neon_thresholds(in, block, thresholds);
        for (p = 0; p + pixels <= batch->count; p += pixels) {
            for (row = 0; row < BLRC_DOTS_ROWS; row += BLRC_DOTS_HALF) {
                if (in->quads <= BLRC_DOTS_NARROW) {
                    blrc_neon_narrow(in, pixels, batch->together, batch->x + p, w + 4 * row, thresholds + row, bits);
                } else {
                    blrc_neon_wide(in, pixels, batch->together, batch->x + p, w + 4 * row, thresholds + row, bits);
                }
                for (i = 0; i < (batch->together ? 1 : pixels); ++i) {
                    batch->y[p + i][block] |= bits[i] << row;
                }
            }
        }
    }
}

/* Bytes 2 half and 2 half + 1 of a word, each bit of them as a byte of ones or zeros. */
static inline int8x16_t blrc_neon_chosen(uint32_t word, int32_t half)
{
    static const uint8_t of_byte[8] = {1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7};
    const uint8x8_t places = vld1_u8(of_byte);
    const uint8_t first = (uint8_t)(word >> (16 * half)), second = (uint8_t)(word >> (16 * half + 8));

    return vreinterpretq_s8_u8(vtstq_u8(vcombine_u8(vdup_n_u8(first), vdup_n_u8(second)), vcombine_u8(places, places)));
}

void blrc_sums_neon(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    int32_t k, i;

    for (k = 0; k < classes; ++k) {
        int32x4_t sum = vdupq_n_s32(0);

        for (i = 0; i < words; ++i, weights += 32) {
            sum = vpadalq_s16(sum, vpaddlq_s8(vandq_s8(vld1q_s8(weights), blrc_neon_chosen(x[i], 0))));
            sum = vpadalq_s16(sum, vpaddlq_s8(vandq_s8(vld1q_s8(weights + 16), blrc_neon_chosen(x[i], 1))));
        }
        y[k] = vaddvq_s32(sum);
    }
}
#else
void blrc_dots_neon(const blrc_dots *in, const blrc_dots_batch *batch)
{
    blrc_dots_portable(in, batch);
}

void blrc_sums_neon(int32_t words, int32_t classes, const uint32_t *x, const int8_t *weights, int32_t *y)
{
    blrc_sums_portable(words, classes, x, weights, y);
}
#endif

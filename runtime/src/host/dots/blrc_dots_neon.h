/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* What the sums of 8-bit products on AArch64 share. */
#ifndef BLRC_DOTS_NEON_H
#define BLRC_DOTS_NEON_H

#include "blrc_neon.h"

#if BLRC_NEON
/* Four codes as bytes with sign, everywhere. */
static inline int8x16_t blrc_neon_codes(const uint8_t *x)
{
    return vreinterpretq_s8_u32(veorq_u32(vdupq_n_u32((uint32_t)blrc_quad_at(x)), vdupq_n_u32(0x80808080u)));
}

/* Thresholds of a block's rows for sums over codes that have their sign: 128 times a row's sum of weights less. */
static inline void blrc_neon_thresholds(const blrc_dots *in, int32_t block, int32_t *to)
{
    const int8_t *const weights = in->weights + 4 * BLRC_DOTS_ROWS * in->quads * block;
    int32_t row, q;

    for (row = 0; row < BLRC_DOTS_ROWS; row += 4) {
        const int32x4_t moved = vld1q_s32(in->thresholds + BLRC_DOTS_ROWS * block + row);
        int32x4_t sum = vdupq_n_s32(0);

        for (q = 0; q < in->quads; ++q) {
            sum = vpadalq_s16(sum, vpaddlq_s8(vld1q_s8(weights + 4 * BLRC_DOTS_ROWS * q + 4 * row)));
        }
        vst1q_s32(to + row, vsubq_s32(moved, vshlq_n_s32(sum, 7)));
    }
}

/* A bit for each of 16 rows in order. */
static inline uint32_t blrc_neon_in_order(uint16x8_t low, uint16x8_t high)
{
    static const uint16_t of_low[8] = {1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7};
    const uint16x8_t places = vld1q_u16(of_low);

    return blrc_neon_bits(low, places, high, vshlq_n_u16(places, 8));
}
#endif

#endif
